"""Sandboxes by virtual path, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.process.files import MAX_READ, SandboxFiles, as_text

ROOT = "/frameworks/f/executors/e/runs/latest"


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("not yours")
    sandbox = tmp_path / "sandbox"
    (sandbox / "folder").mkdir(parents=True)
    (sandbox / "stdout").write_text("hello\n")
    (sandbox / "folder" / "inner").write_text("inside")
    return sandbox


@pytest.fixture
def files(sandbox: Path) -> Iterator[SandboxFiles]:
    before = {entry.name for entry in Path("/proc/self/fd").iterdir()}

    def resolve(path: str) -> tuple[str, str] | None:
        return (ROOT, str(sandbox)) if path == ROOT or path.startswith(f"{ROOT}/") else None

    yield SandboxFiles(resolve)
    assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before, "a descriptor was left open"


def test_browsing_lists_entries_as_ls_would(files: SandboxFiles) -> None:
    folder, stdout = files.place(ROOT).browse()
    shown = stdout.to_json()
    assert folder.mode & 0o40000
    assert (shown["path"], shown["size"], shown["mode"], shown["nlink"]) == (f"{ROOT}/stdout", 6, "-rw-r--r--", 1)
    assert list(shown) == ["gid", "mode", "mtime", "nlink", "path", "size", "uid"]


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, None, (0, b"hello\n")),
        (0, -1, (0, b"hello\n")),
        (2, 3, (2, b"llo")),
        (-1, None, (6, b"")),
        (6, None, (6, b"")),
        (99, None, (99, b"")),
        (0, 0, (0, b"")),
    ],
)
def test_reading_from_an_offset(
    files: SandboxFiles, offset: int, length: int | None, expected: tuple[int, bytes]
) -> None:
    assert files.place(f"{ROOT}/stdout").read(offset, length) == (*expected, 6)


def test_one_read_returns_at_most_64_kib(files: SandboxFiles, sandbox: Path) -> None:
    (sandbox / "big").write_bytes(b"x" * (MAX_READ + 10))
    assert len(files.place(f"{ROOT}/big").read(0, 10 * MAX_READ)[1]) == MAX_READ == 65536


def test_what_is_not_there_is_not_found(files: SandboxFiles) -> None:
    for path in ("/etc/passwd", f"{ROOT}/nosuch", f"{ROOT}/stdout/x", "/"):
        with pytest.raises(NotFound):
            files.place(path).read(0, None)


@pytest.mark.parametrize(("offset", "length"), [(-2, None), (0, -2)])
def test_negative_numbers_are_refused(files: SandboxFiles, offset: int, length: int) -> None:
    with pytest.raises(BadInput, match="Negative"):
        files.place(f"{ROOT}/stdout").read(offset, length)


def test_a_folder_cannot_be_read_nor_a_file_browsed(files: SandboxFiles) -> None:
    with pytest.raises(BadInput, match="directory"):
        files.place(f"{ROOT}/folder").read(0, None)
    with pytest.raises(BadInput, match="not a directory"):
        files.place(f"{ROOT}/stdout").browse()


@pytest.mark.parametrize("path", ["..", "../secret", "folder/../../secret", "./../secret", "folder/../.."])
def test_dots_do_not_lead_out(files: SandboxFiles, path: str) -> None:
    for what in (lambda p: files.place(p).read(0, None), lambda p: files.place(p).browse()):
        with pytest.raises((BadInput, NotFound)):
            what(f"{ROOT}/{path}")


def test_dots_inside_are_fine(files: SandboxFiles) -> None:
    assert files.place(f"{ROOT}/folder/../stdout").read(0, None)[1] == b"hello\n"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../secret", "folder/../../secret", "/", "..", "/proc/self/environ", "loop"]
)
def test_links_do_not_lead_out(files: SandboxFiles, sandbox: Path, target: str) -> None:
    (sandbox / "loop").symlink_to("loop")
    (sandbox / "link").symlink_to(target)
    (sandbox / "folder" / "out").symlink_to("../../")
    for path in ("link", "link/secret", "link/passwd", "folder/out/secret"):
        with pytest.raises((BadInput, NotFound)):
            files.place(f"{ROOT}/{path}").read(0, None)


def test_links_inside_are_followed(files: SandboxFiles, sandbox: Path) -> None:
    (sandbox / "log").symlink_to("folder/inner")
    (sandbox / "folder" / "up").symlink_to("../stdout")
    assert files.place(f"{ROOT}/log").read(0, None)[1] == b"inside"
    assert files.place(f"{ROOT}/folder/up").read(0, None)[1] == b"hello\n"


def test_a_pipe_or_a_device_does_not_make_the_agent_wait(files: SandboxFiles, sandbox: Path) -> None:
    os.mkfifo(sandbox / "pipe")
    with pytest.raises(BadInput):
        files.place(f"{ROOT}/pipe").read(0, None)


@given(st.text(max_size=30), st.integers(1, 40))
def test_text_read_in_pieces_is_the_text_when_offsets_are_its_bytes(text: str, size: int) -> None:
    data, offset, read = text.encode(), 0, ""
    while offset < len(data):
        piece = as_text(data[offset : offset + max(size, 4)])
        offset += len(piece.encode())
        read += piece
    assert read == text


@given(st.binary(min_size=1, max_size=60))
def test_bytes_that_are_no_text_still_add_up(data: bytes) -> None:
    offset = 0
    while offset < len(data):
        piece = as_text(data[offset:])
        assert piece
        offset += len(piece.encode())
    assert offset == len(data)
