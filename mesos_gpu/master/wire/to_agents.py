"""Actions as the messages that carry them to agents. Values to values; documents have v1 parts.

Source: Mesos src/messages/messages.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from typing_extensions import assert_never

from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    AcknowledgeStatus,
    AgentRegistered,
    AgentReregistered,
    ApplyOperation,
    DrainAgent,
    KeepResources,
    KillTask,
    MessageExecutor,
    ReconcileOperations,
    RunTask,
    RunTaskGroup,
    ShutdownExecutor,
    ShutdownFramework,
    ToKnownAgent,
    UpdateFramework,
)
from mesos_gpu.master.wire import agent_operations
from mesos_gpu.master.wire.agent_forms import NO_PID, executor_for, resource_version, task_for
from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.resource import Document

Message: TypeAlias = tuple[str, Document]
"""The name of a message, without its package, and its body."""


class Books(Struct, frozen=True):
    """What a message says that the action does not."""

    agent: Agent
    driver_pid: Callable[[FrameworkId], str | None]
    """Where a framework's driver is, to which agents send what its executors say; None for one over HTTP."""
    ping_timeout_s: float
    """How long the agent is pinged in vain before it is given up."""


def message_of(action: ToKnownAgent, books: Books) -> Message:
    """Return the message that carries an action out."""
    match action:
        case AgentRegistered() | AgentReregistered():
            return _welcome(action, books)
        case RunTask() | RunTaskGroup():
            return _launch(action, books)
        case ApplyOperation() | KeepResources() | AcknowledgeOperation() | ReconcileOperations():
            return agent_operations.message_of(action, books.agent)
        case DrainAgent(_, config):
            return "DrainSlaveMessage", {"config": config}
        case UpdateFramework(_, info):
            pid = _pid_of(info, books)
            return "UpdateFrameworkMessage", {"framework_id": info["id"], "pid": pid, "framework_info": info}
        case ShutdownFramework(_, framework_id):
            return "ShutdownFrameworkMessage", {"framework_id": _id(framework_id)}
        case KillTask() | AcknowledgeStatus():
            return _about_task(action)
        case ShutdownExecutor() | MessageExecutor():
            return _about_executor(action)
        case _:
            assert_never(action)


def _welcome(action: AgentRegistered | AgentReregistered, books: Books) -> Message:
    document: Document = {
        "slave_id": _id(action.agent_id),
        "connection": {"total_ping_timeout_seconds": books.ping_timeout_s},
    }
    if isinstance(action, AgentRegistered):
        return "SlaveRegisteredMessage", document
    if action.reconciliations:
        document["reconciliations"] = list(action.reconciliations)
    return "SlaveReregisteredMessage", document


def _launch(action: RunTask | RunTaskGroup, books: Books) -> Message:
    agent = books.agent
    document: Document = {
        "framework": action.framework_info,
        "launch_executor": action.launch_executor,
        **resource_version(agent),
    }
    if isinstance(action, RunTask):
        document |= {"pid": _pid_of(action.framework_info, books), "task": task_for(agent, action.task)}
        return "RunTaskMessage", document
    document |= {
        "executor": executor_for(agent, action.executor),
        "task_group": {"tasks": [task_for(agent, task) for task in action.tasks]},
    }
    return "RunTaskGroupMessage", document


def _pid_of(framework_info: FrameworkInfo, books: Books) -> str:
    return books.driver_pid(framework_info["id"]["value"]) or NO_PID


def _about_task(action: KillTask | AcknowledgeStatus) -> Message:
    document: Document = {"framework_id": _id(action.framework_id), "task_id": _id(action.task_id)}
    if isinstance(action, AcknowledgeStatus):
        document |= {"slave_id": _id(action.agent_id), "uuid": action.uuid}
        return "StatusUpdateAcknowledgementMessage", document
    if action.kill_policy is not None:
        document["kill_policy"] = action.kill_policy
    return "KillTaskMessage", document


def _about_executor(action: ShutdownExecutor | MessageExecutor) -> Message:
    document: Document = {"executor_id": _id(action.executor_id), "framework_id": _id(action.framework_id)}
    if isinstance(action, ShutdownExecutor):
        return "ShutdownExecutorMessage", document
    return "FrameworkToExecutorMessage", {**document, "slave_id": _id(action.agent_id), "data": action.data}


def _id(value: str) -> Document:
    return {"value": value}
