"""What a box keeps in its work_dir, how much that is, and its removal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mesos_gpu.errors import Conflict, NotFound, Unavailable
from mesos_gpu.file_locks import locked
from mesos_gpu.local import record
from mesos_gpu.local.credentials import FOLDER
from mesos_gpu.local.layouts import FILE as POOLS
from mesos_gpu.local.members import FOLDER as MEMBERS
from mesos_gpu.local.network import remove_network
from mesos_gpu.local.plan import networks_dir, runtime_dir

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
    """Remove what a box that is down keeps, and nothing else; return the names of what else lies in its work_dir.

    Raises Conflict while a box runs there or containers of it may still run, Unavailable.
    """
    with _locked(work_dir):
        left = record.left_behind(runtime_dir(work_dir))
        if left:
            raise Conflict(
                f"{len(left)} containers of the box may still run, so what is known of them is kept: "
                "`mesos-gpu up` takes them over, and `mesos-gpu down --purge` then ends them"
            )
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
