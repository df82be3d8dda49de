"""A task is on the disk before it runs, and its end before anybody is told: a power cut undoes neither."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.container.spec.config import Termination
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import FRAMEWORK_ID, key
from tests.support.agent.internal import FRAMEWORK, internal, wait_for
from tests.support.agent.running import Running, Start
from tests.support.golden import Golden


class SlowDisk:
    """A disk that syncs nothing before it may; it knows what was asked for, and what is synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Path] = []
        self.synced: list[Path] = []
        self.error: OSError | None = None
        self.free = threading.Event()
        self.free.set()
        self._loop_thread = threading.get_ident()
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, descriptor: int) -> None:
        if threading.get_ident() == self._loop_thread:
            return  # who the agent is
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self.asked.append(path)
        self.free.wait(60)
        if self.error is not None:
            raise self.error
        self.synced.append(path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    made = SlowDisk(monkeypatch)
    yield made
    made.free.set()


def waiting(running: Running) -> str:
    """Return the container that has all but begun."""
    return running.containers.launched[0].container_id


async def test_a_task_runs_once_its_record_is_on_the_disk(
    start: Start, master: ScriptedMaster, disk: SlowDisk, tmp_path: Path
) -> None:
    running = await start()
    disk.free.clear()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")  # that much may be told
    await wait_for(lambda: disk.asked and running.containers.launched)
    assert running.containers.running == {}
    disk.free.set()
    await master.reaches("t1", "TASK_RUNNING")
    run = f"frameworks/{FRAMEWORK_ID}/executors/t1/runs/{waiting(running)}"
    agent = tmp_path / "meta" / "slaves" / running.agent.agent_id
    names = [
        agent / "frameworks",
        agent / run / "tasks/t1/task.info",
        agent / run / "tasks/t1",
        agent / run / "tasks",
        agent / run,
        (agent / run).parent,
        (agent / run).parent.parent,
        (agent / run).parent.parent.parent,
        agent / "frameworks" / FRAMEWORK_ID,
        agent / "frameworks" / FRAMEWORK_ID / "framework.info",
        agent,
    ]
    assert set(names) - set(disk.synced) == set()


async def test_an_end_is_told_once_it_is_on_the_disk(start: Start, master: ScriptedMaster, disk: SlowDisk) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await running.has_no_update_of(key())
    disk.free.clear()
    disk.asked.clear()
    running.containers.end(waiting(running), Termination(exit_code=0))
    await wait_for(lambda: disk.asked)
    running.agent.membership._register()  # what is listed there is told, too
    await asyncio.sleep(0.05)
    assert master.messages("ReregisterSlaveMessage") == []
    assert "TASK_FINISHED" not in master.states("t1")
    disk.free.set()
    await master.reaches("t1", "TASK_FINISHED")
    assert any(path.name == "task.updates" for path in disk.synced)
    await master.got("ReregisterSlaveMessage")


async def test_the_next_process_syncs_what_it_tells_for_the_last(
    start: Start, master: ScriptedMaster, disk: SlowDisk
) -> None:
    first = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    disk.free.clear()
    first.containers.end(waiting(first), Termination(exit_code=0))
    await first.die()
    disk.free.set()
    await asyncio.sleep(0.05)
    disk.synced.clear()
    second = await start(first.containers)
    await master.reaches("t1", "TASK_FINISHED")
    assert any(path.name == "task.updates" for path in disk.synced)
    assert second.agent.agent_id == first.agent.agent_id


async def test_nothing_runs_and_nothing_is_told_where_the_disk_fails(
    start: Start, master: ScriptedMaster, disk: SlowDisk, golden: Golden
) -> None:
    running = await start()
    disk.error = OSError(errno.EIO, "Input/output error")
    master.run(FRAMEWORK, internal())
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert running.agent.stop_reason == golden
    await wait_for(lambda: running.agent.state.frameworks.task(key()).state == "TASK_FAILED")
    assert running.containers.running == {}
    assert "TASK_FAILED" not in master.states("t1")


async def test_what_was_being_launched_when_the_machine_was_restarted_is_in_doubt_for_later_processes_too(
    start: Start, master: ScriptedMaster, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    first = await start()
    master.acknowledges = False
    first.containers.launches_go_on.clear()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")
    first.containers.launches_go_on.set()
    await wait_for(lambda: first.containers.running)
    # The power goes before anything of its run is written; the first process after that can write nothing.
    run = next(first.checkpoints.meta.glob("slaves/*/frameworks/*/executors/*/runs/*/tasks/t1"))
    await first.die()
    (run / "task.updates").unlink()
    first.containers.running.clear()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(first.checkpoints), "log", full)
        second = await start(first.containers, boot="boot-2", follow=False)
        await asyncio.wait_for(second.agent.stopped.wait(), 60)
        await second.die()
    await start(first.containers, boot="boot-2")
    await master.until(lambda: set(master.states("t1")) & {"TASK_GONE", "TASK_LOST", "TASK_DROPPED"} != set())
    assert master.updates("t1")[-1]["status"]["message"] == golden
