"""Unix domain sockets at paths of any length, and requests and answers of one line each.

The kernel accepts paths of at most 107 bytes; folders can have longer names.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY_USER, ONLY_OWNER = 0o666, 0o600
"""Modes of sockets, which say who can connect."""
_RECEIVE_BYTES = 1 << 16


@contextmanager
def short_path(path: Path | str) -> Iterator[str]:
    """Yield another, short name of a path, for the length of the block. Raises OSError if its folder does not exist."""
    path = Path(path)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path | str, *, timeout_s: float | None = None, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Return a connection to the socket at a path; `timeout_s` remains its timeout. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, kind)
    try:
        connection.settimeout(timeout_s)
        with short_path(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def listen(path: Path, *, mode: int, backlog: int = 128, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Return a socket that listens at a path, in the place of what a process before this one left there.

    `mode` says which users can connect. Creates missing folders. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, kind)
    try:
        with short_path(path) as name:
            # Closed for all users until it has its mode: connect(2) needs the permission to write.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(name)
            Path(name).chmod(mode)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


class LineConnection:
    """Sends lines and receives lines over a connection; blocks for at most the timeout of the connection.

    Methods raise OSError; ConnectionError if the other end has closed the connection.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""

    def __enter__(self) -> LineConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: bytes) -> bytes:
        """Send a line, and return the next line."""
        self.send(request)
        return self.receive()

    def send(self, line: bytes) -> None:
        """Send a line, given without its end."""
        self.connection.sendall(line + b"\n")

    def receive(self) -> bytes:
        """Return the next line, without its end."""
        while b"\n" not in self._received:
            data = self.connection.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the connection was closed before an answer came")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
