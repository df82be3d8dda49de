"""The program that holds a terminal, on a terminal of the test's own."""

from __future__ import annotations

import gzip
import os
import pty
import socket
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.container.supervisor.holder import GAP, LISTEN, MAX_BEHIND, MUTE, SAID, TERMINAL, Holder, receive
from mesos_gpu.container.supervisor.rotator import ALL, LATER, NONE, Stream
from tests.support.container.waiting import until


class Held:
    """A terminal with its holder; `says` is the side of the container's processes."""

    def __init__(self, folder: Path) -> None:
        terminal, self.says = pty.openpty()
        modes = termios.tcgetattr(self.says)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(self.says, termios.TCSANOW, modes)
        self.file, self.place = folder / "stdout", str(folder / "door")
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind(self.place)
        door.listen()
        output = os.open(self.file, os.O_WRONLY | os.O_CREAT)

        def hold() -> None:
            Holder(terminal, door, output).run()
            os.close(output)
            os.close(terminal)

        self.thread = threading.Thread(target=hold)
        self.thread.start()

    def connect(self) -> socket.socket:
        """Return a listener's connection; the terminal that it is given is closed again."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(self.place)
        word, (terminal,), _, _ = socket.recv_fds(connection, 16, 1)
        assert word == TERMINAL
        assert os.isatty(terminal)
        os.close(terminal)
        return connection

    def say(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.says, data) :]

    def until_written(self, text: bytes) -> None:
        """Return when the file has a text."""
        until(lambda: text in self.file.read_bytes())

    def end(self) -> None:
        """Leave the terminal; return when the holder has ended."""
        if self.says >= 0:
            os.close(self.says)
        self.says = -1
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path)
    yield made
    made.end()


def heard(connection: socket.socket, text: bytes) -> bytes:
    said = b""
    while text not in said:
        packet = connection.recv(1 << 16)
        assert packet[:1] == SAID
        said += packet[1:]
    return said


def test_what_is_said_goes_to_the_file_and_to_those_who_listen_and_ends_for_both(held: Held) -> None:
    with held.connect() as one, held.connect() as other, held.connect() as deaf:
        held.say(b"before ")
        held.until_written(b"before")
        for connection in (one, other):
            connection.send(LISTEN)
        held.say(b"again")
        assert [heard(connection, b"again") for connection in (one, other)] == [b"again", b"again"]
        held.say(b"last words")
        held.end()
        assert heard(one, b"last words")
        assert heard(other, b"last words")
        assert [one.recv(1), other.recv(1), deaf.recv(1)] == [b"", b"", b""]
    assert held.file.read_bytes().endswith(b"last words")


def hears(listener: socket.socket, wanted: bytes) -> bool:
    try:
        return wanted in listener.recv(1 << 16)
    except TimeoutError:
        return False


def test_who_does_not_read_misses_much_is_told_so_and_may_listen_again(held: Held) -> None:
    with held.connect() as slow:
        slow.send(LISTEN)
        while not held.file.exists() or held.file.stat().st_size < 4 * MAX_BEHIND:
            held.say(b"x" * 4096)
        size = 0
        while (packet := slow.recv(1 << 16)) != GAP:
            size += len(packet) - 1
        assert 0 < size < held.file.stat().st_size
        slow.send(LISTEN)
        slow.settimeout(0.1)  # what is said may come to the holder before the wish to listen
        held.say(b"!")
        while not hears(slow, b"!"):
            held.say(b"!")
        slow.send(MUTE)
        held.say(b"quiet")
        held.end()
    assert held.file.read_bytes().endswith(b"quiet")


def test_one_that_leaves_is_forgotten(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.connect().close()
    with held.connect() as one:
        one.send(LISTEN)
        held.say(b"go on")
        held.until_written(b"go on")
    held.end()


def test_a_runtime_that_sends_no_terminal_is_noticed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "console"))
        server.listen()
        with socket.socket(socket.AF_UNIX) as runtime:
            runtime.connect(str(tmp_path / "console"))
            runtime.send(b"nothing")
        assert receive(server) is None


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
