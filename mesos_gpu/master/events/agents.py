"""What agents say, and how they go silent. Values only; documents are v1.

Source of the messages: Mesos src/messages/messages.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.master.model.report import Report
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId
from mesos_gpu.mesos.resource import Document

NOT_ANSWERING = "health check timed out"


class AgentNews(Struct, frozen=True):
    """What comes from an agent, or from the watch over it."""


class Register(AgentNews, frozen=True):
    """RegisterSlaveMessage: an agent without an id wants to be one of ours."""

    report: Report


class Reregister(AgentNews, frozen=True):
    """ReregisterSlaveMessage: an agent with an id is back, after its restart, ours, a broken link, or silence."""

    report: Report


class Unregister(AgentNews, frozen=True):
    """UnregisterSlaveMessage from `pid`: an agent leaves for good."""

    agent_id: AgentId
    pid: str


class AgentUpdate(AgentNews, frozen=True):
    """UpdateSlaveMessage from `pid`; what it does not say is None.

    `resource_version_uuid` is the version that tasks must name, `operations` are those on the agent.
    """

    agent_id: AgentId
    pid: str
    resource_version_uuid: str | None = None
    operations: Sequence[Document] | None = None


class StatusUpdate(AgentNews, frozen=True):
    """StatusUpdateMessage: a TaskStatus with its uuid; `latest_state` is the task's newest state there."""

    agent_id: AgentId
    framework_id: FrameworkId
    status: TaskStatus
    latest_state: str


class OperationStatus(AgentNews, frozen=True):
    """UpdateOperationStatusMessage; `operation_uuid` is base64 of 16 bytes, `status` an OperationStatus."""

    agent_id: AgentId
    operation_uuid: str
    status: Document


class ExecutorExited(AgentNews, frozen=True):
    """ExitedExecutorMessage: a framework's own executor has ended, with this status as wait(2) gives it."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    status: int


class ExecutorMessage(AgentNews, frozen=True):
    """ExecutorToFrameworkMessage: bytes (base64) from an executor to its scheduler."""

    agent_id: AgentId
    framework_id: FrameworkId
    executor_id: ExecutorId
    data: str


class LinkBroken(AgentNews, frozen=True):
    """The connection to whoever is at `pid` broke: an agent, or a scheduler's driver."""

    pid: str


class AgentSilent(AgentNews, frozen=True):
    """An agent has not answered, or not come back, for too long; `why` is for people."""

    agent_id: AgentId
    why: str = NOT_ANSWERING


class AgentsMissing(AgentNews, frozen=True):
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
