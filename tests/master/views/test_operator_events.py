"""The operator's event stream: what it begins with, what it tells, and that nobody who listens can harm others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mesos_gpu.master.events.agents import AgentSilent
from mesos_gpu.master.events.timers import Tick
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.process import streams
from tests.support.master.build import UUID, framework_info, resources_of
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon, until
from tests.support.master.operator_stream import Operator, Session


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with Session() as made:
        yield made


@pytest.fixture(params=["application/json", "application/x-protobuf"])
def operator(request: pytest.FixtureRequest, session: Session, master: RunningMaster) -> Operator:
    return Operator(session, master.url, request.param)


async def test_the_stream_tells_all_that_happens_in_order(
    operator: Operator, master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler
) -> None:
    first = await operator.subscribe()
    assert first["heartbeat_interval_seconds"] == 15.0
    assert first["get_state"].keys() == {"get_tasks", "get_executors", "get_frameworks", "get_agents"}
    await agent.register()
    added = (await operator.event("AGENT_ADDED"))["agent"]
    assert added["agent_info"]["id"]["value"] == agent.id
    assert added["active"] is True
    await scheduler.subscribe(framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE"))
    framework = (await operator.event("FRAMEWORK_ADDED"))["framework"]
    assert framework["framework_info"]["id"]["value"] == scheduler.framework_id
    assert (framework["active"], framework["connected"], framework["recovered"]) == (True, True, False)
    assert framework["unregistered_time"] == {"nanoseconds": 0}

    offer = await scheduler.offer()
    task = {
        "name": "t",
        "task_id": {"value": "t"},
        "agent_id": offer["agent_id"],
        "resources": resources_of("cpus:0.1;gpus:1"),
        "command": {"value": "true"},
    }
    await scheduler.launch(offer, task)
    launched = (await operator.event("TASK_ADDED"))["task"]
    assert (launched["state"], launched["task_id"]) == ("TASK_STAGING", {"value": "t"})
    run = await agent.message("RunTaskMessage")
    agent.update(run, "TASK_RUNNING")
    changed = await operator.event("TASK_UPDATED")
    assert changed["state"] == changed["status"]["state"] == "TASK_RUNNING"
    assert changed["framework_id"]["value"] == scheduler.framework_id
    assert changed["status"]["uuid"] == UUID

    await agent.stop()  # it breaks off, which is no news; then it is given up
    [known] = master.engine.state.agents.values()
    await until(lambda: not known.connected)
    master.engine.do(AgentSilent(known.id))
    assert (await operator.event("AGENT_REMOVED"))["agent_id"]["value"] == known.id
    lost = await operator.event("TASK_UPDATED")
    assert (lost["state"], lost["status"]["reason"]) == ("TASK_UNREACHABLE", "REASON_AGENT_REMOVED")

    again = Scheduler(master.url)
    await again.subscribe(framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE"), scheduler.framework_id)
    updated = (await operator.event("FRAMEWORK_UPDATED"))["framework"]
    assert updated["reregistered_time"]["nanoseconds"] >= updated["registered_time"]["nanoseconds"]
    await again.call("TEARDOWN")
    removed = (await operator.event("FRAMEWORK_REMOVED"))["framework_info"]
    assert removed["id"]["value"] == scheduler.framework_id
    await again.close()


async def test_a_removed_frameworks_tasks_end_before_it_goes(
    session: Session, master: RunningMaster, agent: ScriptedAgent, scheduler: Scheduler
) -> None:
    await agent.register()
    await scheduler.subscribe()
    offer = await scheduler.offer()
    task = {
        "name": "t",
        "task_id": {"value": "t"},
        "agent_id": offer["agent_id"],
        "resources": resources_of("cpus:0.1"),
        "command": {"value": "true"},
    }
    await scheduler.launch(offer, task)
    await agent.message("RunTaskMessage")
    operator = Operator(session, master.url)
    state = (await operator.subscribe())["get_state"]
    assert [task["task_id"]["value"] for task in state["get_tasks"]["tasks"]] == ["t"]
    await scheduler.call("TEARDOWN")
    ended = await operator.event("TASK_UPDATED")
    assert (ended["state"], ended["status"]["reason"]) == ("TASK_KILLED", "REASON_FRAMEWORK_REMOVED")
    await operator.event("FRAMEWORK_REMOVED")


async def test_nothing_is_kept_for_operators_while_nobody_listens(
    session: Session, master: RunningMaster, scheduler: Scheduler
) -> None:
    await scheduler.subscribe()
    assert master.engine.state.news == []
    operator = Operator(session, master.url)
    await operator.subscribe()
    assert master.engine.watchers == 1
    operator.response.close()
    await until(lambda: master.engine.watchers == 0)
    assert not master.engine.state.watched


async def test_the_oldest_listener_makes_room(session: Session, tmp_path: Any) -> None:
    async with live_master(tmp_path / "m", "--max_operator_event_stream_subscribers=2") as master:
        listeners = [Operator(session, master.url) for _ in range(3)]
        for operator in listeners:
            await operator.subscribe()
        data, _ = await soon(listeners[0].response.content.readchunk())
        assert data == b""
        assert master.engine.watchers == 2


async def test_a_listener_that_does_not_read_is_cut_off_and_others_are_told_all(
    session: Session, master: RunningMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 256 * 1024)
    host, _, port = master.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    body = b'{"type":"SUBSCRIBE"}'
    head = f"POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await soon(reader.readuntil(b"HEARTBEAT"))
    awake = Operator(session, master.url)
    await awake.subscribe()
    assert master.engine.watchers == 2
    task = Task({"task_id": {"value": "t"}, "framework_id": {"value": "f"}, "state": "TASK_RUNNING"}, Resources())
    running = {"task_id": {"value": "t"}, "state": "TASK_RUNNING", "data": "x" * 64_000}
    for _ in range(5000):
        if master.engine.watchers == 1:
            break
        # What the stalled one is sent fits nowhere on the way: socket buffers are bounded, and so is what we keep.
        master.engine.state.announce_status(task, running)
        master.engine.do(Tick())
        await awake.event("TASK_UPDATED")
    assert master.engine.watchers == 1, "the stalled listener is still served"
    writer.close()
