"""Tasks and operations as the documents that travel say them, and what a FrameworkInfo or a Resource says of itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw, Struct, field

from mesos_gpu.mesos.ids import ANY_ROLE, AgentId, ExecutorId, FrameworkId, Role, TaskId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.tasks import is_terminal

MAX_TOLD = 16


class Task(Struct, eq=False):
    """A task as the master knows it. `document` is a v1 Task; `resources` are allocated to the task's role.

    The document's `state` is the latest known and books the resources; its `status_update_state` is the one that was
    last forwarded, and the task stays until a terminal one of those is acknowledged.
    """

    document: Document
    resources: Resources
    held: bool = True
    """Whether its resources are booked on its agent."""
    told: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_TOLD))
    """Uuids of the agent's last status updates that were forwarded, in order."""
    unlisted: bool = False
    """Whether its agent came back without it, and was asked what became of it."""
    page: Raw | None = None
    """What /state says of it, made once it is one of the completed: nothing of those changes."""

    @property
    def id(self) -> TaskId:
        """Return the task id."""
        return TaskId(self.document["task_id"]["value"])

    @property
    def framework_id(self) -> FrameworkId:
        """Return the id of its framework."""
        return FrameworkId(self.document["framework_id"]["value"])

    @property
    def agent_id(self) -> AgentId:
        """Return the id of its agent."""
        return AgentId(self.document["agent_id"]["value"])

    @property
    def key(self) -> tuple[FrameworkId, TaskId]:
        """Return (framework id, task id): what identifies it on an agent."""
        return self.framework_id, self.id

    @property
    def executor_id(self) -> ExecutorId | None:
        """Return the id of its own executor; None for a command task."""
        executor = self.document.get("executor_id")
        return None if executor is None else ExecutorId(executor["value"])

    @property
    def state(self) -> str:
        """Return the latest known state."""
        return str(self.document["state"])

    @property
    def ended(self) -> bool:
        """Return whether the latest known state is terminal."""
        return is_terminal(self.state)

    @property
    def told_state(self) -> str:
        """Return the state the framework was last told, or the latest where nothing was forwarded yet."""
        return str(self.document.get("status_update_state", self.state))


class Operation(Struct, eq=False):
    """An operation on an agent's resources that somebody has yet to hear the end of. `document` is a v1 Operation."""

    document: Document

    @property
    def uuid(self) -> str:
        """Return its name between master and agent, base64 of 16 bytes."""
        return str(self.document["uuid"]["value"])

    @property
    def id(self) -> str | None:
        """Return the id that its framework gave it; None: the framework does not want to hear of it."""
        given = self.document["info"].get("id")
        return None if given is None else str(given["value"])

    @property
    def kind(self) -> str:
        """Return what it does, such as RESERVE."""
        return str(self.document["info"].get("type", "UNKNOWN"))

    @property
    def framework_id(self) -> FrameworkId | None:
        """Return whose it is, None for an operator's."""
        framework = self.document.get("framework_id")
        return None if framework is None else FrameworkId(framework["value"])

    @property
    def agent_id(self) -> AgentId:
        """Return the id of its agent."""
        return AgentId(self.document["agent_id"]["value"])

    @property
    def state(self) -> str:
        """Return the latest known state."""
        return str(self.document["latest_status"]["state"])

    @property
    def ended(self) -> bool:
        """Return whether the latest known state is terminal."""
        return self.state != "OPERATION_PENDING"

    @property
    def status_uuids(self) -> tuple[str, ...]:
        """Return what may be acknowledged."""
        return tuple(s["uuid"]["value"] for s in self.document.get("statuses", ()) if "uuid" in s)

    def note(self, status: Document) -> None:
        """Take a status into its history; one that was sent again is there already."""
        self.document["latest_status"] = status
        if status not in self.document.setdefault("statuses", []):
            self.document["statuses"].append(status)


def capabilities_of(info: Mapping[str, Any]) -> frozenset[str]:
    """Return the capability names of a FrameworkInfo; unknown ones carry no type and do not count."""
    return frozenset(c["type"] for c in info.get("capabilities", ()) if "type" in c)


def roles_of(info: Mapping[str, Any]) -> tuple[Role, ...]:
    """Return the roles of a FrameworkInfo: `roles` with MULTI_ROLE, else the one `role`."""
    if "MULTI_ROLE" in capabilities_of(info):
        return tuple(info.get("roles", ()))
    return (Role(info.get("role", ANY_ROLE)),)


def role_of(documents: Sequence[Mapping[str, Any]]) -> Role:
    """Return the role that Resource documents are allocated to; `*` where they do not say."""
    for document in documents:
        if "allocation_info" in document:
            return Role(document["allocation_info"].get("role", ANY_ROLE))
    return ANY_ROLE
