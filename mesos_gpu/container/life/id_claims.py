"""Which agent of this machine has which numbers for its containers' users, so that no two have the same.

Each claims its pool (`--userns_remap`) by a file in a folder of the machine's that is gone with its boot, as containers
are. The file is locked while its agent lives; after that it counts as long as a container is on record in the agent's
folder, since that runs on. An agent that is restarted with another range also keeps its former range while it has
containers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.base.file_locks import locked, taken
from mesos_gpu.container.spec.user_namespace import IdRange, read_range
from mesos_gpu.errors import BadInput, Conflict

CLAIMS = Path("/run/mesos-gpu-users")
MAX_CLAIM = 8192
"""Bytes that are read of a claim."""


@contextmanager
def claimed(ids: IdRange, runtime_dir: Path, claims: Path = CLAIMS) -> Iterator[None]:
    """Hold numbers for the agent of a folder.

    Raises Conflict, with whose they are, when another agent has some of them; OSError.
    """
    mine = claims / f"{hashlib.sha256(os.fsencode(runtime_dir.absolute())).hexdigest()[:32]}.claim"
    descriptor = _claim(ids, runtime_dir, mine)
    try:
        yield
    finally:
        if not _has_containers(runtime_dir):
            mine.unlink(missing_ok=True)
        os.close(descriptor)


def _claim(ids: IdRange, runtime_dir: Path, mine: Path) -> int:
    mine.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    door = locked(mine.parent / "lock")
    if door is None:
        raise Conflict(f"{mine.parent / 'lock'} is held by somebody; no agent with --userns_remap starts meanwhile")
    try:
        for path in sorted(mine.parent.glob("*.claim")):
            if path != mine:
                _pass(ids, path)
        descriptor = locked(mine)
        if descriptor is None:
            raise Conflict(f"another agent is running with --runtime_dir={runtime_dir}")
        before = _ranges(os.pread(descriptor, MAX_CLAIM, 0).decode(errors="replace")) or []
        kept = dict.fromkeys([ids, *(before if _has_containers(runtime_dir) else [])])
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{' '.join(map(str, kept))}\n{runtime_dir.absolute()}\n".encode(), 0)
        return descriptor
    finally:
        os.close(door)


def _ranges(claim: str) -> list[IdRange] | None:
    """Return the ranges that a claim names, None for one that its agent did not live to write."""
    try:
        return [read_range(one) for one in claim.partition("\n")[0].split(" ")]
    except BadInput:
        return None


def _has_containers(runtime_dir: Path) -> bool:
    return any((runtime_dir / "containers").glob("*.json"))


def _pass(ids: IdRange, path: Path) -> None:
    """Raise Conflict where the agent of another claim has some of these numbers; remove what nobody holds."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # it has ended just now
    try:
        text = os.read(descriptor, MAX_CLAIM).decode(errors="replace")
        theirs, folder = _ranges(text), Path(text.partition("\n")[2].strip())
        if taken(descriptor, 0.0):
            if theirs is None or not _has_containers(folder):
                path.unlink(missing_ok=True)
                return
            state = "has ended, and its containers run"
        else:
            state = "runs"
        common = [one for one in theirs or () if ids.overlaps(one)]
        if common:
            raise Conflict(
                f"--userns_remap={ids} has numbers of {common[0]}, which the agent with --runtime_dir={folder} gives "
                f"to its containers; it {state}. Each agent of a machine needs numbers of its own"
            )
    finally:
        os.close(descriptor)
