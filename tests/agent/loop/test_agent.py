"""The agent in process, over real sockets, against a master that does as it is told."""

from __future__ import annotations

import asyncio
import base64
import errno
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.clock import Clock
from mesos_gpu.agent.decisions.registration import Standing
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.agent.loop.alarm import Alarm
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import Gpu, HealthEvent
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.messages import encode
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.displaced import numbers_of
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, CardPart, Share, SharedCard
from tests.fakes.gpus import GPUS, ScriptedDriver, ScriptedPool
from tests.fakes.master import PREFIX, ScriptedMaster
from tests.support.agent.documents import AGENT_ID, FRAMEWORK_ID
from tests.support.agent.internal import FRAMEWORK, internal, wait_for
from tests.support.agent.running import Running, Start
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


class Handle:
    def __init__(self, delay_s: float, call: Callable[[], None]) -> None:
        self.delay_s, self.call, self.cancelled = delay_s, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """What an alarm had its loop call, and when."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now_s, self.made, self.rung = 100.0, list[Handle](), 0
        self.alarm = Alarm(Clock(mono=lambda: self.now_s), self._ring)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        self.made.append(Handle(delay_s, call))
        return self.made[-1]

    def _ring(self) -> None:
        self.rung += 1


def test_what_is_put_off_takes_no_timer_and_what_comes_earlier_one(monkeypatch: Any) -> None:
    timers = Timers(monkeypatch)
    timers.alarm.set(None, 175.0, 300.0)
    assert [one.delay_s for one in timers.made] == [75.0]
    timers.now_s = 115.0
    timers.alarm.set(190.0)
    assert [one.cancelled for one in timers.made] == [False]
    timers.alarm.set(120.0)
    assert [one.delay_s for one in timers.made] == [75.0, 5.0]
    assert timers.made[0].cancelled
    timers.now_s = 120.0
    timers.made[1].call()
    assert timers.rung == 1
    timers.alarm.set(190.0)
    assert timers.made[2].delay_s == 70.0, "it has rung, and is set anew"


def test_nothing_that_is_due_and_a_stop_end_it(monkeypatch: Any) -> None:
    timers = Timers(monkeypatch)
    timers.alarm.set(None, None)
    assert not timers.made
    timers.alarm.set(90.0)
    assert timers.made[0].delay_s == 0.0, "it was due before"
    timers.alarm.set(None)
    assert timers.made[0].cancelled
    timers.alarm.set(200.0)
    timers.alarm.stop()
    timers.alarm.stop()
    assert [one.cancelled for one in timers.made] == [True, True]


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


CARD = SharedCard(1, "GPU-1", 15109, 25)


class Sharers:
    """Who has what of the card, as a test says."""

    def __init__(self) -> None:
        self.gpus: Collection[Gpu] = ()
        self.shares: dict[ContainerId, Share] = {}


def ranges(name: str, first: int, last: int) -> dict[str, Any]:
    return {"name": name, "type": "RANGES", "ranges": {"range": [{"begin": first, "end": last}]}, "role": "*"}


def part(first: int, last: int, slices: tuple[int, int]) -> list[dict[str, Any]]:
    return [ranges(GPU_MEM, first, last), ranges(GPU_SLICES, *slices)]


def told(document: dict[str, Any]) -> set[int]:
    return numbers_of(Resources.from_json(document["slave"]["resources"]), GPU_MEM)


def finished(document: dict[str, Any]) -> bool:
    return document.get("update", {}).get("status", {}).get("state") == "TASK_FINISHED"


async def begin(running: Running, master: ScriptedMaster, task_id: str, units: list[dict[str, Any]]) -> ContainerId:
    before = set(running.containers.running)
    task = internal(task_id)
    master.run(FRAMEWORK, {**task, "resources": task["resources"] + units})
    await master.reaches(task_id, "TASK_RUNNING")
    (container_id,) = set(running.containers.running) - before
    return ContainerId(container_id)


async def test_what_others_have_for_a_suspended_task_is_not_offered_once_more_when_it_ends(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    sharers = Sharers()
    care = AgentGpus(ScriptedDriver(), ScriptedPool(), HealthRecord(tmp_path / "gpu_health.json"), sharers=sharers)
    running = await start(gpus=care)
    agent = running.agent
    agent.state.identity = replace(agent.state.identity, shared_cards={1: CARD})
    agent._whole = agent._whole + Resources.from_json(part(1000, 1014, (1000, 1024)))
    agent._look_after_gpus()
    assert told(await master.got("ReregisterSlaveMessage")) == set(range(1000, 1015))
    await agent.registered.wait()

    away = await begin(running, master, "t1", part(1000, 1002, (1000, 1004)))
    sharers.shares[away] = Share((), booked=(CardPart(1, 3, 5),))
    agent._look_after_gpus()
    assert told(await master.got("ReregisterSlaveMessage", 2)) == set(range(1000, 1018))
    await agent.registered.wait()
    other = await begin(running, master, "t2", part(1003, 1017, (1005, 1029)))
    sharers.shares[other] = Share((CardPart(1, 15, 25),))

    del sharers.shares[away]
    master.acknowledges = False
    running.containers.end(away, Termination(exit_code=0))
    await master.reaches("t1", "TASK_FINISHED")
    # All 15 GiB are the other's: the three that the master counted for the first are nobody's to have. It must know
    # that when it hears of the end, for it offers them at once.
    (_, _, third) = [at for at, (name, _) in enumerate(master.received) if name == "ReregisterSlaveMessage"]
    end = next(at for at, (_, document) in enumerate(master.received) if finished(document))
    assert third < end
    assert told(master.messages("ReregisterSlaveMessage")[2]) == set(range(1003, 1018))
