"""An agent that is started again: it is the same one, and its tasks run on or are told of."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.messages import devolve
from tests.fakes.containerizer import FakeContainerizer
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID, framework
from tests.support.agent.internal import FRAMEWORK, internal, wait_for
from tests.support.agent.running import Start
from tests.support.golden import Golden


async def test_killed_and_started_again_it_is_the_same_agent_and_its_task_runs_on(
    start: Start, master: ScriptedMaster, golden: Golden
) -> None:
    first = await start()
    master.acknowledges = False
    master.run(FRAMEWORK, internal())
    before = await master.reaches("t1", "TASK_STARTING")
    await wait_for(lambda: first.containers.running)
    await first.die()
    master.received.clear()
    master.acknowledges = True
    containers = FakeContainerizer(gpus=4, running=first.containers.running)
    second = await start(containers)
    document = await master.got("ReregisterSlaveMessage")
    assert document["slave"]["id"]["value"] == AGENT_ID
    assert [t["state"] for t in document["tasks"]] == ["TASK_RUNNING"]
    await master.reaches("t1", "TASK_RUNNING")
    assert master.updates("t1")[0]["uuid"] == before["uuid"]
    (container_id,) = containers.running
    containers.end(container_id, Termination(exit_code=3))
    update = await master.reaches("t1", "TASK_FAILED")
    assert update["status"]["message"] == golden
    assert second.agent.agent_id == AGENT_ID


async def test_an_end_while_it_was_away_is_told_when_it_is_back(start: Start, master: ScriptedMaster) -> None:
    first = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await first.die()
    (container_id,) = first.containers.running
    ended = FakeContainerizer(gpus=4, ended={container_id: Termination(exit_code=0)})
    await start(ended)
    await master.reaches("t1", "TASK_FINISHED")


async def test_a_container_that_is_gone_is_told_of_as_gone(start: Start, master: ScriptedMaster) -> None:
    first = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await first.die()
    await start(FakeContainerizer(gpus=4))
    update = await master.reaches("t1", "TASK_GONE")
    assert update["status"]["reason"] == "REASON_SLAVE_RESTARTED"


async def test_a_framework_that_was_removed_and_came_back_hears_of_its_tasks(
    start: Start, master: ScriptedMaster
) -> None:
    """Another master may have it under the id that it had: what was ended for its removal says nothing of that."""
    first = await start()
    master.run(FRAMEWORK, internal("t1"))
    await master.reaches("t1", "TASK_RUNNING")
    master.send("ShutdownFrameworkMessage", {"framework_id": {"value": FRAMEWORK_ID}})
    await wait_for(lambda: not first.agent.state.frameworks.active)
    master.run(FRAMEWORK, internal("t2"))
    await master.reaches("t2", "TASK_RUNNING")
    await first.die()
    containers = FakeContainerizer(gpus=4, running=first.containers.running)
    await start(containers)
    (container_id,) = containers.running
    containers.end(container_id, Termination(exit_code=0))
    await master.reaches("t2", "TASK_FINISHED")
    master.run(FRAMEWORK, internal("t3"))
    await master.reaches("t3", "TASK_RUNNING")


async def test_a_framework_that_was_being_removed_is_not_told_of_its_tasks(
    start: Start, master: ScriptedMaster
) -> None:
    first = await start()
    master.run(FRAMEWORK, internal("t1"))
    await master.reaches("t1", "TASK_RUNNING")
    first.containers.obeys = False
    master.send("ShutdownFrameworkMessage", {"framework_id": {"value": FRAMEWORK_ID}})
    await wait_for(lambda: first.agent.state.frameworks.active[FRAMEWORK_ID].silenced)
    await first.die()
    (container_id,) = first.containers.running
    containers = FakeContainerizer(gpus=4, running=first.containers.running)
    containers.obeys = False
    second = await start(containers)
    assert second.agent.state.frameworks.active[FRAMEWORK_ID].silenced
    containers.end(container_id, Termination(signal=15))
    await wait_for(lambda: not second.agent.state.frameworks.active)
    assert master.states("t1")[-1] == "TASK_RUNNING"


async def test_after_a_reboot_nothing_is_taken_up_again(start: Start, master: ScriptedMaster, golden: Golden) -> None:
    first = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await first.die()
    second = await start(FakeContainerizer(gpus=4), boot="boot-2")
    assert second.containers.recovered == frozenset()
    update = await master.reaches("t1", "TASK_GONE")
    assert update["status"]["message"] == golden


async def test_what_a_reboot_has_lost_is_said_so_also_by_the_next_process(start: Start, master: ScriptedMaster) -> None:
    first = await start()
    await first.die()
    status = {"task_id": {"value": "lost"}, "state": "TASK_RUNNING"}
    master.reconciliations = [{"framework_id": {"value": FRAMEWORK_ID}, "statuses": [status], "framework": FRAMEWORK}]
    master.acknowledges = False
    second = await start(FakeContainerizer(gpus=4), boot="boot-2")
    await master.reaches("lost", "TASK_GONE")
    await second.die()
    said = len(master.states("lost"))
    await start(FakeContainerizer(gpus=4), boot="boot-2")
    await master.until(lambda: len(master.states("lost")) > said)
    assert set(master.states("lost")) == {"TASK_GONE"}


@pytest.mark.parametrize("dies", [False, True])
async def test_tasks_of_a_framework_that_does_not_checkpoint_end_with_the_agent(
    start: Start, master: ScriptedMaster, dies: bool
) -> None:
    first = await start()
    master.run(devolve("mesos.FrameworkInfo", framework(checkpoint=False)), internal())
    await master.reaches("t1", "TASK_RUNNING")
    await (first.die() if dies else first.close())
    containers = FakeContainerizer(gpus=4, running=first.containers.running)
    second = await start(containers)
    assert containers.running == {}
    assert second.agent.state.frameworks.tasks() == []
    assert master.messages("ReregisterSlaveMessage")[-1].get("tasks", []) == []


async def test_stopped_it_leaves_tasks_running(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await running.close()
    assert len(running.containers.running) == 1
    assert running.containers.kills == []


async def test_stopped_in_the_middle_of_a_launch_it_lets_the_launch_succeed(
    start: Start, master: ScriptedMaster
) -> None:
    first = await start()
    first.containers.launches_go_on.clear()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")
    closing = asyncio.ensure_future(first.close())
    await wait_for(lambda: first.containers.launched)
    first.containers.launches_go_on.set()
    await closing
    await start(FakeContainerizer(gpus=4, running=first.containers.running))
    await master.reaches("t1", "TASK_RUNNING")


async def test_a_checkpoint_that_cannot_be_written_stops_the_agent_before_it_acts(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    running = await start()
    blocked = tmp_path / "meta" / "slaves" / AGENT_ID / "frameworks"
    blocked.write_text("a file where a folder must be")
    master.run(FRAMEWORK, internal())
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert "checkpoint" in str(running.agent.stop_reason)
    assert running.containers.launched == []
