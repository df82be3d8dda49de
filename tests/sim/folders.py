"""Folders that go with the process that made them; if it was killed, the next one to start removes them."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "mesos-gpu-simulated-"
YOUNG_S = 60.0
"""One that is younger may not be locked yet."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_now = time.time


def memory() -> Path:
    """Return the folder for what is gone after a minute: one in memory, where there is one."""
    there = Path("/dev/shm")
    return there if os.access(there, os.W_OK) else Path(tempfile.gettempdir())


@contextlib.contextmanager
def own_folder(within: Path) -> Iterator[Path]:
    """Make a folder that is this process's own: locked for as long as it lives, and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(within: Path) -> list[Path]:
    """Remove the folders of processes that are no more, and return them."""
    swept = []
    for folder in sorted(within.glob(f"{PREFIX}*")):
        try:
            if _now() - folder.stat().st_ctime < YOUNG_S:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # another one was faster, or it is somebody else's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        finally:
            os.close(lock)
    return swept


def end_with_parent() -> None:
    """Have this process killed when the one that started it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
