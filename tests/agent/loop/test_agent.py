"""The agent in process, over real sockets, against a master that does as it is told."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.decisions.registration import Standing
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import HealthEvent
from mesos_gpu.mesos.messages import devolve
from tests.fakes.containerizer import FakeContainerizer
from tests.fakes.gpus import GPUS, ScriptedDriver, ScriptedPool
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, ALL_CAPABILITIES, FRAMEWORK_ID, framework, task
from tests.support.agent.running import Start

FRAMEWORK = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES))


def internal(*args: Any, **more: Any) -> dict[str, Any]:
    return devolve("mesos.TaskInfo", task(*args, **more))


async def test_it_registers_with_all_that_a_master_wants_to_know(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    (document,) = master.messages("RegisterSlaveMessage")
    assert document["version"] == "1.12.0"
    assert document["slave"]["port"] == running.endpoint.port
    assert "id" not in document["slave"]
    assert {r["name"]: r["role"] for r in document["slave"]["resources"]} == dict.fromkeys(
        ("cpus", "gpus", "mem", "disk", "ports"), "*"
    )
    assert len(base64.b64decode(document["resource_version_uuid"]["value"])) == 16
    assert str(master.agent) == f"slave(1)@127.0.0.1:{running.endpoint.port}"
    assert running.agent.agent_id == AGENT_ID


async def test_it_keeps_trying_until_the_master_answers(start: Start, master: ScriptedMaster) -> None:
    master.answers = False
    running = await start(follow=False)
    running.agent.follow(master.pid)
    await master.got("RegisterSlaveMessage", 3)
    master.answers = True
    await running.agent.registered.wait()
    assert running.agent.membership.registration.standing is Standing.REGISTERED


async def test_a_pong_goes_to_the_observer_that_pinged(start: Start, master: ScriptedMaster) -> None:
    await start()
    master.observe(2)
    master.ping()
    master.ping(observer=2)
    await master.until(lambda: len(master.pongs) == 2)
    assert master.pongs == ["slave-observer(1)", "slave-observer(2)"]


async def test_a_ping_that_calls_it_disconnected_makes_it_register_again(start: Start, master: ScriptedMaster) -> None:
    await start()
    master.ping(connected=False)
    document = await master.got("ReregisterSlaveMessage")
    assert document["slave"]["id"]["value"] == AGENT_ID


async def test_a_task_starts_runs_and_finishes_each_acknowledged(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    running = await start()
    master.run(FRAMEWORK, internal(gpus=1))
    update = await master.reaches("t1", "TASK_RUNNING")
    assert update["status"]["source"] == "SOURCE_EXECUTOR"
    assert update["executor_id"] == {"value": "t1"}
    assert update["uuid"] == update["status"]["uuid"]
    assert update["status"]["container_status"]["executor_pid"] == 4711
    assert master.messages("StatusUpdateMessage")[0]["pid"] == str(master.agent)
    (config,) = running.containers.launched
    assert (config.cpus_milli, config.mem_bytes, config.gpus) == (600, 96 << 20, 1)
    assert config.argv == ("/bin/sh", "-c", "sleep 1")
    assert (
        config.sandbox
        == tmp_path
        / "slaves"
        / AGENT_ID
        / "frameworks"
        / FRAMEWORK_ID
        / "executors"
        / "t1"
        / "runs"
        / (config.container_id)
    )
    assert (config.sandbox / "stdout").exists()
    assert (config.sandbox.parent / "latest").resolve() == config.sandbox
    assert config.environment["MESOS_SANDBOX"] == str(config.sandbox)
    running.containers.end(config.container_id, Termination(exit_code=0))
    await master.reaches("t1", "TASK_FINISHED")
    assert master.states("t1") == ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]
    assert (master.updates("t1")[-1]["latest_state"]) == "TASK_FINISHED"


async def test_the_launch_does_not_wait_for_an_acknowledgement(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.acknowledges = False
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")
    await wait_for(lambda: running.containers.running)
    assert master.states("t1") == ["TASK_STARTING"]
    master.acknowledge(master.updates("t1")[0])
    await master.reaches("t1", "TASK_RUNNING")


async def test_a_kill_reaches_the_container_and_is_told_of(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    kill(master, "t1")
    await master.reaches("t1", "TASK_KILLED")
    assert master.states("t1") == ["TASK_STARTING", "TASK_RUNNING", "TASK_KILLING", "TASK_KILLED"]
    assert [grace for _, grace in running.containers.kills] == [3.0]


async def test_a_kill_before_the_container_runs(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    running.containers.launches_go_on.clear()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")
    kill(master, "t1")
    master.ping()
    await master.until(lambda: bool(master.pongs))  # so the kill was taken, too
    running.containers.launches_go_on.set()
    update = await master.reaches("t1", "TASK_KILLED")
    assert update["status"]["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"


async def test_too_many_gpus_fail_with_the_reason_in_words(start: Start, master: ScriptedMaster) -> None:
    await start()
    master.run(FRAMEWORK, internal(gpus=9))
    update = await master.reaches("t1", "TASK_FAILED")
    assert update["status"]["message"] == "Failed to launch container: Requested 9 gpus but only 4 available"
    assert update["status"]["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"


async def test_a_containerizer_that_refuses_and_an_unknown_user(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    running.containers.fail_with = ContainerError("crun said no")
    master.run(FRAMEWORK, internal("t1"))
    assert "crun said no" in (await master.reaches("t1", "TASK_FAILED"))["status"]["message"]
    master.run(FRAMEWORK, internal("t2", command={"value": "true", "user": "no-such-user"}))
    assert "no-such-user" in (await master.reaches("t2", "TASK_FAILED"))["status"]["message"]


async def test_how_far_a_pull_is_comes_with_starting_now_and_then(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    running.containers.pull_says = ["resolving nvidia/cuda", "downloading 1", "downloading 2"]
    master.run(FRAMEWORK, internal("t1", container=image("nvidia/cuda")))
    await master.reaches("t1", "TASK_RUNNING")
    starting = [u["status"].get("message", "") for u in master.updates("t1") if u["status"]["state"] == "TASK_STARTING"]
    assert [said for said in starting if said] == ["resolving nvidia/cuda"]


async def test_a_framework_shut_down_ends_without_a_word(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    master.send("ShutdownFrameworkMessage", {"framework_id": {"value": FRAMEWORK_ID}})
    await wait_for(lambda: not running.containers.running and not running.agent.state.frameworks.active)
    assert master.states("t1")[-1] == "TASK_RUNNING"


async def test_a_message_from_another_than_the_master_is_ignored(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    stranger = await ScriptedMaster(AGENT_ID).start()
    try:
        stranger.agent = master.agent
        stranger.run(FRAMEWORK, internal())
        stranger.observe(1)
        stranger.ping()
        await stranger.until(lambda: bool(stranger.pongs))
        assert running.containers.launched == []
    finally:
        await stranger.stop()


async def test_a_broken_link_makes_it_register_again_with_its_tasks(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.acknowledges = False
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_STARTING")
    await wait_for(lambda: running.containers.running)
    port = master.pid.port
    await master.stop()
    again = await ScriptedMaster(AGENT_ID, port=port).start()
    try:
        document = await again.got("ReregisterSlaveMessage")
        (listed,) = document["tasks"]
        assert (listed["task_id"]["value"], listed["state"]) == ("t1", "TASK_RUNNING")
        assert "executor_id" not in listed
        assert listed["resources"][0]["allocation_info"] == {"role": "*"}
        assert [f["id"]["value"] for f in document["frameworks"]] == [FRAMEWORK_ID]
        await again.reaches("t1", "TASK_RUNNING")
        assert again.states("t1") == ["TASK_STARTING", "TASK_RUNNING"]
    finally:
        await again.stop()


async def test_a_task_that_the_master_believes_here_is_answered_at_re_registration(
    start: Start, master: ScriptedMaster
) -> None:
    await start()
    status = {"task_id": {"value": "lost"}, "state": "TASK_RUNNING"}
    master.reconciliations = [{"framework_id": {"value": FRAMEWORK_ID}, "statuses": [status], "framework": FRAMEWORK}]
    master.ping(connected=False)
    update = await master.reaches("lost", "TASK_DROPPED")
    assert update["status"]["reason"] == "REASON_RECONCILIATION"


async def test_another_agent_id_stops_the_agent(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.agent_id = "another-S7"
    master.ping(connected=False)
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert "another-S7" in str(running.agent.stop_reason)


async def test_told_to_go_it_kills_everything_and_forgets_who_it_was(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    running.agent.leave()
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    await master.got("UnregisterSlaveMessage")
    assert running.containers.running == {}
    assert not (tmp_path / "meta" / "slaves" / "latest").is_symlink()


async def test_reservations_of_the_master_are_kept_and_told_again(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    reserved = {
        "name": "gpus",
        "type": "SCALAR",
        "scalar": {"value": 1.0},
        "reservations": [{"type": "DYNAMIC", "role": "ml", "principal": "p"}],
    }
    master.send("CheckpointResourcesMessage", {"resources": [reserved]})
    master.ping(connected=False)
    document = await master.got("ReregisterSlaveMessage")
    assert document["checkpointed_resources"] == [reserved]
    await running.die()
    await start(running.containers)
    assert (await master.got("ReregisterSlaveMessage", 2))["checkpointed_resources"] == [reserved]


async def test_killed_and_started_again_it_is_the_same_agent_and_its_task_runs_on(
    start: Start, master: ScriptedMaster
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
    assert update["status"]["message"] == "Command exited with status 3"
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


async def test_after_a_reboot_nothing_is_taken_up_again(start: Start, master: ScriptedMaster) -> None:
    first = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    await first.die()
    second = await start(FakeContainerizer(gpus=4), boot="boot-2")
    assert second.containers.recovered == frozenset()
    update = await master.reaches("t1", "TASK_GONE")
    assert "machine was restarted" in update["status"]["message"]


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


async def test_a_task_group_is_refused_where_nothing_could_run_it(start: Start, master: ScriptedMaster) -> None:
    await start()
    executor = {"executor_id": {"value": "pod"}, "type": "DEFAULT"}
    document = {"framework": FRAMEWORK, "executor": executor, "task_group": {"tasks": [internal("a"), internal("b")]}}
    master.send("RunTaskGroupMessage", document)
    for name in ("a", "b"):
        update = await master.reaches(name, "TASK_FAILED")
        assert "This agent has no default executor" in update["status"]["message"]
    assert (await master.got("ExitedExecutorMessage"))["executor_id"] == {"value": "pod"}


def kill(master: ScriptedMaster, task_id: str) -> None:
    master.send("KillTaskMessage", {"framework_id": {"value": FRAMEWORK_ID}, "task_id": {"value": task_id}})


def image(name: str) -> dict[str, Any]:
    return {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": name}}}}


async def wait_for(true: Any, timeout_s: float = 20.0) -> None:
    """Let the loop turn until something is true."""

    async def wait() -> None:
        while not true():  # noqa: ASYNC110 - turns of the loop, no waiting
            await asyncio.sleep(0)

    await asyncio.wait_for(wait(), timeout_s)


@pytest.fixture
def care(tmp_path: Path) -> AgentGpus:
    return AgentGpus(ScriptedDriver(), ScriptedPool(), HealthRecord(tmp_path / "gpu_health.json"))


def gpus_of(document: dict[str, Any]) -> float:
    return sum(float(r["scalar"]["value"]) for r in document["slave"]["resources"] if r["name"] == "gpus")


def fall_ill(care: AgentGpus, number: int) -> None:
    care._on_event(HealthEvent(f"GPU-{number}", 79, "it hurts"))


async def test_a_gpu_that_falls_ill_makes_it_register_again_with_one_less(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    assert gpus_of(await master.got("RegisterSlaveMessage")) == 4
    fall_ill(care, 1)
    assert gpus_of(await master.got("ReregisterSlaveMessage")) == 3
    await running.agent.registered.wait()
    fall_ill(care, 1)
    care.clear("GPU-1")
    assert gpus_of(await master.got("ReregisterSlaveMessage", 2)) == 4
    await running.agent.registered.wait()
    assert len(master.messages("ReregisterSlaveMessage")) == 2


async def test_a_gpu_that_falls_ill_before_the_first_answer_is_told_after_it(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    master.answers = False
    running = await start(gpus=care, follow=False)
    running.agent.follow(master.pid)
    await master.got("RegisterSlaveMessage")
    fall_ill(care, 0)
    assert gpus_of(await master.got("RegisterSlaveMessage", 2)) == 3
    # A master that knew the first one answers again what it answered then, and keeps what it was told then.
    master.answers = True
    master._welcome("RegisterSlaveMessage")
    assert gpus_of(await master.got("ReregisterSlaveMessage")) == 3


async def test_a_gpu_that_the_master_reserved_is_not_taken_out_of_the_total(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    reservation = {"type": "DYNAMIC", "role": "ml"}
    kept = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 4.0}, "reservations": [reservation]}
    master.send("CheckpointResourcesMessage", {"resources": [kept]})
    await wait_for(lambda: running.agent.holdings.kept)
    fall_ill(care, 0)
    assert gpus_of({"slave": {"resources": running.agent.info["resources"]}}) == 4
    assert master.messages("ReregisterSlaveMessage") == []


async def test_sent_away_it_does_not_come_back_for_a_gpu_that_is_ill(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    (container_id,) = running.containers.running
    pool = care._isolator
    assert isinstance(pool, ScriptedPool)
    pool.held = {container_id: frozenset(GPUS[:1])}
    fall_ill(care, 0)
    assert master.messages("ReregisterSlaveMessage") == []
    pool.held = {}
    running.agent.leave()
    await running.agent.stopped.wait()
    await master.got("UnregisterSlaveMessage")
    assert master.messages("ReregisterSlaveMessage") == []
