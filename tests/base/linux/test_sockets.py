"""Unix domain sockets at paths that are longer than the kernel accepts."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from mesos_gpu.base.linux.peers import credentials_of
from mesos_gpu.base.linux.sockets import EVERY_USER, ONLY_OWNER, LineConnection, connect, listen, short_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    return folder / "socket"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_two_programs_meet_at_a_path_of_any_length(path: Path, kind: int) -> None:
    with listen(path, mode=ONLY_OWNER, kind=kind) as server, connect(path, timeout_s=5.0, kind=kind) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"x")
            assert accepted.recv(1) == b"x"
            assert credentials_of(accepted) == (os.getpid(), os.geteuid(), os.getegid())


@pytest.mark.parametrize("mode", [ONLY_OWNER, EVERY_USER])
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_the_mode_says_who_can_connect_whatever_the_umask(path: Path, mode: int, umask: int) -> None:
    path.parent.mkdir(parents=True)
    before = os.umask(umask)
    try:
        listen(path, mode=mode).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_nobody_else_can_connect_before_it_has_its_mode(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    change = Path.chmod

    def chmod(self: Path, mode: int) -> None:
        modes.append(stat.S_IMODE(self.stat().st_mode))
        change(self, mode)

    path.parent.mkdir(parents=True)
    before = os.umask(0)
    monkeypatch.setattr(Path, "chmod", chmod)
    try:
        listen(path, mode=EVERY_USER).close()
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_what_an_earlier_process_left_is_replaced(path: Path) -> None:
    listen(path, mode=ONLY_OWNER).close()
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    with listen(path, mode=ONLY_OWNER), connect(path):
        pass


def test_a_failure_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for failing in (lambda: connect(tmp_path / "missing"), lambda: connect(tmp_path / "no" / "folder")):
        with pytest.raises(FileNotFoundError):
            failing()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        listen(tmp_path / "folder", mode=ONLY_OWNER)
    with short_path(tmp_path / "x"):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_lines_are_asked_and_answered_however_they_arrive() -> None:
    ours, theirs = socket.socketpair()
    with theirs, LineConnection(ours) as lines:
        theirs.sendall(b"one\ntw")
        assert lines.ask(b"question") == b"one"
        assert theirs.recv(100) == b"question\n"
        theirs.sendall(b"o\nthree\n")
        assert [lines.receive(), lines.receive()] == [b"two", b"three"]


def test_an_answer_that_does_not_come_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with LineConnection(ours) as lines:
        ours.settimeout(0.01)
        with theirs:
            theirs.sendall(b"half")
            with pytest.raises(TimeoutError):
                lines.receive()
        with pytest.raises(ConnectionError):
            lines.receive()
