"""Whether the kernel ended a process for want of memory: its memory cgroup counts whom it has to kill.

Kernel Documentation/admin-guide/cgroup-v2.rst, memory.events; cgroup-v1/memory.rst, memory.oom_control.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from mesos_gpu.base.linux.cgroups import read_cgroups

ROOT = Path("/sys/fs/cgroup")
_COUNT = "oom_kill"
_UNLIMITED = 1 << 60
"""Version 1 says "no limit" as a number about this large."""


@dataclass(frozen=True, slots=True)
class MemoryWatch:
    """The memory cgroup of a process as it was when the watch began."""

    folder: Path | None
    """None: nobody knows its cgroup."""
    killed: int

    @classmethod
    def of(cls, pid: int, root: Path = ROOT, proc: Path = Path("/proc")) -> MemoryWatch:
        """Begin to watch; for a process that is gone, or a machine without such cgroups, without knowing anything."""
        try:
            folder = memory_cgroup((proc / str(pid) / "cgroup").read_text(), root)
        except OSError:
            folder = None
        return cls(folder, _kills(folder))

    def why(self, status: int) -> str:
        """Return what there is to say of a process that ended so; empty if memory was no reason."""
        if status != -signal.SIGKILL or _kills(self.folder) <= self.killed:
            return ""
        limit = _limit(self.folder)
        has = "" if limit is None else f", which may have {limit / 2**20:.1f} MiB"
        return f": the kernel killed it for want of memory in {self.folder}{has}"


def memory_cgroup(text: str, root: Path) -> Path | None:
    """Return the memory cgroup that a process' /proc/PID/cgroup names: of version 1 if memory is there, else of 2."""
    memberships = read_cgroups(text)
    for one in memberships:
        if "memory" in one.controllers:
            return root / "memory" / one.path.lstrip("/")
    return next((root / one.path.lstrip("/") for one in memberships if not one.controllers), None)


def _kills(folder: Path | None) -> int:
    for name in ("memory.events", "memory.oom_control"):
        try:
            lines = (folder / name).read_text().splitlines() if folder else []
        except OSError:
            continue
        for line in lines:
            word, _, number = line.partition(" ")
            if word == _COUNT and number.isdecimal():
                return int(number)
    return 0


def _limit(folder: Path | None) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            said = (folder / name).read_text().strip() if folder else ""
        except OSError:
            continue
        if said.isdecimal() and int(said) < _UNLIMITED:
            return int(said)
    return None
