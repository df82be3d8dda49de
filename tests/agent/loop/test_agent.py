"""The agent in process, over real sockets, against a master that does as it is told."""

from __future__ import annotations

import asyncio
import base64
import errno
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.decisions.registration import Standing
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.errors import ContainerError
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.messages import encode
from tests.fakes.master import PREFIX, ScriptedMaster
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID
from tests.support.agent.internal import FRAMEWORK, internal, wait_for
from tests.support.agent.running import Start
from tests.support.golden import Golden

PING = encode(f"{PREFIX}PingSlaveMessage", {"connected": True})


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


async def test_pings_of_another_master_are_answered_and_change_nothing(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    before = running.agent.membership.registration
    stray = await ScriptedMaster(AGENT_ID).start()
    try:
        stray.observe(1)
        stray.agent = master.agent
        for number, connected in enumerate((False, True, False), 1):
            stray.ping(connected=connected)
            await stray.until(lambda number=number: len(stray.pongs) == number)  # type: ignore[misc]
    finally:
        await stray.stop()
    assert running.agent.membership.registration == before
    assert running.agent.registered.is_set()
    assert master.messages("ReregisterSlaveMessage") == []


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


async def test_too_many_gpus_fail_with_the_reason_in_words(
    start: Start, master: ScriptedMaster, golden: Golden
) -> None:
    await start()
    master.run(FRAMEWORK, internal(gpus=9))
    update = await master.reaches("t1", "TASK_FAILED")
    assert update["status"]["message"] == golden
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


async def test_a_launch_before_the_answer_to_a_registration_is_not_taken(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    master.answers = False
    master.ping(connected=False)
    await master.got("ReregisterSlaveMessage")
    master.run(FRAMEWORK, internal())  # as one that a network has held back
    master.observe(1)
    master.ping(connected=False)
    await master.until(lambda: len(master.pongs) == 1)
    assert running.agent.state.frameworks.tasks() == []
    master.answers = True
    status = {"task_id": {"value": "t1"}, "state": "TASK_STAGING"}
    master.reconciliations = [{"framework_id": {"value": FRAMEWORK_ID}, "statuses": [status], "framework": FRAMEWORK}]
    await master.reaches("t1", "TASK_DROPPED")
    assert running.containers.launched == []
    master.run(FRAMEWORK, internal("t2"))
    await master.reaches("t2", "TASK_RUNNING")


async def test_an_acknowledgement_before_the_answer_to_a_registration_is_not_taken(
    start: Start, master: ScriptedMaster
) -> None:
    """It is of the master before, which is gone: by the list that the next one has, the update waits for one."""
    running = await start()
    master.acknowledges = False
    master.run(FRAMEWORK, internal())
    starting = await master.reaches("t1", "TASK_STARTING")
    master.answers = False
    master.ping(connected=False)
    await master.got("ReregisterSlaveMessage")
    master.acknowledge(starting)
    master.observe(1)
    master.ping(connected=False)
    await master.until(lambda: len(master.pongs) == 1)
    key = running.agent.state.frameworks.tasks()[0].key
    assert running.agent.state.streams.pending(key)[0]["state"] == "TASK_STARTING"
    master.answers = master.acknowledges = True
    await master.reaches("t1", "TASK_RUNNING")


async def test_what_a_master_sent_that_was_killed_is_late(start: Start, master: ScriptedMaster) -> None:
    running = await start()
    here, name = running.endpoint.pid("slave(1)"), f"{PREFIX}RunTaskMessage"
    _, older = await asyncio.open_connection(here.ip, here.port)
    _, newer = await asyncio.open_connection(here.ip, here.port)

    def known() -> list[str]:
        return sorted(task.key.task for task in running.agent.state.frameworks.tasks())

    for writer, task in ((older, "t0"), (newer, "t1"), (older, "late"), (older, "later"), (newer, "t2")):
        document = {"framework": FRAMEWORK, "pid": "@0.0.0.0:0", "launch_executor": True, "task": internal(task)}
        writer.write(libprocess.encode(master.pid, here, name, encode(name, document)))
        if task == "later":
            # A message from somebody else over that connection, after these: it is answered when they were read.
            master.observe(1)
            writer.write(libprocess.encode(master.pid_of(1), here, f"{PREFIX}PingSlaveMessage", PING))
            await master.until(lambda: len(master.pongs) == 1)
        elif task != "late":
            await wait_for(lambda task=task: task in known())
    assert known() == ["t0", "t1", "t2"]
    older.close()
    newer.close()


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


async def test_told_to_go_it_kills_everything_also_where_nothing_can_be_written(
    start: Start, master: ScriptedMaster, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    running = await start()
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for name in ("log", "save_agent", "forget_agent", "note_run", "close_run", "save_holdings"):
        monkeypatch.setattr(running.checkpoints, name, broken)
    running.agent.leave()
    await asyncio.wait_for(running.agent.stopped.wait(), 60)
    assert str(running.agent.stop_reason) == golden
    await running.close()
    assert running.containers.running == {}


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


async def test_a_task_group_is_refused_where_nothing_could_run_it(
    start: Start, master: ScriptedMaster, golden: Golden
) -> None:
    await start()
    executor = {"executor_id": {"value": "pod"}, "type": "DEFAULT"}
    document = {"framework": FRAMEWORK, "executor": executor, "task_group": {"tasks": [internal("a"), internal("b")]}}
    master.send("RunTaskGroupMessage", document)
    for name in ("a", "b"):
        update = await master.reaches(name, "TASK_FAILED")
        assert update["status"]["message"] == golden
    assert (await master.got("ExitedExecutorMessage"))["executor_id"] == {"value": "pod"}


def kill(master: ScriptedMaster, task_id: str) -> None:
    master.send("KillTaskMessage", {"framework_id": {"value": FRAMEWORK_ID}, "task_id": {"value": task_id}})


def image(name: str) -> dict[str, Any]:
    return {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": name}}}}
