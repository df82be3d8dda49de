"""A file's lock is waited for, no longer than asked.

Whoever is killed may have just begun to start a program, which has its descriptors, and so its locks, until it is
executed; who comes next waits for that.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

KILLED_S = 2.0
"""What somebody who was killed had just begun to start is executed by then."""
_LOOK_S = 0.005


def taken(descriptor: int, wait_s: float) -> bool:
    """Take the exclusive flock(2) of an open file; return False when it was not free for `wait_s`. Raises OSError."""
    end_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)


def locked(path: Path, wait_s: float = KILLED_S, *, make: bool = True) -> int | None:
    """Open a file and take its lock, which is held until the descriptor is closed; None when it was not free.

    It is the file that has this path once it is locked: one that its holder removed meanwhile locks nobody out. With
    `make` it is made where it is not there. Raises OSError.
    """
    end_s = time.monotonic() + wait_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
        try:
            if not taken(descriptor, max(end_s - time.monotonic(), 0.0)):
                os.close(descriptor)
                return None
            if _is(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
