"""One task of an agent: its phases as a table, and its documents as Mesos' messages and endpoints show them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, unique
from typing import Any

from msgspec import Struct, field

from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.documents import TaskInfo, TaskStatus
from mesos_gpu.mesos.ids import ContainerId, ExecutorId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.secrets import without_secrets

_COPIED = ("labels", "discovery", "container", "health_check", "kill_policy", "limits")


@unique
class Phase(Enum):
    """Where a task is in its life on the agent."""

    LAUNCHING = "its container is being launched"
    CANCELLED = "asked to end before its container ran"
    RUNNING = "its container runs"
    ENDING = "asked to end, its container runs still"
    OVER = "its container is gone; its last update waits for an acknowledgement"


@unique
class Cause(Enum):
    """What moves a task on."""

    LAUNCHED = "its container runs"
    LAUNCH_FAILED = "its container could not be launched"
    END_ASKED = "someone wants it to end"
    ENDED = "its container ended"
    VANISHED = "its container is not there after a restart"


NEXT_PHASE: Mapping[tuple[Phase, Cause], Phase] = {
    (Phase.LAUNCHING, Cause.LAUNCHED): Phase.RUNNING,
    (Phase.LAUNCHING, Cause.LAUNCH_FAILED): Phase.OVER,
    (Phase.LAUNCHING, Cause.END_ASKED): Phase.CANCELLED,
    (Phase.LAUNCHING, Cause.ENDED): Phase.OVER,
    (Phase.LAUNCHING, Cause.VANISHED): Phase.OVER,
    (Phase.CANCELLED, Cause.LAUNCHED): Phase.CANCELLED,
    (Phase.CANCELLED, Cause.LAUNCH_FAILED): Phase.OVER,
    (Phase.CANCELLED, Cause.END_ASKED): Phase.CANCELLED,
    (Phase.CANCELLED, Cause.ENDED): Phase.OVER,
    (Phase.CANCELLED, Cause.VANISHED): Phase.OVER,
    (Phase.RUNNING, Cause.END_ASKED): Phase.ENDING,
    (Phase.RUNNING, Cause.ENDED): Phase.OVER,
    (Phase.RUNNING, Cause.VANISHED): Phase.OVER,
    (Phase.ENDING, Cause.END_ASKED): Phase.ENDING,
    (Phase.ENDING, Cause.ENDED): Phase.OVER,
    (Phase.ENDING, Cause.VANISHED): Phase.OVER,
    (Phase.OVER, Cause.END_ASKED): Phase.OVER,
}
"""An absent pair cannot happen; `next_phase` says so."""


class IllegalTransition(ValueError):
    """A task was told something that cannot happen in its phase: a mistake of ours."""


def next_phase(phase: Phase, cause: Cause) -> Phase:
    """Return the phase after `cause`. Raises IllegalTransition for a pair that is not in the table."""
    try:
        return NEXT_PHASE[phase, cause]
    except KeyError:
        raise IllegalTransition(f"a task of which '{phase.value}' was told '{cause.value}'") from None


@unique
class Fate(Enum):
    """Why a task was asked to end; it decides the terminal state."""

    KILLED = "killed"
    TIMED_OUT = "timed_out"
    SILENCED = "silenced"
    GPU_ILL = "gpu_ill"
    UNHEALTHY = "unhealthy"


class Task(Struct):
    """A task and the one run of its executor. `container_id` is None when it never got that far.

    `hosted`: a framework's executor runs it, in the executor's container; else it has a container of its own.
    """

    key: TaskKey
    info: TaskInfo
    executor_id: ExecutorId
    container_id: ContainerId | None
    sandbox: str
    phase: Phase = Phase.LAUNCHING
    state: str = "TASK_STAGING"
    statuses: list[TaskStatus] = field(default_factory=list)
    forwarded_state: str | None = None
    forwarded_uuid: str | None = None
    pid: int | None = None
    networks: tuple[Document, ...] = ()
    """What it joined, with its addresses."""
    fate: Fate | None = None
    reason: str | None = None
    why: str | None = None
    """What is to be said of an end that the agent itself asked for."""
    gone: bool = False
    hosted: bool = False
    collected: bool = False
    """Its sandbox was removed, some time after its end."""
    handed_over: bool = False
    """It was put on the wire to its executor, or was there before this process."""
    received: set[str] = field(default_factory=set)
    """Uuids of the updates its executor sent; it repeats those whose acknowledgement it missed."""
    grace_ends_s: float | None = None
    asked_grace_s: float | None = None
    """The grace period that its executor was last told to give it."""
    deadline_s: float | None = None
    running_since_s: float | None = None
    healthy: bool | None = None
    check_status: Document | None = None

    def note(self, status: TaskStatus) -> None:
        """Take a status into the task's history, as Mesos does: the last of each run of equal states, without data."""
        kept = status.copy()
        kept.pop("data", None)
        if self.statuses and self.statuses[-1]["state"] == kept["state"]:
            self.statuses.pop()
        self.statuses.append(kept)
        self.state = status["state"]

    def to_message(self) -> Document:
        """Return the v1 Task document of (re-)registration and of GET_TASKS."""
        document: Document = {
            "name": self.info["name"],
            "task_id": self.info["task_id"],
            "framework_id": {"value": self.key.framework},
            "agent_id": self.info["agent_id"],
            "state": self.state,
            "resources": self.info.get("resources", []),
            "statuses": list(self.statuses),
        }
        if self.hosted:
            document["executor_id"] = {"value": self.executor_id}
        if self.forwarded_state is not None:
            document["status_update_state"] = self.forwarded_state
            document["status_update_uuid"] = self.forwarded_uuid
        info: Mapping[str, Any] = self.info
        document.update({name: without_secrets(info[name]) for name in _COPIED if name in info})
        user = (self.info.get("command") or {}).get("user")
        if user is not None:
            document["user"] = user
        return document
