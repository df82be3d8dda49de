"""A file's lock is waited for, no longer than asked.

Whoever is killed may have just begun to start a program, which has its descriptors, and so its locks, until it is
executed; who comes next waits for that.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
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


class HeldLock:
    """The exclusive lock of a file, with the pid of its holder in the file.

    It is released by `close`, when nothing refers to this object any more, and when the process ends, however it ends.
    A process that is forked from the holder does not have it, so a child that outlives the holder does not keep it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _HELD.add(self)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass  # a full disk: the lock is held, and only the error message of another process lacks the pid

    def close(self) -> None:
        """Release the lock; nothing happens when it is released already."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        """Release the lock of an object that nothing refers to."""
        self.close()


def hold(path: Path, wait_s: float = KILLED_S) -> HeldLock | None:
    """Take the lock of a file, which is made if it does not exist; None if it was not free for `wait_s`.

    Raises OSError.
    """
    descriptor = locked(path, wait_s)
    return None if descriptor is None else HeldLock(descriptor)


def holder(path: Path) -> int | None:
    """Return the pid of the process that `hold`s the lock of a file, as that process sees it; None if unknown."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isascii() and text.isdigit() else None


_HELD: weakref.WeakSet[HeldLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_HELD):
        lock.close()


os.register_at_fork(after_in_child=_release_in_child)
