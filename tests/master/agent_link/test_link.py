"""The wire to the agents, with a scripted agent and the bytes that a real one sent."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.master.agent_link.observers import RemovalLimit
from mesos_gpu.master.configuration import removal_interval_s
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import KnownAgent
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import decode, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.process.endpoint import Endpoint
from tests.support import places
from tests.support.golden import Golden
from tests.support.master.build import OTHER_UUID, framework_info, report, resources_of, task_info
from tests.support.master.live import PREFIX, Scheduler, ScriptedAgent, internal_framework, live_master, soon, until

WIRE = json.loads((places.RECORDED / "libprocess.json").read_text())


def task(agent: ScriptedAgent, task_id: str = "t") -> Document:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": {"value": agent.id},
        "resources": resources_of("cpus:0.5;mem:64;gpus:1"),
        "command": {"value": "sleep 1"},
    }


def wire(name: str) -> list[dict[str, Any]]:
    return [one for one in WIRE if one["message"] == PREFIX + name]


async def test_registration_goes_as_recorded(master: RunningMaster, agent: ScriptedAgent) -> None:
    agent.introduce("RegisterSlaveMessage")
    registered = await agent.message("SlaveRegisteredMessage")
    [recorded] = wire("SlaveRegisteredMessage")
    expected = decode(PREFIX + "SlaveRegisteredMessage", base64.b64decode(recorded["body_base64"]))
    assert registered["connection"] == expected["connection"] == {"total_ping_timeout_seconds": 75.0}
    agent_id = registered["slave_id"]["value"]
    assert agent_id == f"{master.engine.state.id}-S0"
    await until(lambda: len(agent.pings) > 0)
    assert agent.pings[0] == {"connected": True}


async def test_the_bytes_of_a_real_agent_register_it(master: RunningMaster, agent: ScriptedAgent) -> None:
    name = PREFIX + "RegisterSlaveMessage"
    body = base64.b64decode(wire("RegisterSlaveMessage")[0]["body_base64"])
    agent.endpoint.link("slave(1)", agent.master)
    agent.endpoint.send("slave(1)", agent.master, name, body)
    await agent.message("SlaveRegisteredMessage")
    [known] = master.engine.state.agents.values()
    assert known.total == Resources.parse("cpus:2;gpus:4;mem:23081;disk:252899;ports:[31000-32000]")
    assert len(known.capabilities) == 8
    assert known.checkpoint
    assert {a["name"] for a in known.info["attributes"]} == {"gpu_model", "rack"}


async def test_what_an_agent_sent_that_was_killed_does_not_bring_back_what_has_ended(
    master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler
) -> None:
    # The connection of the one before, which a kernel still has something to deliver on.
    reader, older = await asyncio.open_connection(agent.master.ip, agent.master.port)
    await agent.register()
    await scheduler.subscribe(framework_info())
    await scheduler.launch(await scheduler.offer(), task(agent))
    run = await agent.message("RunTaskMessage")
    [known] = master.engine.state.agents.values()
    document: Document = {
        "slave": agent.info(), "version": "1.12.0", "resource_version_uuid": {"value": OTHER_UUID},
        "tasks": [{**agent.task_of(run, "TASK_RUNNING"), "task_id": {"value": "ended-long-ago"}}],
        "frameworks": [run["framework"]],
    }  # fmt: skip
    name = f"{PREFIX}ReregisterSlaveMessage"
    older.write(libprocess.encode(Pid.parse(agent.pid), agent.master, name, encode(name, document)))
    older.write(libprocess.encode(Pid.parse(agent.pid), agent.master, f"{PREFIX}Unheard", b""))
    await agent.reregister([agent.task_of(run, "TASK_RUNNING")], [run["framework"]])
    before = master.engine.state.counters["slave_reregistrations"]
    assert await soon(reader.read()) == b"", "who lives says it over another connection"
    older.close()
    assert before == 1
    assert [task_id for _, task_id in known.tasks] == ["t"]


async def test_nor_what_it_said_of_its_resources(master: RunningMaster, agent: ScriptedAgent) -> None:
    """Else each launch would name the version of the killed process, and this one would refuse them all."""
    _, older = await asyncio.open_connection(agent.master.ip, agent.master.port)
    await agent.register()
    [known] = master.engine.state.agents.values()
    name, counters = f"{PREFIX}UpdateSlaveMessage", master.engine.state.counters
    document: Document = {"slave_id": {"value": agent.id}, "resource_version_uuid": {"value": OTHER_UUID}}
    before = known.resource_version_uuid
    older.write(libprocess.encode(Pid.parse(agent.pid), agent.master, name, encode(name, document)))
    await until(lambda: counters["messages_update_slave"] == 1)
    older.close()
    assert known.resource_version_uuid == before
    agent.say("UpdateSlaveMessage", document)
    await until(lambda: known.resource_version_uuid == OTHER_UUID)


async def test_a_task_goes_out_in_the_recorded_bytes(
    master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler
) -> None:
    await agent.register()
    info = {"user": "root", "name": "bench", "failover_timeout": 100.0, "hostname": "localhost"}
    await scheduler.subscribe({**info, "capabilities": [{"type": "GPU_RESOURCES"}]})
    name = PREFIX + "RunTaskMessage"
    body = base64.b64decode(wire("RunTaskMessage")[0]["body_base64"])
    recorded = decode(name, body)
    sent = {**task(agent), "name": "t", "task_id": recorded["task"]["task_id"]}
    await scheduler.launch(await scheduler.offer(), sent)
    run = await agent.message("RunTaskMessage")
    ids = {"framework": {**run["framework"], "id": recorded["framework"]["id"]}}
    ids["task"] = {**run["task"], "slave_id": recorded["task"]["slave_id"]}
    versions = {"resource_version_uuids": recorded["resource_version_uuids"]}
    assert encode(name, {**run, **ids, **versions}) == body


async def test_two_registrations_before_our_answer_make_one_agent(master: RunningMaster, agent: ScriptedAgent) -> None:
    for _ in range(2):
        agent.introduce("RegisterSlaveMessage")
    first = await agent.message("SlaveRegisteredMessage")
    # The second was passed over, if the first was not on disk yet; asked again, the agent is told the same.
    agent.introduce("RegisterSlaveMessage")
    assert await agent.message("SlaveRegisteredMessage") == first
    assert len(master.engine.state.agents) == 1


async def test_a_broken_link_disconnects_and_pings_ask_the_agent_back(
    tmp_path: Path, master: RunningMaster, scheduler: Scheduler
) -> None:
    agent = ScriptedAgent(master.url)
    await agent.start()
    await agent.register()
    await scheduler.subscribe(framework_info())
    offer = await scheduler.offer()
    await agent.stop()
    assert (await scheduler.event("RESCIND"))["offer_id"] == offer["id"]
    [known] = master.engine.state.agents.values()
    assert not known.connected
    again = ScriptedAgent(master.url)
    again.endpoint = Endpoint("127.0.0.1", agent.endpoint.port)
    await again.start()
    again.id = agent.id
    try:
        await again.reregister([], [])
        assert (await scheduler.offer())["agent_id"] == {"value": agent.id}
        assert known.connected
        await until(lambda: {"connected": True} in again.pings)
    finally:
        await again.stop()


async def test_an_agent_that_is_away_is_pinged_with_that(tmp_path: Path) -> None:
    async with live_master(tmp_path, "--agent_ping_timeout=20ms", "--max_agent_ping_timeouts=100") as master:
        agent = ScriptedAgent(master.url)
        await agent.start()
        await agent.register()
        [known] = master.engine.state.agents.values()
        known.connected = False
        await until(lambda: {"connected": False} in agent.pings)
        await agent.stop()


async def test_silence_makes_an_agent_unreachable_and_a_word_brings_it_back(tmp_path: Path) -> None:
    async with live_master(tmp_path, "--agent_ping_timeout=20ms", "--max_agent_ping_timeouts=3") as master:
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        await agent.start()
        try:
            await agent.register()
            info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE")
            await scheduler.subscribe(info)
            await scheduler.launch(await scheduler.offer(), task(agent))
            run = await agent.message("RunTaskMessage")
            agent.answers_pings = False
            status = await scheduler.status()
            assert (status["state"], status["reason"]) == ("TASK_UNREACHABLE", "REASON_AGENT_REMOVED")
            assert await scheduler.event("FAILURE") == {"agent_id": {"value": agent.id}}
            assert not master.engine.state.agents
            agent.answers_pings = True
            await agent.reregister([agent.task_of(run, "TASK_RUNNING")], [run["framework"]])
            status = await scheduler.status()
            assert (status["state"], status["reason"]) == ("TASK_RUNNING", "REASON_AGENT_REREGISTERED")
            answered = len(agent.pings)
            await until(lambda: len(agent.pings) > answered + 5)
            assert agent.id in master.engine.state.agents
        finally:
            await scheduler.close()
            await agent.stop()


async def test_tasks_that_a_restarted_agent_lost_are_named_to_it(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe(framework_info())
    await scheduler.launch(await scheduler.offer(), task(agent))
    await agent.message("RunTaskMessage")
    answer = await agent.reregister([], [])
    [missing] = answer["reconciliations"]
    assert missing["framework_id"] == {"value": scheduler.framework_id}
    assert missing["framework"]["name"] == "test"
    assert [s["task_id"] for s in missing["statuses"]] == [{"value": "t"}]


async def test_after_a_restart_of_the_master_nothing_is_lost(tmp_path: Path) -> None:
    agent = None
    async with live_master(tmp_path) as first:
        agent, scheduler = ScriptedAgent(first.url), Scheduler(first.url)
        await agent.start()
        await agent.register()
        await scheduler.subscribe(framework_info())
        await scheduler.launch(await scheduler.offer(), task(agent))
        run = await agent.message("RunTaskMessage")
        framework_id, port = scheduler.framework_id, first.endpoint.port
        await scheduler.close()
    assert await soon(agent.exited.get()) == agent.master
    pinged = len(agent.pings)
    async with live_master(tmp_path, f"--port={port}", "--agent_ping_timeout=20ms") as second:
        try:
            framework = internal_framework({**framework_info(), "id": {"value": framework_id}})
            await agent.reregister([agent.task_of(run, "TASK_RUNNING")], [framework])
            await until(lambda: len(agent.pings) > pinged)
            assert all(ping["connected"] for ping in agent.pings[pinged:]), "pinged before it had registered again"
            scheduler = Scheduler(second.url)
            await scheduler.subscribe(framework_info(), framework_id)
            agent.update(run, "TASK_FINISHED", OTHER_UUID)
            status = await scheduler.status()
            assert status["state"] == "TASK_FINISHED"
            await scheduler.acknowledge(status)
            skip = ("UpdateFrameworkMessage",)
            assert (await agent.message("StatusUpdateAcknowledgementMessage", skip))["uuid"] == OTHER_UUID
            await scheduler.close()
        finally:
            await agent.stop()


async def test_agents_that_do_not_come_back_are_given_up(tmp_path: Path) -> None:
    async with live_master(tmp_path) as first:
        agent = ScriptedAgent(first.url)
        await agent.start()
        await agent.register()
        await agent.stop()
    async with live_master(tmp_path, "--agent_reregister_timeout=10ms") as second:
        await until(lambda: agent.id in second.engine.state.unreachable)
    async with live_master(tmp_path) as third:
        assert agent.id in third.engine.state.unreachable


async def test_teardown_ends_the_framework_on_its_agent(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe(framework_info())
    await scheduler.call("TEARDOWN")
    shutdown = await agent.message("ShutdownFrameworkMessage")
    assert shutdown == {"framework_id": {"value": scheduler.framework_id}}


async def test_custom_executors_send_and_end(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe(framework_info())
    executor = {
        "executor_id": {"value": "e"},
        "command": {"value": "run"},
        "resources": resources_of("cpus:0.5;mem:32"),
    }
    with_executor = {**task(agent), "executor": executor}
    del with_executor["command"]
    await scheduler.launch(await scheduler.offer(), with_executor)
    run = await agent.message("RunTaskMessage")
    assert run["task"]["executor"]["framework_id"] == {"value": scheduler.framework_id}
    ids = {"slave_id": {"value": agent.id}, "framework_id": run["framework"]["id"], "executor_id": {"value": "e"}}
    agent.say("ExecutorToFrameworkMessage", {**ids, "data": "aGk="})
    assert (await scheduler.event("MESSAGE"))["data"] == "aGk="
    body = {"agent_id": {"value": agent.id}, "executor_id": {"value": "e"}}
    await scheduler.call("MESSAGE", {**body, "data": "eW8="})
    assert (await agent.message("FrameworkToExecutorMessage"))["data"] == "eW8="
    await scheduler.call("SHUTDOWN", body)
    assert (await agent.message("ShutdownExecutorMessage"))["executor_id"] == {"value": "e"}
    agent.say("ExitedExecutorMessage", {**ids, "status": 9})
    failure = await scheduler.event("FAILURE")
    assert failure == {"agent_id": {"value": agent.id}, "executor_id": {"value": "e"}, "status": 9}


async def test_another_machine_with_a_known_id_is_told_to_stop(
    agent: ScriptedAgent, master: RunningMaster, golden: Golden
) -> None:
    await agent.register()
    agent.introduce("ReregisterSlaveMessage", slave={**agent.info(), "hostname": "elsewhere"})
    assert (await agent.message("ShutdownMessage"))["message"] == golden


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("RegisterSlaveMessage", b"\xff\xff"),
        ("RegisterSlaveMessage", b""),
        ("NoSuchMessage", b""),
        ("StatusUpdateMessage", b"\x0a\x00"),
    ],
)
async def test_garbage_makes_no_agent_and_does_no_harm(
    master: RunningMaster, agent: ScriptedAgent, name: str, body: bytes
) -> None:
    agent.endpoint.send("slave(1)", agent.master, PREFIX + name, body)
    await agent.register()
    assert len(master.engine.state.agents) == 1


@pytest.mark.parametrize("uuid", ["", "dQ==", base64.b64encode(b"v" * 16).decode()])
async def test_a_status_update_without_a_valid_uuid_is_ignored(
    master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler, uuid: str
) -> None:
    await agent.register()
    await scheduler.subscribe(framework_info())
    await scheduler.launch(await scheduler.offer(), task(agent))
    run = await agent.message("RunTaskMessage")
    agent.update(run, "TASK_RUNNING", uuid=uuid)
    agent.update(run, "TASK_FINISHED")
    assert (await scheduler.status())["state"] == "TASK_FINISHED"


async def test_an_agent_without_reservation_refinement_gets_the_older_format(
    agent: ScriptedAgent, scheduler: Scheduler
) -> None:
    agent.introduce("RegisterSlaveMessage", agent_capabilities=[{"type": "MULTI_ROLE"}])
    agent.id = (await agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]
    await scheduler.subscribe(framework_info())
    await scheduler.launch(await scheduler.offer(), task(agent))
    run = await agent.message("RunTaskMessage")
    assert {resource["role"] for resource in run["task"]["resources"]} == {"*"}


async def test_the_task_is_on_its_way_before_the_accept_is_answered(
    agent: ScriptedAgent, scheduler: Scheduler, master: RunningMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.register()
    await scheduler.subscribe(framework_info())
    offer = await scheduler.offer()
    sent: list[str] = []
    send: Callable[[str, Pid, str, bytes], None] = master.endpoint.send

    def noting(from_id: str, to: Pid, name: str, body: bytes) -> None:
        sent.append(name)
        send(from_id, to, name, body)

    monkeypatch.setattr(master.endpoint, "send", noting)
    await scheduler.launch(offer, task(agent))
    assert PREFIX + "RunTaskMessage" in sent


SLOW = "--agent_removal_rate_limit=1/1hrs"


async def test_agents_of_the_registry_that_stay_away_are_given_up_one_after_the_other(tmp_path: Path) -> None:
    async with live_master(tmp_path) as first:
        for _ in range(3):
            agent = ScriptedAgent(first.url)
            await agent.start()
            await agent.register()
            await agent.stop()
    async with live_master(tmp_path, "--agent_reregister_timeout=10ms", SLOW) as second:
        state, limit = second.engine.state, second.link._limit
        await until(lambda: len(limit._waiting) == 2 and bool(state.unreachable))
        assert len(state.unreachable) == 1, "the first goes at once, the others in one hour and in two"
        assert len(state.recovered) == 2
        assert state.counters["recovery_slave_removals"] == 1
    async with live_master(tmp_path) as third:
        state = third.engine.state
        assert (len(state.unreachable), len(state.recovered)) == (1, 2), "those that wait are still known"


async def test_one_that_comes_back_while_it_waits_for_its_turn_stays(tmp_path: Path) -> None:
    agents = []
    async with live_master(tmp_path) as first:
        for _ in range(2):
            agents.append(agent := ScriptedAgent(first.url))
            await agent.start()
            await agent.register()
    try:
        async with live_master(tmp_path, "--agent_reregister_timeout=10ms", SLOW) as second:
            state, limit = second.engine.state, second.link._limit
            await until(lambda: len(limit._waiting) == 1 and bool(state.unreachable))
            (late,) = [agent for agent in agents if agent.id in state.recovered]
            late.master = Pid.parse(f"master@127.0.0.1:{second.endpoint.port}")
            await late.reregister([], [])
            assert late.id in state.agents
            assert not limit._waiting
    finally:
        for agent in agents:
            await agent.stop()


async def test_a_master_that_would_give_up_too_many_stops_instead(tmp_path: Path, golden: Golden) -> None:
    record = Record(agents={name: KnownAgent(report(agent_id=name).info, report().pid) for name in ("S1", "S2", "S3")})
    Registry(tmp_path).save(record)
    flags = ("--agent_reregister_timeout=10ms", "--recovery_agent_removal_limit=99%")
    async with live_master(tmp_path, *flags) as master:
        with pytest.raises(Unavailable) as stopped:
            await soon(asyncio.shield(master.engine.failed))
        assert str(stopped.value) == golden
        assert len(master.engine.state.recovered) == 3
    assert list(Registry(tmp_path).load().agents) == ["S1", "S2", "S3"]
    async with live_master(tmp_path, flags[0], "--recovery_agent_removal_limit=100%") as master:
        await until(lambda: len(master.engine.state.unreachable) == 3)
    async with live_master(tmp_path, flags[0], "--recovery_agent_removal_limit=0%") as master:
        master.link._absences._recovery_ended()
        assert not master.engine.failed.done(), "nobody was missing"


async def test_an_agent_whose_link_stays_broken_is_unreachable_in_mesos_words(tmp_path: Path) -> None:
    """Though its pings may be answered: somebody answers at that address, and does not register."""
    async with live_master(tmp_path, "--agent_reregister_timeout=50ms") as master:
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        try:
            await agent.start()
            await agent.register()
            info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE", checkpoint=True)
            await scheduler.subscribe(info)
            await scheduler.launch(await scheduler.offer(), task_info(master.engine.state.agents[agent.id]))
            await agent.message("RunTaskMessage")
            await agent.stop()
            status = await scheduler.status()
            words = "agent did not re-register within 50ms after disconnecting"
            assert (status["state"], status["reason"]) == ("TASK_UNREACHABLE", "REASON_AGENT_REMOVED")
            assert status["message"] == f"Agent 127.0.0.1 is unreachable: {words}"
            assert agent.id in master.engine.state.unreachable
        finally:
            await scheduler.close()


async def test_an_agent_that_is_back_in_time_stays_and_its_next_absence_is_counted_anew(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master:
        absences = master.link._absences
        agent = ScriptedAgent(master.url)
        await agent.start()
        await agent.register()
        seen = []
        for _ in range(2):
            await agent.stop()
            await until(lambda: agent.id in absences._away)
            seen.append(absences._away[agent.id])
            agent.endpoint = Endpoint("127.0.0.1", agent.endpoint.port)
            await agent.start()
            agent.introduce("ReregisterSlaveMessage")
            await agent.message("SlaveReregisteredMessage", ("CheckpointResourcesMessage",))
            assert not absences._away
        for absence in seen:  # the timers of both run on, and find that they are too late
            absences._too_long(agent.id, absence)
        assert agent.id in master.engine.state.agents
        await agent.stop()


def test_the_rate_is_read_as_mesos_writes_it() -> None:
    assert removal_interval_s(None) == 0
    assert removal_interval_s("1/10mins") == 600
    assert removal_interval_s("2/3hrs") == 5400
    for text in ("1", "0/1mins", "1/", "x/1mins", "1/10"):
        with pytest.raises(BadFlag, match="agent_removal_rate_limit"):
            removal_interval_s(text)


async def test_without_a_limit_everybody_goes_at_once() -> None:
    limit, gone = RemovalLimit(), []
    for name in "abc":
        limit.ask(name, lambda name=name: gone.append(name))  # type: ignore[misc]
    assert gone == ["a", "b", "c"]


async def test_with_a_limit_one_goes_after_the_other_and_who_answers_stays() -> None:
    limit, gone = RemovalLimit(0.02), asyncio.Queue[str]()
    for name in "abcd":
        limit.ask(name, lambda name=name: gone.put_nowait(name))  # type: ignore[misc]
    limit.ask("b", lambda: gone.put_nowait("b again"))
    assert gone.qsize() == 1, "only the first goes at once"
    assert limit.withdraw("c") is True
    assert limit.withdraw("a") is False
    assert [await soon(gone.get()) for _ in range(3)] == ["a", "b", "d"]
    assert limit.counts == {"scheduled": 4, "completed": 3, "canceled": 1}
    limit.stop()


async def test_a_silent_agent_waits_for_its_turn_and_a_pong_keeps_it(tmp_path: Path) -> None:
    flags = ["--agent_ping_timeout=10ms", "--max_agent_ping_timeouts=2", "--agent_removal_rate_limit=1/1hrs"]
    async with live_master(tmp_path, *flags) as master:
        agents = [ScriptedAgent(master.url) for _ in range(2)]
        try:
            for agent in agents:
                await agent.start()
                await agent.register()
                agent.answers_pings = False
            state = master.engine.state
            limit = master.link._limit
            # The first goes at once, the other in an hour.
            await until(lambda: len(state.agents) == 1 and len(limit._waiting) == 1)
            (left,) = [agent for agent in agents if agent.id in state.agents]
            left.answers_pings = True
            await until(lambda: not limit._waiting)
            assert left.id in state.agents
            shown = master.engine.metrics()
            scheduled, completed, canceled = (
                shown[f"master/slave_unreachable_{step}"] for step in ("scheduled", "completed", "canceled")
            )
            # On a busy machine a pong may be late, and the agent has its turn and gives it back once more.
            assert completed == 1
            assert canceled >= 1
            assert scheduled == completed + canceled
        finally:
            for agent in agents:
                await agent.stop()
