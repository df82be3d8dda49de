"""Changes of the registry that are durable now. Values only.

Each but the first follows an action `Store` that named it. What else happened meanwhile came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from mesos_gpu.master.model.model import Drain
from mesos_gpu.master.model.policy import MachineKey
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.model.report import Report
from mesos_gpu.mesos.documents import AgentInfo
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document


class Stored(Struct, frozen=True):
    """A change of the registry that is durable."""


class Elected(Stored, frozen=True):
    """This master leads, which the registry says now, beside what it held before; `record` is not to be changed."""

    record: Record


class NothingStored(Stored, frozen=True):
    """All that was asked for before is durable."""


class AgentAdmitted(Stored, frozen=True):
    """A new agent has a place, under this id; those in `instead_of`, which were at its address, have lost theirs."""

    agent_id: AgentId
    report: Report
    instead_of: tuple[AgentId, ...] = ()


class AgentReadmitted(Stored, frozen=True):
    """An agent that came back has a place again, at `pid` and with this AgentInfo."""

    agent_id: AgentId
    pid: str
    info: AgentInfo


class AgentUnreachable(Stored, frozen=True):
    """An agent that was here is unreachable, since when and why."""

    agent_id: AgentId
    since: Moment
    why: str


class MissingAgentUnreachable(Stored, frozen=True):
    """An agent that never came back after our start is unreachable, since when."""

    agent_id: AgentId
    since: Moment


class AgentRemoved(Stored, frozen=True):
    """An agent is out for good; `cause` is for people, `counted` the last part of the metric that counts it."""

    agent_id: AgentId
    cause: str
    counted: str | None = None


class AgentDeactivated(Stored, frozen=True):
    """An agent is not to be offered; with `drain`, it is to end its tasks."""

    agent_id: AgentId
    drain: Drain | None = None


class AgentReactivated(Stored, frozen=True):
    """An agent may be offered again."""

    agent_id: AgentId


class AgentDrained(Stored, frozen=True):
    """An agent that was to be drained runs nothing any more; `drain` says so."""

    agent_id: AgentId
    drain: Drain


class AgentGone(Stored, frozen=True):
    """An operator said at that moment that an agent is gone for good."""

    agent_id: AgentId
    since: Moment


class AgentsForgotten(Stored, frozen=True):
    """Agents that were unreachable, or gone, for too long, or were too many, are forgotten."""

    unreachable: tuple[AgentId, ...]
    gone: tuple[AgentId, ...]


class WeightsSet(Stored, frozen=True):
    """Roles have these weights."""

    weights: Mapping[Role, float]


class QuotasSet(Stored, frozen=True):
    """Roles have these quotas."""

    quotas: Mapping[Role, Quota]


class ScheduleSet(Stored, frozen=True):
    """This is the schedule of maintenance."""

    schedule: Document


class MaintenanceStarted(Stored, frozen=True):
    """These machines are down."""

    machines: frozenset[MachineKey]


class MaintenanceStopped(Stored, frozen=True):
    """These machines are up, and out of the schedule."""

    machines: frozenset[MachineKey]


StoredEvent: TypeAlias = (
    Elected
    | NothingStored
    | AgentAdmitted
    | AgentReadmitted
    | AgentUnreachable
    | MissingAgentUnreachable
    | AgentRemoved
    | AgentDeactivated
    | AgentReactivated
    | AgentDrained
    | AgentGone
    | AgentsForgotten
    | WeightsSet
    | QuotasSet
    | ScheduleSet
    | MaintenanceStarted
    | MaintenanceStopped
)
