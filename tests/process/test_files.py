"""Sandboxes by virtual path, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.process.files import MAX_READ, SandboxFiles, as_text
from mesos_gpu.process.log_file import KEPT, begin_new_file

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


TALK = """
import logging, sys
from mesos_gpu.process.log_file import LogFile
logging.basicConfig(handlers=[LogFile(int(sys.argv[1]))], format="%(message)s", level=logging.INFO)
for number in range(int(sys.argv[2])):
    logging.info("line %05d", number)
print("the end")
"""
LINES = 500


def talk(log: Path, max_bytes: int, lines: int = LINES) -> None:
    with log.open("ab") as output:
        command = [sys.executable, "-c", TALK, str(max_bytes), str(lines)]
        subprocess.run(command, stdout=output, stderr=output, check=True)


def test_a_full_log_is_begun_anew_and_four_older_ones_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    talk(log, 1100)
    files = [tmp_path / f"agent.log.{number}" for number in range(KEPT, 0, -1)]
    assert sorted(tmp_path.iterdir()) == sorted([log, *files])
    text = b"".join(path.read_bytes() for path in [*files, log]).decode().splitlines()
    first = LINES - (len(text) - 1)
    assert text == [*(f"line {number:05}" for number in range(first, LINES)), "the end"]  # nothing is lost in between
    assert all(path.stat().st_size <= 1100 + 11 for path in files)


def test_without_a_limit_or_in_a_pipe_nothing_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    talk(log, 0)
    assert (list(tmp_path.iterdir()), len(log.read_text().splitlines())) == ([log], LINES + 1)
    command = [sys.executable, "-c", TALK, "100", "50"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert len(done.stderr.splitlines()) == 50


def test_a_log_keeps_its_mode(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    log.touch(0o600)
    talk(log, 1100)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_file_that_somebody_has_renamed_is_left_alone(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / "log").rename(tmp_path / "log.old")
    assert begin_new_file(log, tmp_path / "log") is False
    (tmp_path / "log").touch()
    assert begin_new_file(log, tmp_path / "log") is False
    os.close(log)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.old"]


def test_a_log_that_cannot_be_begun_anew_goes_on(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / ".log.new").mkdir()  # as a full disk, or a folder that is not ours
    with pytest.raises(OSError):
        begin_new_file(log, tmp_path / "log")
    assert os.write(log, b"more") == 4
    os.close(log)
    assert (tmp_path / "log").read_bytes() == b"more"


def test_of_a_program_that_cannot_begin_a_new_log_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / ".agent.log.new").mkdir()
    log = tmp_path / "agent.log"
    talk(log, 1100)
    assert len(log.read_text().splitlines()) == LINES + 1
