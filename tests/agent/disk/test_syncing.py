"""One sync serves all who wait for it; nobody is called before what they wait for is on the disk."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.syncing import Syncing
from mesos_gpu.errors import Unavailable


class Slow:
    """fsync that takes until it may go on, and keeps what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.go_on = threading.Event()
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        self.synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch)


def written(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_text(name)
    return [folder / name for name in names]


async def test_what_is_on_the_disk_is_not_waited_for(tmp_path: Path, slow: Slow) -> None:
    said: list[str] = []
    Syncing().after(lambda: said.append("at once"))
    assert said == ["at once"]


async def test_one_sync_serves_all_of_a_turn_and_what_comes_later_has_its_own(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    one, other, late = written(tmp_path, "one", "other", "late")
    syncing.wrote(one)
    syncing.after(lambda: said.append(("first", sorted(slow.synced))))
    syncing.wrote(other)
    second = syncing.synced()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    syncing.wrote(late)
    syncing.after(lambda: said.append(("late", sorted(slow.synced))))
    third = syncing.synced()
    assert said == []
    slow.go_on.set()
    await asyncio.wait_for(second(), 60)
    await asyncio.wait_for(third(), 60)
    await second()
    assert said == [("first", ["one", "other"]), ("late", ["late", "one", "other"])]
    syncing.close()


async def test_what_is_synced_together_is_synced_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A disk's flushes one after the other would be most of the time that a launch takes.
    together = threading.Barrier(3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: together.wait(60))
    syncing = Syncing()
    syncing.wrote(*written(tmp_path, "one", "other", "third"))
    await asyncio.wait_for(syncing.synced()(), 60)
    syncing.close()


async def test_who_asks_for_nothing_new_waits_for_what_is_under_way(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    done = syncing.synced()
    syncing.after(lambda: said.append("second"))
    assert said == []
    slow.go_on.set()
    await asyncio.wait_for(done(), 60)
    assert said == ["first", "second"]
    syncing.close()


async def test_what_waits_for_a_disk_that_fails_is_never_done(tmp_path: Path, slow: Slow) -> None:
    syncing, said, failed = Syncing(), [], []
    syncing.on_failure = failed.append
    slow.error = OSError(5, "Input/output error")
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    slow.go_on.set()
    done = syncing.synced()
    with pytest.raises(Unavailable, match="Input/output error"):
        await asyncio.wait_for(done(), 60)
    syncing.after(lambda: said.append("later"))
    with pytest.raises(Unavailable):
        await syncing.synced()()
    assert said == []
    assert failed == [slow.error]
    syncing.close()


async def test_nothing_begins_once_it_is_closed(tmp_path: Path, slow: Slow) -> None:
    syncing, said = Syncing(), []
    syncing.wrote(*written(tmp_path, "one"))
    syncing.after(lambda: said.append("first"))
    syncing.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert said == slow.synced == []


async def test_its_threads_are_there_before_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing = Syncing()
    syncing.begin_threads()
    try:

        def refused(thread: threading.Thread) -> None:
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            for name in "abcdefghij":
                (tmp_path / name).touch()
                syncing.wrote(tmp_path / name)
            await asyncio.wait_for(syncing.synced()(), 60)
    finally:
        syncing.close()
