"""The program that holds a terminal, on a terminal of the test's own."""

from __future__ import annotations

import os
import pty
import socket
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.container.supervisor.holder import GAP, LISTEN, MAX_BEHIND, MUTE, SAID, TERMINAL, Holder, receive
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
