"""What the master's state asks its edges to do. Values; the order in a list is part of the decision.

Documents are v1; agent_link turns them into internal messages.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

from mesos_gpu.master.events.stored import StoredEvent
from mesos_gpu.master.registry.operations import Operation
from mesos_gpu.mesos.documents import ExecutorInfo, FrameworkInfo, TaskInfo
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import Document


class SendEvent(Struct, frozen=True):
    """One event on a scheduler's stream."""

    stream_id: str
    event: Document


class CloseStream(Struct, frozen=True):
    """End a scheduler's stream after what was sent on it."""

    stream_id: str


class Store(Struct, frozen=True):
    """Change the registry; when that is durable, and not before, `then` happens.

    Other events come in between: `then` finds the books as they left them. What stands behind a Store in a list of
    actions does not wait for it; of two Stores the first is durable, and followed, first.
    """

    operation: Operation
    then: StoredEvent


class AwaitFailover(Struct, frozen=True):
    """Report `FailoverExpired(framework_id, epoch)` after `delay_s` seconds."""

    framework_id: FrameworkId
    epoch: int
    delay_s: float


class ObserveAgent(Struct, frozen=True):
    """Link to the agent and ping it; it is new, or came back."""

    agent_id: AgentId


class ForgetAgent(Struct, frozen=True):
    """Stop pinging the agent and close the link to it; with `silent`, what has not arrived yet never will."""

    agent_id: AgentId
    silent: bool = False


class AgentRegistered(Struct, frozen=True):
    """Tell an agent its id."""

    agent_id: AgentId


class AgentReregistered(Struct, frozen=True):
    """Welcome an agent back; `reconciliations` are the tasks that it did not list, by framework."""

    agent_id: AgentId
    reconciliations: list[Document] = field(default_factory=list)


class ShutdownAgent(Struct, frozen=True):
    """Tell whoever is at `pid` that it may not be an agent here."""

    pid: str
    message: str


class RunTask(Struct, frozen=True):
    """Start a task; `launch_executor` when the agent has no executor for it yet."""

    agent_id: AgentId
    framework_info: FrameworkInfo
    task: TaskInfo
    launch_executor: bool


class RunTaskGroup(Struct, frozen=True):
    """Start tasks that share one executor; `launch_executor` when the agent does not have it yet."""

    agent_id: AgentId
    framework_info: FrameworkInfo
    executor: ExecutorInfo
    tasks: list[TaskInfo]
    launch_executor: bool


class DrainAgent(Struct, frozen=True):
    """Have an agent end all its tasks; `config` is a DrainConfig."""

    agent_id: AgentId
    config: Document


class KillTask(Struct, frozen=True):
    """Ask for the end of a task."""

    agent_id: AgentId
    framework_id: FrameworkId
    task_id: TaskId
    kill_policy: Document | None


class AcknowledgeStatus(Struct, frozen=True):
    """Pass on that the scheduler has a status; `uuid` is base64 of its 16 bytes."""

    agent_id: AgentId
    framework_id: FrameworkId
    task_id: TaskId
    uuid: str


class UpdateFramework(Struct, frozen=True):
    """Tell an agent what a framework looks like now; it resends what was not acknowledged."""

    agent_id: AgentId
    framework_info: FrameworkInfo


class ShutdownFramework(Struct, frozen=True):
    """Have an agent end all of a framework."""

    agent_id: AgentId
    framework_id: FrameworkId


class ShutdownExecutor(Struct, frozen=True):
    """Have an agent end one executor."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId


class MessageExecutor(Struct, frozen=True):
    """Pass bytes (base64) from a scheduler to its executor."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    data: str


class ApplyOperation(Struct, frozen=True):
    """Have an agent do an operation that is done in our books; `framework_id` is None for an operator's."""

    agent_id: AgentId
    uuid: str
    operation: Document
    framework_id: FrameworkId | None


class KeepResources(Struct, frozen=True):
    """Tell an agent that knows no operations all that is reserved and created on it."""

    agent_id: AgentId


class AcknowledgeOperation(Struct, frozen=True):
    """Tell an agent that the status of an operation was heard; both are base64 of 16 bytes."""

    agent_id: AgentId
    status_uuid: str
    operation_uuid: str


class ReconcileOperations(Struct, frozen=True):
    """Ask an agent about operations that it did not list."""

    agent_id: AgentId
    uuids: tuple[str, ...]


class Warn(Struct, frozen=True):
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
