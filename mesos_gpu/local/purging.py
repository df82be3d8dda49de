"""What a box keeps in its work_dir, how much that is, and its removal."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mesos_gpu.base.file_locks import locked
from mesos_gpu.base.linux.processes import read_status
from mesos_gpu.container.cgroups import find_cgroups
from mesos_gpu.errors import Conflict, NotFound, Unavailable
from mesos_gpu.local import record
from mesos_gpu.local.credentials import FOLDER
from mesos_gpu.local.ending import LEFT_BEHIND_S
from mesos_gpu.local.layouts import FILE as POOLS
from mesos_gpu.local.members import FOLDER as MEMBERS
from mesos_gpu.local.network import remove_network
from mesos_gpu.local.plan import cgroups_root, networks_dir, runtime_dir

LOCK = "lock"
_AGENTS = "agent[0-9]*"
_KINDS = (
    ("apps, pods, jobs and their secrets", ("marathon",)),
    ("the master's registry", ("master",)),
    ("images", (f"{_AGENTS}/store",)),
    ("persistent volumes", (f"{_AGENTS}/volumes",)),
    ("sandboxes, with what tasks wrote", (f"{_AGENTS}/slaves",)),
    ("the agents' records", (_AGENTS,)),
    ("logs", ("log",)),
    ("the box's credential", (FOLDER,)),
)
"""Kinds in the order in which they are told; what an earlier one has is not counted in a later one."""
_ALL = ("marathon", "master", _AGENTS, "log", FOLDER, MEMBERS, "run", record.FILE, record.PORTS_FILE, POOLS, LOCK)


@dataclass(frozen=True, slots=True)
class Kept:
    """One kind of what a box keeps, and how many bytes of disk it takes."""

    what: str
    bytes: int


def kept(work_dir: Path) -> list[Kept]:
    """Return what a box keeps. Raises NotFound where no box ever was."""
    if not (work_dir / LOCK).is_file() or not (work_dir / "log").is_dir():
        raise NotFound(f"nothing of a box is kept in {work_dir}")
    counted: set[Path] = set()
    found = []
    for what, patterns in _KINDS:
        paths = [path for pattern in patterns for path in work_dir.glob(pattern)]
        if paths:
            found.append(Kept(what, sum(_size(path, counted) for path in paths)))
        counted.update(paths)
    return found


def purge(work_dir: Path) -> list[str]:
    """Kill the containers of a box that is down, and remove what it keeps and nothing else.

    Returns the names of the other files in its work_dir. Raises Conflict while a box runs there, and Unavailable when a
    process does not end or a file cannot be removed.
    """
    with _locked(work_dir):
        _end_containers(work_dir)
        remove_network(work_dir)
        shutil.rmtree(runtime_dir(work_dir), ignore_errors=True)
        with suppress(OSError):
            runtime_dir(work_dir).parent.rmdir()
        for pattern in _ALL:
            for path in work_dir.glob(pattern):
                _remove(path)
        # Users may have put networks of their own there.
        (networks_dir(work_dir) / "mesos-bridge.conflist").unlink(missing_ok=True)
    for folder in (networks_dir(work_dir), work_dir):
        with suppress(OSError):
            folder.rmdir()
    return sorted(path.name for path in work_dir.iterdir()) if work_dir.is_dir() else []


def _end_containers(work_dir: Path) -> None:
    """Kill every process in the cgroups of the agents, and remove the cgroups.

    The cgroups decide and not the agents' records: a record can be of a container that has ended, or damaged.
    Raises Unavailable that names the processes that do not end.
    """
    record.end_left_behind(runtime_dir(work_dir))
    folders = [*work_dir.glob(_AGENTS), *runtime_dir(work_dir).glob(_AGENTS)]
    roots = {cgroups_root(work_dir, folder.name.removeprefix("agent")) for folder in folders}
    for root in sorted(roots):
        try:
            cgroups = find_cgroups(root)
        except Unavailable:
            return  # without cgroups no container ever ran
        end = time.monotonic() + LEFT_BEHIND_S
        while left := cgroups.containers():
            for container_id in left:
                cgroups.kill(container_id)
                cgroups.remove(container_id)
            if time.monotonic() > end:
                pids = sorted(pid for container_id in left for pid in cgroups.pids(container_id))
                raise Unavailable(
                    f"cannot end {', '.join(map(_description, pids))}, of the containers in the cgroup {root}. Nothing "
                    "was removed. A process in state D waits for a device or a file system: try again when it has ended"
                )
            time.sleep(0.01)
        cgroups.remove_root()


def _description(pid: int) -> str:
    """Return the number, name and state of a process, such as `process 12 (python3, state D)`."""
    try:
        fields = read_status(pid)
    except OSError:
        fields = None
    return f"process {pid}" if fields is None else f"process {pid} ({fields['Name']}, state {fields['State'][0]})"


@contextmanager
def _locked(work_dir: Path) -> Iterator[None]:
    try:
        lock = locked(work_dir / LOCK, make=False)
    except OSError as error:
        raise Unavailable(f"cannot remove what is in {work_dir}: {error.strerror}") from None
    if lock is None:
        raise Conflict(f"a box runs in {work_dir}; `mesos-gpu down --purge` stops it first")
    try:
        yield
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot remove {path}: {error.strerror}; the rest stays as well") from None


def _size(top: Path, without: set[Path]) -> int:
    """Return how much disk what lies below a path takes; links are not followed, and each inode counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if Path(folder, name) not in without]
        for name in (*files, *folders):
            with suppress(OSError):
                status = Path(folder, name).lstat()
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    total += status.st_blocks * 512
    return total
