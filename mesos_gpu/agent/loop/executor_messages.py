"""What executors with libmesos' driver are told and say, as messages: v1 events out, v1 statuses in. Values to values.

Source: Mesos src/exec/exec.cpp (which messages a driver handles and sends), src/slave/slave.cpp (registerExecutor,
reregisterExecutor, statusUpdate), src/messages/messages.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from mesos_gpu.agent.loop.executor_api import call_problem
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.documents import FrameworkInfo, TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document

NO_PID = "@0.0.0.0:0"


class Driver(Struct, frozen=True):
    """Who a message is for, as the agent knows it."""

    key: ExecutorKey
    agent_id: AgentId
    framework_info: FrameworkInfo
    framework_pid: str | None = None
    returns: bool = False
    """It was here before the agent's process, and registers again."""


def messages_of(event: Document, driver: Driver) -> list[tuple[str, Document]]:
    """Return the names, without their package, and the bodies of the messages for an event."""
    make = _MESSAGES.get(event["type"])
    return [] if make is None else make(event.get(str(event["type"]).lower(), {}), driver)


def status_of(update: Document, key: ExecutorKey) -> TaskStatus:
    """Return the v1 status of an executor's StatusUpdate. Raises ProtocolError for one that the agent refuses."""
    said: TaskStatus = update["status"]
    status: TaskStatus = {**said, "source": "SOURCE_EXECUTOR"}
    status.setdefault("timestamp", update["timestamp"])
    if "uuid" in update:
        status["uuid"] = update["uuid"]
    call = {
        "type": "UPDATE",
        "framework_id": {"value": key.framework},
        "executor_id": {"value": key.executor},
        "update": {"status": status},
    }
    problem = call_problem(call)
    if problem is not None:
        raise ProtocolError(problem)
    return status


def _subscribed(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    agent = {"slave_id": {"value": driver.agent_id}, "slave_info": body["agent_info"]}
    if driver.returns:
        return [("ExecutorReregisteredMessage", agent)]
    registered = {
        "executor_info": body["executor_info"],
        "framework_id": {"value": driver.key.framework},
        "framework_info": body["framework_info"],
        **agent,
    }
    return [("ExecutorRegisteredMessage", registered)]


def _launch(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    return [_run(body["task"], driver)]


def _launch_group(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    """Return the tasks of a group one by one: drivers know no groups."""
    return [_run(task, driver) for task in body["task_group"]["tasks"]]


def _run(task: TaskInfo, driver: Driver) -> tuple[str, Document]:
    # Drivers of 0.23 cannot read it without a pid, and those before without the id, which they do not use.
    framework = {"framework_id": {"value": driver.key.framework}, "framework": driver.framework_info}
    return "RunTaskMessage", {**framework, "pid": driver.framework_pid or NO_PID, "task": task}


def _kill(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    return [("KillTaskMessage", {"framework_id": {"value": driver.key.framework}, **body})]


def _acknowledged(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    ids = {"slave_id": {"value": driver.agent_id}, "framework_id": {"value": driver.key.framework}}
    return [("StatusUpdateAcknowledgementMessage", {**ids, **body})]


def _message(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    ids = {"slave_id": {"value": driver.agent_id}, "framework_id": {"value": driver.key.framework}}
    executor = {"executor_id": {"value": driver.key.executor}}
    return [("FrameworkToExecutorMessage", {**ids, **executor, "data": body["data"]})]


def _shutdown(body: Document, driver: Driver) -> list[tuple[str, Document]]:
    return [("ShutdownExecutorMessage", {})]


_MESSAGES: Mapping[str, Callable[[Document, Driver], list[tuple[str, Document]]]] = {
    "SUBSCRIBED": _subscribed,
    "LAUNCH": _launch,
    "LAUNCH_GROUP": _launch_group,
    "KILL": _kill,
    "ACKNOWLEDGED": _acknowledged,
    "MESSAGE": _message,
    "SHUTDOWN": _shutdown,
}
