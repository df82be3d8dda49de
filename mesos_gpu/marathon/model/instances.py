"""The life of an instance: one place in an app that tasks fill, one after another.

An instance keeps its id while its tasks come and go; the task ids count up. Source: Marathon core/instance and
core/condition/Condition.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.reservations import Reservation
from mesos_gpu.marathon.model.usage import Held
from mesos_gpu.mesos.ids import AgentId, Role, TaskId
from mesos_gpu.mesos.tasks import is_terminal


class Phase(str, Enum):
    """Where an instance is in its life; the values are Marathon's conditions."""

    SCHEDULED = "Scheduled"
    PROVISIONED = "Provisioned"
    STAGING = "Staging"
    STARTING = "Starting"
    RUNNING = "Running"
    KILLING = "Killing"
    UNREACHABLE = "Unreachable"
    ENDED = "Ended"


INACTIVE = frozenset((Phase.SCHEDULED, Phase.ENDED))
"""In these an instance has no task that may be alive somewhere."""


COMING_UP = (Phase.PROVISIONED, Phase.STAGING, Phase.STARTING)
"""A task was started, and does not run yet."""


class Goal(str, Enum):
    """What is meant to become of an instance."""

    RUNNING = "Running"
    STOPPED = "Stopped"
    """Its task ends, and what is reserved for it stays for a next one."""
    DECOMMISSIONED = "Decommissioned"


class Cause(str, Enum):
    """What moves an instance from one phase to the next."""

    LAUNCHED = "launched"
    TASK_STAGING = "its task is staging"
    TASK_STARTING = "its task is starting"
    TASK_RUNNING = "its task is running"
    TASK_KILLING = "its task is being killed"
    TASK_UNREACHABLE = "its agent is gone"
    TASK_ENDED = "its task has ended"
    RESCHEDULED = "a new task is wanted"
    SHELVED = "no task is wanted for now"


class IllegalTransition(ValueError):
    """A cause that cannot happen in a phase: our own mistake."""


# News about a task may come twice or late (agents send an update again until it is acknowledged), so a living task
# never goes back to a phase it has left; only the return of an agent says again where the task is.
NEXT_PHASE: Mapping[tuple[Phase, Cause], Phase] = {
    (Phase.SCHEDULED, Cause.LAUNCHED): Phase.PROVISIONED,
    (Phase.SCHEDULED, Cause.SHELVED): Phase.ENDED,
    (Phase.PROVISIONED, Cause.TASK_STAGING): Phase.STAGING,
    (Phase.PROVISIONED, Cause.TASK_STARTING): Phase.STARTING,
    (Phase.PROVISIONED, Cause.TASK_RUNNING): Phase.RUNNING,
    (Phase.PROVISIONED, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.PROVISIONED, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.PROVISIONED, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.STAGING, Cause.TASK_STAGING): Phase.STAGING,
    (Phase.STAGING, Cause.TASK_STARTING): Phase.STARTING,
    (Phase.STAGING, Cause.TASK_RUNNING): Phase.RUNNING,
    (Phase.STAGING, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.STAGING, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.STAGING, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.STARTING, Cause.TASK_STAGING): Phase.STARTING,
    (Phase.STARTING, Cause.TASK_STARTING): Phase.STARTING,
    (Phase.STARTING, Cause.TASK_RUNNING): Phase.RUNNING,
    (Phase.STARTING, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.STARTING, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.STARTING, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.RUNNING, Cause.TASK_STAGING): Phase.RUNNING,
    (Phase.RUNNING, Cause.TASK_STARTING): Phase.RUNNING,
    (Phase.RUNNING, Cause.TASK_RUNNING): Phase.RUNNING,
    (Phase.RUNNING, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.RUNNING, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.RUNNING, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.KILLING, Cause.TASK_STAGING): Phase.KILLING,
    (Phase.KILLING, Cause.TASK_STARTING): Phase.KILLING,
    (Phase.KILLING, Cause.TASK_RUNNING): Phase.KILLING,
    (Phase.KILLING, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.KILLING, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.KILLING, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.UNREACHABLE, Cause.TASK_STAGING): Phase.STAGING,
    (Phase.UNREACHABLE, Cause.TASK_STARTING): Phase.STARTING,
    (Phase.UNREACHABLE, Cause.TASK_RUNNING): Phase.RUNNING,
    (Phase.UNREACHABLE, Cause.TASK_KILLING): Phase.KILLING,
    (Phase.UNREACHABLE, Cause.TASK_UNREACHABLE): Phase.UNREACHABLE,
    (Phase.UNREACHABLE, Cause.TASK_ENDED): Phase.ENDED,
    (Phase.ENDED, Cause.RESCHEDULED): Phase.SCHEDULED,
}

# Ends that make the next start wait longer; being killed is not the app's fault.
# Source: Marathon core/task/update/impl/steps/NotifyRateLimiterStepImpl.scala.
FAILURES = frozenset(
    {"TASK_FAILED", "TASK_FINISHED", "TASK_ERROR", "TASK_DROPPED", "TASK_GONE", "TASK_GONE_BY_OPERATOR"}
)
# TASK_LOST comes from masters that do not know partition-aware frameworks; for these reasons the task may return.
_LOST_BUT_MAY_RETURN = frozenset({"REASON_RECONCILIATION", "REASON_SLAVE_DISCONNECTED", "REASON_SLAVE_REMOVED"})
_CAUSES: Mapping[str, Cause] = {
    "TASK_STAGING": Cause.TASK_STAGING,
    "TASK_STARTING": Cause.TASK_STARTING,
    "TASK_RUNNING": Cause.TASK_RUNNING,
    "TASK_KILLING": Cause.TASK_KILLING,
    "TASK_UNREACHABLE": Cause.TASK_UNREACHABLE,
    # The master knows no such task: it never arrived, or ended long ago.
    "TASK_UNKNOWN": Cause.TASK_ENDED,
}


ASKED, AWAY, COMING = "asked", "suspended", "resuming"
"""How far the suspension of a task has come."""


class Refusal(Struct, frozen=True):
    """What an agent said no to, or nothing, the last time that it was asked to suspend or resume a task."""

    what: str
    """`suspend` or `resume`."""
    reason: str
    at_s: float
    """When it said so first."""
    asked_for: str | None = None
    """The app for which it was to be, or was, suspended; None where somebody does that by hand."""
    silent: bool = False
    """Whether the agent has said nothing at all, and may do it yet."""


class ContainerTask(Struct, frozen=True):
    """The Mesos task of one container of a pod. Times are seconds since the epoch."""

    id: TaskId
    name: str
    since_s: float
    """When `state` last changed."""
    state: str = "TASK_STAGING"
    host_ports: tuple[int | None, ...] = ()
    """The port of the machine of each endpoint, None where it takes none."""
    started_at_s: float | None = None
    healthy: bool | None = None
    message: str | None = None
    check_result: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Return whether it no longer runs."""
        return is_terminal(self.state) or self.state == "TASK_UNKNOWN"


class Task(Struct, frozen=True):
    """What is known about the task that fills an instance. Times are seconds since the epoch.

    An instance of a pod is filled by a task for each container; `id` is then a name of ours for all of them.
    """

    id: TaskId
    agent_id: AgentId
    host: str
    ports: tuple[int, ...]
    version: str
    staged_at_s: float
    state: str = "TASK_STAGING"
    started_at_s: float | None = None
    unreachable_since_s: float | None = None
    ip_addresses: tuple[tuple[str, str], ...] = ()
    """Pairs of address and protocol."""
    attributes: tuple[tuple[str, str], ...] = ()
    """The agent's attributes as text, for the constraints of later instances."""
    region: str | None = None
    zone: str | None = None
    check_result: Mapping[str, Any] | None = None
    """What the app's `check` last found, as the API shows it."""
    containers: tuple[ContainerTask, ...] = ()
    """Those of a pod, in its order."""
    gang: Membership | None = None
    """What it is in its gang, if it is in one."""
    gives_way_to: str | None = None
    """The app for which it is ended, if it is."""
    suspension: str = ""
    """How far its suspension has come: ASKED, AWAY, COMING; empty while it simply runs."""
    suspended_for: str | None = None
    """The app for which its GPUs were put away; None where somebody did that by hand (`mesos-gpu task suspend`)."""
    suspension_s: float = 0.0
    """When `suspension` last changed, or was last asked for."""
    asks: int = 0
    """How often that was asked for since its agent said something about it."""
    refusal: Refusal | None = None
    """Why its agent does not suspend it, or leaves it suspended; until it is asked anew, or has done so."""
    cards: tuple[int, ...] = ()
    """The shared cards that it has parts of, by index, that of the largest part first."""
    whole_cards: tuple[int, ...] = ()
    """The whole GPUs that it has, by index, as its agent told; none where that did not."""
    held: Held | None = None
    """What it has; None of one that was started by a version that did not count that."""
    counted_s: float = 0.0
    """Until then it is on the account of its app (state/accounting.py)."""

    @property
    def living_ids(self) -> tuple[TaskId, ...]:
        """Return the ids of Mesos' tasks that have not ended, as far as we know."""
        return tuple(c.id for c in self.containers if not c.ended) if self.containers else (self.id,)

    @property
    def away(self) -> bool:
        """Return whether its GPUs are others' now."""
        return self.suspension in (AWAY, COMING)

    @property
    def away_by_hand(self) -> bool:
        """Return whether somebody put its GPUs away, and is to give it some again."""
        return self.suspension == AWAY and self.suspended_for is None

    def has(self, task_id: str) -> bool:
        """Return whether one of Mesos' tasks that fill the instance has this id."""
        return any(c.id == task_id for c in self.containers) if self.containers else task_id == self.id


class Instance(Struct, frozen=True):
    """One place in an app. `version` is that of the app it is meant to run; `incarnation` counts its tasks."""

    id: str
    app_id: str
    version: str
    role: Role
    since_s: float
    phase: Phase = Phase.SCHEDULED
    goal: Goal = Goal.RUNNING
    incarnation: int = 0
    task: Task | None = None
    reservation: Reservation | None = None
    """What an agent keeps for it, when its app has persistent volumes."""

    @property
    def next_task_id(self) -> TaskId:
        """Return the id of the task that would fill it next."""
        return TaskId(f"{self.id}._app.{self.incarnation + 1}")

    @property
    def place_id(self) -> TaskId:
        """Return an id that none of its tasks has: a master that is asked for it says how its agent is."""
        return TaskId(f"{self.id}._app.0")

    def next_container_id(self, name: str) -> TaskId:
        """Return the id of the task that would fill it next in the container of that name; for pods."""
        return TaskId(f"{self.id}.{name}.{self.incarnation + 1}")

    @property
    def wanted(self) -> bool:
        """Return whether it is meant to run."""
        return self.goal is Goal.RUNNING

    @property
    def active(self) -> bool:
        """Return whether it has a task that may be alive somewhere."""
        return self.phase not in INACTIVE

    @property
    def resting(self) -> bool:
        """Return whether it has no task and wants none, but keeps its volumes for later."""
        return self.phase is Phase.ENDED and self.goal is Goal.STOPPED

    @property
    def released(self) -> bool:
        """Return whether nothing is left of it but a reservation that is to be given back."""
        return self.phase is Phase.ENDED and self.goal is Goal.DECOMMISSIONED

    @property
    def condition(self) -> str:
        """Return its condition in Marathon's words."""
        if self.phase is not Phase.ENDED:
            return str(self.phase.value)
        ended = self.reservation.last_state if self.reservation is not None else None
        if self.task is not None and self.reservation is None:
            ended = self.task.state
        return (ended or "TASK_KILLED").removeprefix("TASK_").capitalize()

    @property
    def shown_task_id(self) -> TaskId | None:
        """Return the id of the task that the API shows: the present one, else the last that used its volumes."""
        if self.task is not None:
            return self.task.id
        return self.reservation.last_task_id if self.reservation is not None and not self.released else None

    @property
    def host(self) -> str | None:
        """Return the host that it is bound to, None while it is free to go anywhere."""
        if self.task is not None:
            return self.task.host
        return self.reservation.host if self.reservation is not None else None


def cause_of(state: str, reason: str | None) -> Cause:
    """Return what a task status means for its instance. Raises IllegalTransition for a state that Mesos has not."""
    if state == "TASK_LOST" and reason in _LOST_BUT_MAY_RETURN:
        return Cause.TASK_UNREACHABLE
    if is_terminal(state):
        return Cause.TASK_ENDED
    if state not in _CAUSES:
        raise IllegalTransition(f"{state} is not a task state")
    return _CAUSES[state]


def moved(instance: Instance, cause: Cause, now_s: float) -> Instance:
    """Return the instance after `cause`. Raises IllegalTransition."""
    phase = NEXT_PHASE.get((instance.phase, cause))
    if phase is None:
        raise IllegalTransition(f"{instance.id} is {instance.phase.value}, so this cannot be: {cause.value}")
    return replace(instance, phase=phase, since_s=instance.since_s if phase is instance.phase else now_s)
