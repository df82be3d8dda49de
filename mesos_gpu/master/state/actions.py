"""What the master's state asks its edges to do. Values; the order in a list is part of the decision.

Documents are v1; agent_link turns them into internal messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from mesos_gpu.master.events.stored import StoredEvent
from mesos_gpu.master.registry.operations import Operation
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import Document


@dataclass(frozen=True, slots=True)
class SendEvent:
    """One event on a scheduler's stream."""

    stream_id: str
    event: Document


@dataclass(frozen=True, slots=True)
class CloseStream:
    """End a scheduler's stream after what was sent on it."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class Store:
    """Change the registry; when that is durable, and not before, `then` happens.

    Other events come in between: `then` finds the books as they left them. What stands behind a Store in a list of
    actions does not wait for it; of two Stores the first is durable, and followed, first.
    """

    operation: Operation
    then: StoredEvent


@dataclass(frozen=True, slots=True)
class AwaitFailover:
    """Report `FailoverExpired(framework_id, epoch)` after `delay_s` seconds."""

    framework_id: FrameworkId
    epoch: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class ObserveAgent:
    """Link to the agent and ping it; it is new, or came back."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class ForgetAgent:
    """Stop pinging the agent and close the link to it; with `silent`, what has not arrived yet never will."""

    agent_id: AgentId
    silent: bool = False


@dataclass(frozen=True, slots=True)
class AgentRegistered:
    """Tell an agent its id."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class AgentReregistered:
    """Welcome an agent back; `reconciliations` are the tasks that it did not list, by framework."""

    agent_id: AgentId
    reconciliations: list[Document] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShutdownAgent:
    """Tell whoever is at `pid` that it may not be an agent here."""

    pid: str
    message: str


@dataclass(frozen=True, slots=True)
class RunTask:
    """Start a task; `launch_executor` when the agent has no executor for it yet."""

    agent_id: AgentId
    framework_info: FrameworkInfo
    task: TaskInfo
    launch_executor: bool


@dataclass(frozen=True, slots=True)
class RunTaskGroup:
    """Start tasks that share one executor; `launch_executor` when the agent does not have it yet."""

    agent_id: AgentId
    framework_info: FrameworkInfo
    executor: ExecutorInfo
    tasks: list[TaskInfo]
    launch_executor: bool


@dataclass(frozen=True, slots=True)
class DrainAgent:
    """Have an agent end all its tasks; `config` is a DrainConfig."""

    agent_id: AgentId
    config: Document


@dataclass(frozen=True, slots=True)
class KillTask:
    """Ask for the end of a task."""

    agent_id: AgentId
    framework_id: FrameworkId
    task_id: TaskId
    kill_policy: Document | None


@dataclass(frozen=True, slots=True)
class AcknowledgeStatus:
    """Pass on that the scheduler has a status; `uuid` is base64 of its 16 bytes."""

    agent_id: AgentId
    framework_id: FrameworkId
    task_id: TaskId
    uuid: str


@dataclass(frozen=True, slots=True)
class UpdateFramework:
    """Tell an agent what a framework looks like now; it resends what was not acknowledged."""

    agent_id: AgentId
    framework_info: FrameworkInfo


@dataclass(frozen=True, slots=True)
class ShutdownFramework:
    """Have an agent end all of a framework."""

    agent_id: AgentId
    framework_id: FrameworkId


@dataclass(frozen=True, slots=True)
class ShutdownExecutor:
    """Have an agent end one executor."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId


@dataclass(frozen=True, slots=True)
class MessageExecutor:
    """Pass bytes (base64) from a scheduler to its executor."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    data: str


@dataclass(frozen=True, slots=True)
class ApplyOperation:
    """Have an agent do an operation that is done in our books; `framework_id` is None for an operator's."""

    agent_id: AgentId
    uuid: str
    operation: Document
    framework_id: FrameworkId | None


@dataclass(frozen=True, slots=True)
class KeepResources:
    """Tell an agent that knows no operations all that is reserved and created on it."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class AcknowledgeOperation:
    """Tell an agent that the status of an operation was heard; both are base64 of 16 bytes."""

    agent_id: AgentId
    status_uuid: str
    operation_uuid: str


@dataclass(frozen=True, slots=True)
class ReconcileOperations:
    """Ask an agent about operations that it did not list."""

    agent_id: AgentId
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the operator, in the log, why something was refused without an answer.

    What belongs to the `usual` course of things, so that nobody can or need act on it, is no warning there.
    """

    text: str
    usual: bool = False


AboutOperations: TypeAlias = ApplyOperation | KeepResources | AcknowledgeOperation | ReconcileOperations
ToKnownAgent: TypeAlias = (
    AgentRegistered
    | AgentReregistered
    | RunTask
    | RunTaskGroup
    | DrainAgent
    | KillTask
    | AcknowledgeStatus
    | UpdateFramework
    | ShutdownFramework
    | ShutdownExecutor
    | MessageExecutor
    | AboutOperations
)
"""What is told to an agent of ours."""
ToAgent: TypeAlias = ShutdownAgent | ToKnownAgent
NotStored: TypeAlias = SendEvent | CloseStream | AwaitFailover | ObserveAgent | ForgetAgent | Warn | ToAgent
"""Actions that are carried out at once."""
Action: TypeAlias = Store | NotStored
