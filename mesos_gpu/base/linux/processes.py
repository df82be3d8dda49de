"""What the kernel says of processes in /proc; proc(5) gives the formats.

Functions return None for a process that does not exist, and raise OSError if it cannot be seen, for example because
this process has no descriptor left: then nothing is known, and no process may be taken for ended.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ENDED = (FileNotFoundError, ProcessLookupError)


class Stat(NamedTuple):
    """Fields of /proc/PID/stat. A pid and its start time together name one process until the machine restarts.

    `start_time` is in clock ticks since boot. `arguments` are the addresses at which the command line begins and ends,
    zeros if another user asks.
    """

    state: str
    parent: int
    session: int
    start_time: int
    arguments: tuple[int, int]

    @property
    def is_ended(self) -> bool:
        """Return whether the process has ended, and its parent has not yet taken its exit status."""
        return self.state in ("Z", "X")


def read_stat(pid: int | str) -> Stat | None:
    """Return the fields of a process; `pid` can be "self"."""
    text = _read(pid, "stat")
    if text is None:
        return None
    # Field 2, the name, is in parentheses and can contain anything. What follows begins with field 3.
    fields = text.rpartition(")")[2].split()
    return Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[19]), (int(fields[45]), int(fields[46])))


def start_time(pid: int) -> int | None:
    """Return when a process started, also of one that has ended and still has its pid."""
    found = read_stat(pid)
    return None if found is None else found.start_time


def running_start_time(pid: int) -> int | None:
    """Return when a process started; None if it has ended, whether or not it still has its pid."""
    found = read_stat(pid)
    return None if found is None or found.is_ended else found.start_time


def read_status(pid: int) -> dict[str, str] | None:
    """Return the fields of /proc/PID/status by name, such as `Tgid` and `NSpid`."""
    text = _read(pid, "status")
    if text is None:
        return None
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def process_of_thread(thread: int) -> int | None:
    """Return the process of a thread."""
    status = read_status(thread)
    return None if status is None else int(status["Tgid"])


def all_pids() -> list[int]:
    """Return the pids of all processes that this process sees."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def open_devices(pid: int) -> Iterator[int]:
    """Yield the numbers of the character devices that a process has open; none for one that does not exist."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names, not paths
    except _ENDED:
        return
    for descriptor in descriptors:
        try:
            status = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - many of them
        except _ENDED:
            continue
        if stat.S_ISCHR(status.st_mode):
            yield status.st_rdev


def read_boot_id() -> str:
    """Return the kernel's name for this run of the machine, which is different after each boot: random(4)."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _read(pid: int | str, name: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/{name}").read_text("latin-1")
    except _ENDED:
        return None
