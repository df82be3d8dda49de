"""Reading and writing cgroup control files, alike in both versions."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.ids import ContainerId

Statistics = dict[str, float | int]
"""Numbers of one container by the field names of Mesos' ResourceStatistics."""


def make_root(folders: Iterable[Path]) -> None:
    """Make the root cgroup in each hierarchy. Raises Unavailable when the kernel refuses."""
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"no permission for cgroups: cannot make {folder}: {error.strerror}; run the agent as root on the "
                "host, or in a container that may write to its cgroups"
            ) from error


def make_like_parent(folder: Path) -> None:
    """Make a cgroup in one that exists; a v1 `cpuset` takes no process before it has its parent's CPUs and memory."""
    folder.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists():
            (folder / name).write_text((folder.parent / name).read_text())


def make_fit(folder: Path) -> None:
    """Make a cgroup of version 2, or take the one that is there, so that processes can be put into it. Raises OSError.

    Where runc has made a nested container's cgroup, that and what is beside it can only be threaded ones: anything else
    takes no process (EOPNOTSUPP) until it is one, too. Source: kernel documentation, cgroup-v2, "Threads".
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (read_text(folder / "cgroup.type") or "").strip() == "domain invalid":
        (folder / "cgroup.type").write_text("threaded")


def names_of_cgroups(folder: Path) -> frozenset[ContainerId]:
    """Return the names of the cgroups in a cgroup, none where that does not exist. Raises OSError."""
    try:
        return frozenset(ContainerId(below.name) for below in folder.iterdir() if below.is_dir())
    except FileNotFoundError:
        return frozenset()


def remove_tree(folder: Path) -> bool:
    """Remove a cgroup and those below it; False while one is busy. Raises OSError."""
    for below, _, _ in os.walk(folder, topdown=False, onerror=_unless_gone):
        try:
            os.rmdir(below)  # noqa: PTH106 - Path.rmdir says no more, and this is one call per controller
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
                return False
            raise
    return True


def _unless_gone(error: OSError) -> None:
    """Raise what kept us from looking into a folder: what was not seen is not gone."""
    if not isinstance(error, FileNotFoundError):
        raise error


def write_below(folder: Path, name: str, text: str) -> None:
    """Write to a control file of a cgroup and of all below it, the outermost first; those that are gone are fine."""
    for below, _, files in os.walk(folder):
        if name in files:
            try:
                (Path(below) / name).write_text(text)
            except OSError:
                pass  # it went meanwhile, or is held by one above that is thawed next time


def signal_pids(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def read_text(path: Path) -> str | None:
    """Return a control file's text; None when the cgroup or the file is not there (any more)."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENODEV:  # the cgroup went while the file was open
            return None
        raise


def read_number(path: Path) -> int | None:
    """Return a control file's number; None when it is missing or says `max`."""
    text = read_text(path)
    return int(text) if text is not None and text.strip().isdecimal() else None


def read_table(path: Path) -> dict[str, int]:
    """Return a control file of lines `name number`."""
    pairs = (line.split() for line in (read_text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


Column = tuple[str, str, Callable[[int], float | int]]


def rename(table: Mapping[str, int], columns: Sequence[Column]) -> Statistics:
    """Return the numbers of `table` under Mesos' names and in its units; what is missing stays missing."""
    return {theirs: convert(table[ours]) for theirs, ours, convert in columns if ours in table}
