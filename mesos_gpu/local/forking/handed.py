"""A fork that another process is the parent of from the start: who forks may end, and the other sees how it ends.

The kernel gives a process whose parent has ended to the nearest process above that has said that it adopts. So there
are two forks: the first one's process makes the second one's and ends, and the latter waits until that has happened.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import struct
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from mesos_gpu.base.linux import libc
from mesos_gpu.local.forking.forked import be_service

_BEGIN = b"1"
_TOLD = struct.Struct("=ii")
"""The pid, and 0; or 0, and the errno for which there is no process."""


class Handed:
    """A process that has another parent by now, and has not begun yet; `watch` is a descriptor of it (a pidfd)."""

    def __init__(self, pid: int, watch: int, begins: int) -> None:
        self.pid, self.watch, self._begins = pid, watch, begins

    def begin(self) -> None:
        """Have it begin; what is known of it here is closed."""
        os.close(self.watch)
        with suppress(BrokenPipeError):  # somebody has ended it
            os.write(self._begins, _BEGIN)
        os.close(self._begins)


def hand_over(module: str, flags: Sequence[str], *, name: str, log: int, end: signal.Signals, parent: int) -> Handed:
    """Fork what `fork_service` does, for `parent`, a process above this one, which adopts it.

    It runs nothing before `begin` is called, and ends when this process dies before that. It gets the signal `end`
    when `parent` dies. Raises OSError when no process can be made.
    """
    with suppress(Exception):  # it fails again in the fork, and its log says why
        import_module(module)
    # Pages of objects that no collection looks at stay shared.
    gc.freeze()
    waits, begins = os.pipe()
    hears, tells = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            os.close(begins)
            _fork_again(waits, tells, module, flags, name, log, end, parent)
        os.close(tells)
        tells = -1
        os.waitpid(between, 0)
        told = os.read(hears, _TOLD.size)
        pid, error = _TOLD.unpack(told) if told else (0, errno.EAGAIN)  # killed before it could tell
        if error:
            raise OSError(error, os.strerror(error))
        return Handed(pid, os.pidfd_open(pid), begins)
    except OSError:
        os.close(begins)
        raise
    finally:
        for number in (waits, hears, tells):
            if number >= 0:
                os.close(number)


def _fork_again(
    waits: int, tells: int, module: str, flags: Sequence[str], name: str, log: int, end: signal.Signals, parent: int
) -> NoReturn:
    """Make the process, tell its pid, and end: it has another parent then."""
    try:
        pid = os.fork()
        if pid == 0:
            if os.read(waits, 1) == _BEGIN:
                be_service(module, flags, name=name, log=log, end=end, parent=parent)
            os._exit(1)
        os.write(tells, _TOLD.pack(pid, 0))
    except OSError as error:
        os.write(tells, _TOLD.pack(0, error.errno or errno.EAGAIN))
    finally:
        os._exit(0)


def adopt(adopts: bool) -> None:
    """Have this process adopt what those below it leave when they end, or no longer: a subreaper of prctl(2)."""
    libc.call("prctl", libc.PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def children() -> frozenset[int]:
    """Return the children of this process, as far as this kernel tells (CONFIG_PROC_CHILDREN)."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (thread / "children").read_text().split()))
    return frozenset(found)
