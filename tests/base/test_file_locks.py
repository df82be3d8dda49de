"""Who waits for a file's lock, for how long, and that what is locked is the file that lies there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.agent import opening
from mesos_gpu.base import file_locks
from mesos_gpu.base.file_locks import locked
from mesos_gpu.errors import Conflict
from mesos_gpu.images.folders import Folders
from mesos_gpu.local import purging
from mesos_gpu.local.plan import UpOptions
from mesos_gpu.local.supervisor import Supervisor


def held(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = locked(path)
    assert descriptor is not None
    return descriptor


def goes_when_waited_for(monkeypatch: pytest.MonkeyPatch, go: Callable[[], None]) -> None:
    """As a child of somebody who was killed: it has the lock until it is executed."""
    goes = [go]
    monkeypatch.setattr(file_locks.time, "sleep", lambda _: goes.pop()() if goes else None)


def test_a_lock_that_is_not_given_up_is_waited_for_so_long_and_not_had(tmp_path: Path) -> None:
    descriptor = held(tmp_path / "lock")
    before = time.monotonic()
    assert locked(tmp_path / "lock", 0.02) is None
    assert time.monotonic() - before >= 0.02
    os.close(descriptor)
    os.close(held(tmp_path / "lock"))


def test_a_lock_on_a_file_that_its_holder_removed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited would have a file that nobody else finds, and the next one another."""
    path = tmp_path / "lock"
    descriptor = held(path)

    def removed() -> None:
        path.unlink()
        os.close(descriptor)

    goes_when_waited_for(monkeypatch, removed)
    mine = held(path)
    assert os.path.samestat(path.stat(), os.fstat(mine))
    assert locked(path, 0.0) is None
    os.close(mine)


def test_what_is_to_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locked(tmp_path / "lock", make=False)


def of_an_agent(folder: Path) -> None:
    os.close(opening._lock(folder))


def of_a_store(folder: Path) -> None:
    store = Folders(folder)
    store.open()
    store.close()


def of_a_purge(folder: Path) -> None:
    with purging._locked(folder):
        pass


def of_a_box(folder: Path) -> None:
    supervisor = Supervisor(UpOptions(work_dir=folder))
    supervisor._take(folder)
    assert supervisor._lock is not None
    supervisor._lock.close()


HOLDERS = [(of_an_agent, "meta/.lock"), (of_a_store, "lock"), (of_a_purge, "lock"), (of_a_box, "lock")]


@pytest.mark.parametrize(("take", "name"), HOLDERS)
def test_whoever_was_killed_is_waited_for(
    take: Callable[[Path], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = held(tmp_path / name)
    goes_when_waited_for(monkeypatch, lambda: os.close(descriptor))
    take(tmp_path)


@pytest.mark.parametrize(("take", "name"), HOLDERS)
def test_whoever_lives_is_told_of(
    take: Callable[[Path], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked, "__defaults__", (0.0,))
    descriptor = held(tmp_path / name)
    with pytest.raises(Conflict):
        take(tmp_path)
    os.close(descriptor)
