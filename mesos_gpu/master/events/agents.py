"""What agents say, and how they go silent. Values only; documents are v1.

Source of the messages: Mesos src/messages/messages.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mesos_gpu.master.model.report import Report
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId
from mesos_gpu.mesos.resource import Document

NOT_ANSWERING = "health check timed out"


class AgentNews:
    """What comes from an agent, or from the watch over it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Register(AgentNews):
    """RegisterSlaveMessage: an agent without an id wants to be one of ours."""

    report: Report


@dataclass(frozen=True, slots=True)
class Reregister(AgentNews):
    """ReregisterSlaveMessage: an agent with an id is back, after its restart, ours, a broken link, or silence."""

    report: Report


@dataclass(frozen=True, slots=True)
class Unregister(AgentNews):
    """UnregisterSlaveMessage from `pid`: an agent leaves for good."""

    agent_id: AgentId
    pid: str


@dataclass(frozen=True, slots=True)
class AgentUpdate(AgentNews):
    """UpdateSlaveMessage from `pid`; what it does not say is None.

    `resource_version_uuid` is the version that tasks must name, `operations` are those on the agent.
    """

    agent_id: AgentId
    pid: str
    resource_version_uuid: str | None = None
    operations: Sequence[Document] | None = None


@dataclass(frozen=True, slots=True)
class StatusUpdate(AgentNews):
    """StatusUpdateMessage: a TaskStatus with its uuid; `latest_state` is the task's newest state there."""

    agent_id: AgentId
    framework_id: FrameworkId
    status: TaskStatus
    latest_state: str


@dataclass(frozen=True, slots=True)
class OperationStatus(AgentNews):
    """UpdateOperationStatusMessage; `operation_uuid` is base64 of 16 bytes, `status` an OperationStatus."""

    agent_id: AgentId
    operation_uuid: str
    status: Document


@dataclass(frozen=True, slots=True)
class ExecutorExited(AgentNews):
    """ExitedExecutorMessage: a framework's own executor has ended, with this status as wait(2) gives it."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    status: int


@dataclass(frozen=True, slots=True)
class ExecutorMessage(AgentNews):
    """ExecutorToFrameworkMessage: bytes (base64) from an executor to its scheduler."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    data: str


@dataclass(frozen=True, slots=True)
class LinkBroken(AgentNews):
    """The connection to whoever is at `pid` broke: an agent, or a scheduler's driver."""

    pid: str


@dataclass(frozen=True, slots=True)
class AgentSilent(AgentNews):
    """An agent has not answered, or not come back, for too long; `why` is for people."""

    agent_id: AgentId
    why: str = NOT_ANSWERING


@dataclass(frozen=True, slots=True)
class AgentsMissing(AgentNews):
    """Agents of the registry did not come back within `--agent_reregister_timeout` of our start."""

    agent_ids: Sequence[AgentId]


AgentEvent: TypeAlias = (
    Register
    | Reregister
    | Unregister
    | AgentUpdate
    | StatusUpdate
    | OperationStatus
    | ExecutorExited
    | ExecutorMessage
    | LinkBroken
    | AgentSilent
    | AgentsMissing
)
