"""Agents' messages, translated to v1 already, read into events. Values to values.

Source: Mesos src/messages/messages.proto, src/master/master.cpp (initialize: which messages are taken).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from mesos_gpu.errors import ProtocolError
from mesos_gpu.master.events.agents import (
    AgentEvent,
    ExecutorExited,
    ExecutorMessage,
    Register,
    Reregister,
    StatusUpdate,
    Unregister,
)
from mesos_gpu.master.model.report import Report
from mesos_gpu.master.wire import agent_operations
from mesos_gpu.mesos.documents import AgentInfo, TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.uuids import uuid_in


def _register(document: Document, pid: str) -> Register:
    return Register(_report(document, pid))


def _reregister(document: Document, pid: str) -> Reregister:
    return Reregister(_report(document, pid))


def _unregister(document: Document, pid: str) -> Unregister:
    return Unregister(document["slave_id"]["value"], pid)


def _status_update(document: Document, pid: str) -> StatusUpdate:
    """Read a StatusUpdateMessage. Raises ProtocolError for what Mesos' master drops, or what ends it."""
    update = document["update"]
    if "slave_id" not in update or "uuid" not in update["status"]:
        raise ProtocolError("a status update without an agent id or a uuid")
    uuid_in(update.get("uuid", ""), "a status update")
    Pid.parse(document.get("pid", ""))
    agent_id, framework_id = update["slave_id"]["value"], update["framework_id"]["value"]
    said = with_defaults("mesos.v1.TaskStatus", update["status"])
    said |= {"agent_id": {"value": agent_id}, "timestamp": update["timestamp"], "uuid": update["uuid"]}
    if "executor_id" in update:
        said["executor_id"] = update["executor_id"]
    status = cast(TaskStatus, said)
    return StatusUpdate(agent_id, framework_id, status, update.get("latest_state", status["state"]))


def _exited_executor(document: Document, pid: str) -> ExecutorExited:
    return ExecutorExited(*_executor_of(document), document["status"])


def _executor_message(document: Document, pid: str) -> ExecutorMessage:
    return ExecutorMessage(*_executor_of(document), document["data"])


def _executor_of(document: Document) -> tuple[AgentId, FrameworkId, ExecutorId]:
    return document["slave_id"]["value"], document["framework_id"]["value"], document["executor_id"]["value"]


def _report(document: Document, pid: str) -> Report:
    agent = document["slave"]
    capabilities = [c["type"] for c in document.get("agent_capabilities", ()) if "type" in c]
    return Report(
        pid=pid,
        info=cast(AgentInfo, {name: value for name, value in agent.items() if name != "checkpoint"}),
        version=document.get("version", ""),
        capabilities=tuple(str(capability) for capability in capabilities),
        checkpoint=agent.get("checkpoint", False),
        resource_version_uuid=document.get("resource_version_uuid", {}).get("value"),
        kept=document.get("checkpointed_resources", []),
        tasks=document.get("tasks", []),
        executors=document.get("executor_infos", []),
        frameworks=document.get("frameworks", []),
    )


READERS: Mapping[str, Callable[[Document, str], AgentEvent]] = {
    "RegisterSlaveMessage": _register,
    "ReregisterSlaveMessage": _reregister,
    "UnregisterSlaveMessage": _unregister,
    "UpdateSlaveMessage": agent_operations.agent_update,
    "UpdateOperationStatusMessage": agent_operations.operation_status,
    "StatusUpdateMessage": _status_update,
    "ExitedExecutorMessage": _exited_executor,
    "ExecutorToFrameworkMessage": _executor_message,
}
"""By the name of the message; each takes its document and the pid that it came from, and raises ProtocolError."""
