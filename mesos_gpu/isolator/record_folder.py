"""A folder of records that one object of one process uses at a time."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from mesos_gpu.errors import BadInput, Conflict, Unavailable
from mesos_gpu.file_locks import HeldLock, hold, holder
from mesos_gpu.isolator.serial import SerialAccess

LOCK = ".lock"
"""The file in the folder whose lock its user holds; it has the pid of that process."""


class RecordFolder:
    """The context in which a folder is read and written, by one thread at a time.

    The first call takes the lock of the folder, which is made if it does not exist; `close` and the end of the process
    release it. The context raises Conflict when another process, or another object of this one, has the folder, and in
    a process that was forked from this one; Unavailable when the folder cannot be made or locked.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.path = Path(directory).absolute()
        except TypeError:
            raise BadInput(f"a folder of GPU records must be a path, not {directory!r}") from None
        if "\0" in str(self.path):
            raise BadInput(f"{str(self.path)!r} cannot be a folder of GPU records: it has a NUL character")
        self.access = SerialAccess(f"the folder of records {self.path}")
        self._lock: HeldLock | None = None
        self._owner: weakref.ref[object] | None = None

    def __enter__(self) -> None:
        """Wait for other threads, then have the folder."""
        self.access.__enter__()
        try:
            if self._lock is None:
                self._lock = self._take()
        except BaseException:
            self.access.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """Let the next thread in; the lock stays this object's."""
        self.access.__exit__()

    def claim(self, owner: object) -> None:
        """Have the folder for `owner` until `close`. Raises Conflict while another object has claimed it."""
        with self:
            before = None if self._owner is None else self._owner()
            if before is not None and before is not owner:
                raise Conflict(
                    f"the GPU records in {self.path} are used by another isolator of this process; close that one, "
                    "or choose another folder"
                )
            self._owner = weakref.ref(owner)

    def close(self) -> None:
        """Let others have the folder; the next call takes it again. A forked child has nothing to release."""
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
