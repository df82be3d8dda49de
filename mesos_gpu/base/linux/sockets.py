"""Unix domain sockets at paths of any length. The kernel accepts at most 107 bytes; folders can have longer names."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY_USER, ONLY_OWNER = 0o666, 0o600
"""Modes of sockets, which say who can connect."""


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
