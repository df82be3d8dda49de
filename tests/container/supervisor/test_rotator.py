"""The program that keeps what a container says in files of limited size."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.container.supervisor.rotator import ALL, LATER, NONE, Stream

MAX = 100


@contextmanager
def stream(folder: Path, rotate: int, compress: int = NONE) -> Iterator[tuple[Stream, int]]:
    """Yield a stream to a file in a folder, and what to say it to."""
    reads, writes = os.pipe()
    at = os.open(folder, os.O_RDONLY)
    file = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    one = Stream(at, "stdout", reads, file, MAX, rotate, compress)
    try:
        yield one, writes
    finally:
        for descriptor in (reads, writes, at, one.file):
            os.close(descriptor)


def say(one: Stream, to: int, data: bytes) -> None:
    os.write(to, data)
    assert one.pump()


def lines(first: int, count: int) -> bytes:
    return b"".join(b"line %04d\n" % number for number in range(first, first + count))


def test_a_full_file_is_cut_at_the_end_of_a_line_and_older_ones_move_on(tmp_path: Path) -> None:
    with stream(tmp_path, 2) as (one, to):
        say(one, to, lines(0, 45))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "stdout.2": lines(20, 10),
        "stdout.1": lines(30, 10),
        "stdout": lines(40, 5),
    }
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


def test_by_default_nothing_older_is_kept(tmp_path: Path) -> None:
    with stream(tmp_path, 0) as (one, to):
        say(one, to, lines(0, 25))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("stdout", lines(20, 5))]


def test_a_line_that_is_too_long_for_a_file_is_cut(tmp_path: Path) -> None:
    with stream(tmp_path, 9) as (one, to):
        say(one, to, b"short\n")
        say(one, to, b"x" * 250)
    assert [(tmp_path / name).stat().st_size for name in ("stdout.3", "stdout.2", "stdout.1", "stdout")] == [
        *(6, 100, 100, 50)
    ]


def test_older_files_are_packed(tmp_path: Path) -> None:
    with stream(tmp_path, 3, ALL) as (one, to):
        say(one, to, lines(0, 35))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stdout", *(f"stdout.{n}.gz" for n in (1, 2, 3))]
    assert gzip.decompress((tmp_path / "stdout.3.gz").read_bytes()) == lines(0, 10)
    with stream(tmp_path, 3, LATER) as (one, to):
        say(one, to, lines(35, 10))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stdout", "stdout.1", "stdout.2.gz", "stdout.3.gz"]


def test_what_is_there_counts(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(lines(0, 9))
    with stream(tmp_path, 1) as (one, to):
        say(one, to, lines(9, 2))
    assert (tmp_path / "stdout.1").read_bytes() == lines(0, 10)


def test_a_file_that_the_task_has_removed_is_made_again(tmp_path: Path) -> None:
    with stream(tmp_path, 1) as (one, to):
        say(one, to, lines(0, 10))
        (tmp_path / "stdout").unlink()
        say(one, to, lines(10, 1))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("stdout", lines(10, 1))]


def test_a_task_in_the_way_cannot_have_more_kept(tmp_path: Path) -> None:
    (tmp_path / "stdout.1").mkdir()
    (tmp_path / "stdout.1" / "file").touch()
    with stream(tmp_path, 1) as (one, to):
        say(one, to, lines(0, 35))
    assert (tmp_path / "stdout").read_bytes() == lines(30, 5)


def test_no_link_of_a_task_is_followed(tmp_path: Path) -> None:
    host, sandbox = tmp_path / "host", tmp_path / "sandbox"
    sandbox.mkdir()
    host.write_text("precious")
    with stream(sandbox, 2, ALL) as (one, to):
        say(one, to, lines(0, 10))
        (sandbox / "stdout").unlink()
        for name in ("stdout", "stdout.1", "stdout.1.gz", "stdout.2.gz"):
            (sandbox / name).symlink_to(host)
        say(one, to, lines(10, 20))
    assert (host.read_text(), host.stat().st_nlink) == ("precious", 1)
    assert not (sandbox / "stdout").is_symlink()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=12))
def test_nothing_is_lost_that_may_be_kept_and_no_file_is_too_large(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with stream(folder, 1000) as (one, to):
            for piece in pieces:
                say(one, to, piece)
        count = len(list(folder.iterdir())) - 1
        files = [*(folder / f"stdout.{number}" for number in range(count, 0, -1)), folder / "stdout"]
        assert b"".join(path.read_bytes() for path in files) == b"".join(pieces)
        assert all(path.stat().st_size <= MAX for path in files)
