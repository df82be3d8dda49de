"""Processes held by a pidfd, so that a number which the kernel has given to another is never taken for them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from mesos_gpu.base.linux.cgroups import cgroups_of
from mesos_gpu.base.linux.processes import all_pids, read_stat
from mesos_gpu.base.linux.processes import start_time as start_time_of
from mesos_gpu.errors import of_want

EXEC_LOOKS = 1000
"""How often to look for the command line of a process that is about to have one."""


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped `pid`."""
    found = read_stat(pid)
    return found is not None and found.state == "T"


def is_in_cgroup(pid: int, path: str) -> bool:
    """Return whether `pid` runs in the cgroup `path`, in any hierarchy."""
    # Before it can be the cgroup that this process itself is in.
    return any(one.path.endswith(path) for one in cgroups_of(pid) or ())


class Process:
    """One running or just ended process; `close()` lets go of it, and does nothing to it."""

    def __init__(self, pid: int, start_time: int, fd: int) -> None:
        self.pid, self.start_time, self._fd = pid, start_time, fd

    @classmethod
    def open(cls, pid: int, *, start_time: int | None = None, cgroup: str | None = None) -> Process | None:
        """Return the process `pid`; None when it is gone, or has another start time or is not in that cgroup.

        Raises OSError where that cannot be seen.
        """
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        with ExitStack() as another:
            another.callback(os.close, fd)
            found = start_time_of(pid)
            other = start_time is not None and found != start_time
            if found is None or other or (cgroup is not None and not is_in_cgroup(pid, cgroup)):
                return None
            another.pop_all()
        return cls(pid, found, fd)

    async def wait(self) -> None:
        """Return when the process has ended; reaps it when it is our child. One waiter at a time."""
        await readable(self._fd)
        self.reap()

    def reap(self) -> None:
        """Take the status of the process if it has ended and is our child."""
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pass

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, unless the process has ended."""
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        """Let go of the process."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


async def readable(fd: int) -> None:
    """Return when `fd` can be read."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(fd)


def pids_naming(texts: Collection[str]) -> list[int]:
    """Return the processes that have one of `texts` as a whole argument of their command line.

    Raises OSError where they cannot be looked at, for want of descriptors or memory.
    """
    wanted = {os.fsencode(text) for text in texts}
    found = []
    for pid in all_pids():
        if not wanted.isdisjoint(_arguments(Path(f"/proc/{pid}"))):
            found.append(pid)
    return found


def _arguments(process: Path) -> list[bytes]:
    """Return the command line of the process whose folder in /proc this is, empty without one."""
    for _ in range(EXEC_LOOKS):
        try:
            line = (process / "cmdline").read_bytes()
            if line:
                return line.split(b"\0")
            (process / "exe").readlink()
        except OSError as error:
            if of_want(error):
                raise
            return []  # it is gone, or a zombie or kernel thread, which run no program
        os.sched_yield()  # in the midst of exec, the old command line is gone and the new one not there
    return []
