"""Which cgroups a process is in, and which processes are in a cgroup, in version 1 and 2: cgroups(7).

A cgroup that does not exist has no processes. If one cannot be read, for example because this process has no descriptor
left, OSError is raised: what was not seen may be there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mesos_gpu.base.linux.processes import process_of_thread

PROCESSES = "cgroup.procs"
_OUTSIDE = 0
"""The number that the kernel lists for a process of another pid namespace."""


class Membership(NamedTuple):
    """The cgroup of a process in one hierarchy.

    `controllers` are those of a hierarchy of version 1, such as ("cpu", "cpuacct") or ("name=systemd",). Version 2 has
    none.
    """

    controllers: tuple[str, ...]
    path: str


def read_cgroups(text: str) -> tuple[Membership, ...]:
    """Return what a file /proc/PID/cgroup lists."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return tuple(Membership(tuple(names.split(",")) if names else (), path) for _, names, path in lines)


def cgroups_of(pid: int | str) -> tuple[Membership, ...] | None:
    """Return the cgroups of a process, None if it does not exist. Raises OSError if that cannot be seen."""
    try:
        return read_cgroups(Path(f"/proc/{pid}/cgroup").read_text("utf-8", "surrogateescape"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def container_of(memberships: Iterable[Membership], root: str) -> str:
    """Return the name of the container that a process is in; "" for none.

    `root` is the cgroup of all containers, relative to where the hierarchy is mounted. A container's processes are in
    the cgroup with its name below `root`, or below that.
    """
    for membership in memberships:
        _, found, below = f"{membership.path}/".partition(f"/{root}/")
        name = below.partition("/")[0]
        if found and name:
            return name
    return ""


def container_of_process(pid: int, root: str) -> str:
    """Return the name of the container that a process is in; "" for none, and if it cannot be seen."""
    try:
        return container_of(cgroups_of(pid) or (), root)
    except OSError:
        return ""


def processes_in(cgroup: Path, file: str = PROCESSES) -> frozenset[int]:
    """Return the processes, or what another `file` lists, of a cgroup and of those below it. Raises OSError.

    Processes of other pid namespaces have no number here.
    """
    return frozenset().union(*_listed(cgroup, file)) - {_OUTSIDE}


def is_populated(cgroup: Path) -> bool:
    """Return whether a process is in a cgroup, or in one below it, also of another pid namespace. Raises OSError."""
    return any(_listed(cgroup, PROCESSES))


def _listed(cgroup: Path, file: str) -> Iterator[set[int]]:
    for below, _, files in os.walk(cgroup, onerror=_raise_unless_removed):
        if file in files:
            try:
                yield _numbers(Path(below, file))
            except OSError as error:
                # runc makes a nested container's cgroup of version 2 a threaded one, of which the kernel lists threads
                # only. Source: Linux Documentation/admin-guide/cgroup-v2.rst, "Threads".
                if error.errno != errno.EOPNOTSUPP:
                    raise
                threads = _numbers(Path(below, "cgroup.threads"))
                yield {pid for thread in threads if (pid := _process_of(thread)) is not None}


def _process_of(thread: int) -> int | None:
    return thread if thread == _OUTSIDE else process_of_thread(thread)


def _numbers(path: Path) -> set[int]:
    try:
        return {int(line) for line in path.read_text().split()}
    except OSError as error:
        _raise_unless_removed(error)
        return set()


def _raise_unless_removed(error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENODEV):  # ENODEV: removed while a file of it was open
        raise error
