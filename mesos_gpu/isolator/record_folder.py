"""A folder of GPU records with a lock, so that only one object of one process uses it."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from mesos_gpu.base.file_locks import HeldLock, hold, holder
from mesos_gpu.errors import BadInput, Conflict, Unavailable
from mesos_gpu.isolator.serial import SerialAccess

LOCK = ".lock"
"""The lock file in the folder; it contains the pid of the process that holds the lock."""


class RecordFolder:
    """A context manager: read and write the folder only inside of it. One thread at a time can enter.

    Entering it for the first time creates the folder if needed and locks it. The lock is released by `close` and by the
    end of the process. Raises Conflict if another process, or another object of this process, holds the lock, and in a
    process forked from this one; Unavailable if the folder cannot be created or locked.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.path = Path(directory).absolute()
        except TypeError:
            raise BadInput(f"the folder of GPU records must be a path, not {directory!r}") from None
        if "\0" in str(self.path):
            raise BadInput(f"{str(self.path)!r} is not valid as the folder of GPU records: it contains NUL")
        self.access = SerialAccess(f"the folder of records {self.path}")
        self._lock: HeldLock | None = None
        self._owner: weakref.ref[object] | None = None

    def __enter__(self) -> None:
        """Wait for other threads, then lock the folder unless this object has locked it already."""
        self.access.__enter__()
        try:
            if self._lock is None:
                self._lock = self._take()
        except BaseException:
            self.access.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """Let the next thread in; the folder stays locked."""
        self.access.__exit__()

    def claim(self, owner: object) -> None:
        """Reserve the folder for `owner` until `close`. Raises Conflict if another live object has reserved it."""
        with self:
            before = None if self._owner is None else self._owner()
            if before is not None and before is not owner:
                raise Conflict(
                    f"the GPU records in {self.path} are used by another isolator of this process; close that one, "
                    "or choose another folder"
                )
            self._owner = weakref.ref(owner)

    def close(self) -> None:
        """Release the lock; entering the context takes it again. Does nothing in a forked child."""
        if self.access.is_forked:
            return
        with self.access:
            lock, self._lock, self._owner = self._lock, None, None
            if lock is not None:
                lock.close()

    def _take(self) -> HeldLock:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = hold(self.path / LOCK)
        except OSError as error:
            raise Unavailable(
                f"cannot lock the folder of GPU records {self.path}: {error}; choose a folder on a local file system "
                "that this process can write to"
            ) from error
        if lock is None:
            raise Conflict(_taken(self.path, holder(self.path / LOCK)))
        return lock


def _taken(path: Path, pid: int | None) -> str:
    danger = "two on one folder would allocate a GPU twice"
    if pid == os.getpid():
        return (
            f"the GPU records in {path} are in use by another isolator of this process ({pid}): {danger}. Close that "
            "one, or choose another folder"
        )
    process = "another process" if pid is None else f"process {pid}"
    return f"the GPU records in {path} are in use by {process}: {danger}. Stop that process, or choose another folder"
