"""Executors with libmesos' driver, by hand: what they are told, and who is not believed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mesos_gpu.agent.api.access import Access
from mesos_gpu.agent.loop.executor_messages import Driver, messages_of, status_of
from mesos_gpu.agent.model.executors import ExecutorKey, Stage
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.ids import TaskId
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, devolve, encode
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import OPEN
from mesos_gpu.process.authentication import Gate
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.fakes.master import ScriptedMaster
from tests.support.agent.documents import AGENT_ID, ALL_CAPABILITIES, FRAMEWORK_ID, framework, scalar, task
from tests.support.agent.running import Running, Start
from tests.support.golden import Golden

PREFIX = "mesos.internal."
FRAMEWORK = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES))
ECHO = ExecutorKey(FRAMEWORK_ID, "echo")
IDS: Document = {"framework_id": {"value": FRAMEWORK_ID}, "executor_id": {"value": "echo"}}
OF_AGENT: Document = {"slave_id": {"value": AGENT_ID}}
PATIENCE_S = 60.0


def hosted(task_id: str) -> Document:
    """Return a task of the executor `echo`, in the master's form."""
    executor = {**IDS, "type": "CUSTOM", "command": {"value": "./executor"}, "resources": [scalar("cpus", 0.1)]}
    document = task(task_id, executor=executor)
    del document["command"]
    return devolve("mesos.TaskInfo", document)


def uuid_of(number: int) -> str:
    return base64.b64encode(UUID(int=number, version=4).bytes).decode()


class Drivers:
    """Drivers of executors, or of schedulers, behind one port; each is named by the id of its process."""

    def __init__(self) -> None:
        self.endpoint = Endpoint("127.0.0.1", 0)
        self._heard: dict[str, asyncio.Queue[tuple[str, Document, Pid]]] = {}

    def spawn(self, process: str) -> str:
        """Begin to hear what is said to a process; return its pid."""
        heard = self._heard[process] = asyncio.Queue()

        def note(message: Message) -> None:
            name = message.name.removeprefix(PREFIX)
            heard.put_nowait((name, decode(message.name, message.body), message.sender))

        self.endpoint.spawn(process, note)
        return str(self.endpoint.pid(process))

    def say(self, process: str, running: Running, name: str, document: Document) -> None:
        to = running.endpoint.pid("slave(1)")
        self.endpoint.send(process, to, PREFIX + name, encode(PREFIX + name, document))

    async def next(self, process: str, name: str) -> Document:
        """Return the next message to a process, which has this name."""
        found, document, _ = await asyncio.wait_for(self._heard[process].get(), PATIENCE_S)
        assert found == name
        return document

    def update(self, process: str, running: Running, task_id: str, state: str, number: int) -> Document:
        """Report a state of a task; return the update."""
        uuid = uuid_of(number)
        status = {"task_id": {"value": task_id}, "state": state, "source": "SOURCE_EXECUTOR", "uuid": uuid}
        update = {**IDS, **OF_AGENT, "status": status, "timestamp": 5.5, "uuid": uuid}
        self.say(process, running, "StatusUpdateMessage", {"update": update, "pid": str(self.endpoint.pid(process))})
        return update


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    await made.endpoint.start(make_app())
    yield made
    await made.endpoint.stop()


async def launched(running: Running, master: ScriptedMaster, *task_ids: str, pid: str = "@0.0.0.0:0") -> None:
    """Have the master run tasks of `echo`, and wait until their executor's container runs."""
    for number, task_id in enumerate(task_ids):
        master.run(FRAMEWORK, hosted(task_id), launch_executor=not number, pid=pid)
    while (executor := running.agent.state.frameworks.executor(ECHO)) is None or executor.stage is Stage.LAUNCHING:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def registered(running: Running, drivers: Drivers, process: str = "executor(1)") -> str:
    pid = drivers.spawn(process)
    drivers.say(process, running, "RegisterExecutorMessage", IDS)
    body = await drivers.next(process, "ExecutorRegisteredMessage")
    assert (body["executor_info"]["executor_id"], body["slave_id"]) == (IDS["executor_id"], OF_AGENT["slave_id"])
    assert (body["framework_id"], body["framework_info"]["name"]) == (IDS["framework_id"], FRAMEWORK["name"])
    return pid


async def test_a_driver_registers_runs_a_task_and_is_told_to_end(
    start: Start, master: ScriptedMaster, drivers: Drivers
) -> None:
    running = await start()
    await launched(running, master, "t1")
    await registered(running, drivers)
    run = await drivers.next("executor(1)", "RunTaskMessage")
    assert (run["task"]["task_id"]["value"], run["framework"]["name"]) == ("t1", FRAMEWORK["name"])
    update = drivers.update("executor(1)", running, "t1", "TASK_RUNNING", 1)
    told = (await master.reaches("t1", "TASK_RUNNING"))["status"]
    assert (told["uuid"], told["source"]) == (update["uuid"], "SOURCE_EXECUTOR")
    acknowledged = await drivers.next("executor(1)", "StatusUpdateAcknowledgementMessage")
    assert acknowledged == {**OF_AGENT, "framework_id": IDS["framework_id"], "task_id": {"value": "t1"}} | {
        "uuid": update["uuid"]
    }
    master.send("KillTaskMessage", {"framework_id": IDS["framework_id"], "task_id": {"value": "t1"}})
    assert (await drivers.next("executor(1)", "KillTaskMessage"))["task_id"] == {"value": "t1"}
    master.send("FrameworkToExecutorMessage", {**OF_AGENT, **IDS, "data": "aGk="})
    assert await drivers.next("executor(1)", "FrameworkToExecutorMessage") == {**OF_AGENT, **IDS, "data": "aGk="}
    drivers.say("executor(1)", running, "ExecutorToFrameworkMessage", {**OF_AGENT, **IDS, "data": "aG8="})
    assert (await master.got("ExecutorToFrameworkMessage"))["data"] == "aG8="
    master.send("ShutdownExecutorMessage", IDS)
    await drivers.next("executor(1)", "ShutdownExecutorMessage")


async def test_executors_that_nobody_waits_for_are_told_to_end(
    start: Start, master: ScriptedMaster, drivers: Drivers
) -> None:
    running = await start()
    drivers.spawn("executor(2)")
    drivers.say("executor(2)", running, "RegisterExecutorMessage", IDS)
    await drivers.next("executor(2)", "ShutdownExecutorMessage")
    await launched(running, master, "t1")
    drivers.say("executor(2)", running, "ReregisterExecutorMessage", IDS)
    await drivers.next("executor(2)", "ShutdownExecutorMessage")
    await registered(running, drivers)
    drivers.say("executor(2)", running, "RegisterExecutorMessage", IDS)
    await drivers.next("executor(2)", "ShutdownExecutorMessage")
    # What it says of the other's task counts for nothing.
    await drivers.next("executor(1)", "RunTaskMessage")
    drivers.update("executor(2)", running, "t1", "TASK_FAILED", 1)
    drivers.update("executor(1)", running, "t1", "TASK_RUNNING", 2)
    await master.reaches("t1", "TASK_RUNNING")
    assert "TASK_FAILED" not in master.states("t1")


async def test_where_executors_must_show_a_token_a_driver_is_told_to_end(
    start: Start, master: ScriptedMaster, drivers: Drivers
) -> None:
    running = await start(access=Access(Gate({}), OPEN, b"key"))
    await launched(running, master, "t1")
    drivers.spawn("executor(1)")
    drivers.say("executor(1)", running, "RegisterExecutorMessage", IDS)
    await drivers.next("executor(1)", "ShutdownExecutorMessage")


async def test_a_driver_is_asked_to_come_back_and_says_again_what_was_lost(
    start: Start, master: ScriptedMaster, drivers: Drivers, tmp_path: Path
) -> None:
    running = await start()
    await launched(running, master, "t1", "t2", "t3")
    pid = await registered(running, drivers)
    runs = [(await drivers.next("executor(1)", "RunTaskMessage"))["task"] for _ in range(3)]
    drivers.update("executor(1)", running, "t1", "TASK_RUNNING", 1)
    await drivers.next("executor(1)", "StatusUpdateAcknowledgementMessage")
    assert [path.read_text() for path in tmp_path.glob("meta/**/pids/libprocess.pid")] == [pid]
    await running.has_no_update_of(TaskKey(FRAMEWORK_ID, TaskId("t1")))
    await running.die()

    again = asyncio.ensure_future(start(running.containers, port=running.endpoint.port))
    assert await drivers.next("executor(1)", "ReconnectExecutorMessage") == OF_AGENT
    lost: Document = {"task_id": {"value": "t2"}, "state": "TASK_RUNNING", "source": "SOURCE_EXECUTOR"}
    uuid = uuid_of(2)
    update = {**IDS, **OF_AGENT, "status": {**lost, "uuid": uuid}, "timestamp": 7.5, "uuid": uuid}
    drivers.say("executor(1)", running, "ReregisterExecutorMessage", {**IDS, "tasks": runs[1:2], "updates": [update]})
    assert (await drivers.next("executor(1)", "ExecutorReregisteredMessage"))["slave_id"] == OF_AGENT["slave_id"]
    assert (await drivers.next("executor(1)", "StatusUpdateAcknowledgementMessage"))["uuid"] == uuid
    await again
    await master.reaches("t2", "TASK_RUNNING")
    # It never had the third.
    assert (await master.reaches("t3", "TASK_DROPPED"))["status"]["reason"] == "REASON_SLAVE_RESTARTED"
    assert master.states("t1") == ["TASK_RUNNING"]


async def test_schedulers_and_executors_write_to_each_other_past_the_master(
    start: Start, master: ScriptedMaster, drivers: Drivers
) -> None:
    running = await start()
    scheduler = drivers.spawn("scheduler(1)")
    drivers.spawn("scheduler(2)")
    await launched(running, master, "t1", pid=scheduler)
    await registered(running, drivers)
    assert (await drivers.next("executor(1)", "RunTaskMessage"))["pid"] == scheduler
    drivers.say("scheduler(2)", running, "FrameworkToExecutorMessage", {**OF_AGENT, **IDS, "data": "ZXZl"})
    drivers.say("scheduler(1)", running, "FrameworkToExecutorMessage", {**OF_AGENT, **IDS, "data": "aGk="})
    assert (await drivers.next("executor(1)", "FrameworkToExecutorMessage"))["data"] == "aGk="
    drivers.say("executor(1)", running, "ExecutorToFrameworkMessage", {**OF_AGENT, **IDS, "data": "aG8="})
    assert (await drivers.next("scheduler(1)", "ExecutorToFrameworkMessage"))["data"] == "aG8="
    assert master.messages("ExecutorToFrameworkMessage") == []

    await running.die()
    again = asyncio.ensure_future(start(running.containers, port=running.endpoint.port))
    await drivers.next("executor(1)", "ReconnectExecutorMessage")
    drivers.say("executor(1)", running, "ReregisterExecutorMessage", IDS)
    await drivers.next("executor(1)", "ExecutorReregisteredMessage")
    await again
    drivers.say("executor(1)", running, "ExecutorToFrameworkMessage", {**OF_AGENT, **IDS, "data": "aGE="})
    assert (await drivers.next("scheduler(1)", "ExecutorToFrameworkMessage"))["data"] == "aGE="
    # The framework has failed over to a scheduler that speaks HTTP.
    master.send("UpdateFrameworkMessage", {"framework_id": IDS["framework_id"], "pid": "@0.0.0.0:0"})
    drivers.say("executor(1)", running, "ExecutorToFrameworkMessage", {**OF_AGENT, **IDS, "data": "aGI="})
    assert (await master.got("ExecutorToFrameworkMessage"))["data"] == "aGI="


def test_a_task_group_goes_to_a_driver_task_by_task() -> None:
    event = {"type": "LAUNCH_GROUP", "launch_group": {"task_group": {"tasks": [{"name": "a"}, {"name": "b"}]}}}
    messages = messages_of(event, Driver(ECHO, AGENT_ID, {"name": "f"}))
    assert [(name, body["task"]["name"], body["pid"]) for name, body in messages] == [
        ("RunTaskMessage", "a", "@0.0.0.0:0"),
        ("RunTaskMessage", "b", "@0.0.0.0:0"),
    ]
    assert messages_of({"type": "HEARTBEAT"}, Driver(ECHO, AGENT_ID, {})) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"uuid": "AAAA"},
        {"status": {"task_id": {"value": "t"}, "state": "TASK_STAGING"}},
        {"status": {"task_id": {"value": "t"}, "state": "TASK_RUNNING", "executor_id": {"value": "x"}}},
    ],
)
def test_updates_that_mesos_refuses_are_refused(changes: dict[str, Any], golden: Golden) -> None:
    uuid = uuid_of(1)
    update: Document = {"status": {"task_id": {"value": "t"}, "state": "TASK_RUNNING"}, "timestamp": 1.5, "uuid": uuid}
    assert status_of(update, ECHO) == {
        "task_id": {"value": "t"},
        "state": "TASK_RUNNING",
        "source": "SOURCE_EXECUTOR",
        "timestamp": 1.5,
        "uuid": uuid,
    }
    with pytest.raises(ProtocolError) as refused:
        status_of({**update, **changes}, ECHO)
    assert str(refused.value) == golden
