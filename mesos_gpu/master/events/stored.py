"""Changes of the registry that are durable now. Values only.

Each but the first follows an action `Store` that named it. What else happened meanwhile came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mesos_gpu.master.model.model import Drain
from mesos_gpu.master.model.policy import MachineKey
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.model.report import Report
from mesos_gpu.mesos.documents import AgentInfo
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document


class Stored:
    """A change of the registry that is durable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Elected(Stored):
    """This master leads, which the registry says now, beside what it held before; `record` is not to be changed."""

    record: Record


@dataclass(frozen=True, slots=True)
class NothingStored(Stored):
    """All that was asked for before is durable."""


@dataclass(frozen=True, slots=True)
class AgentAdmitted(Stored):
    """A new agent has a place, under this id; those in `instead_of`, which were at its address, have lost theirs."""

    agent_id: AgentId
    report: Report
    instead_of: tuple[AgentId, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentReadmitted(Stored):
    """An agent that came back has a place again, at `pid` and with this AgentInfo."""

    agent_id: AgentId
    pid: str
    info: AgentInfo


@dataclass(frozen=True, slots=True)
class AgentUnreachable(Stored):
    """An agent that was here is unreachable, since when and why."""

    agent_id: AgentId
    since: Moment
    why: str


@dataclass(frozen=True, slots=True)
class MissingAgentUnreachable(Stored):
    """An agent that never came back after our start is unreachable, since when."""

    agent_id: AgentId
    since: Moment


@dataclass(frozen=True, slots=True)
class AgentRemoved(Stored):
    """An agent is out for good; `cause` is for people, `counted` the last part of the metric that counts it."""

    agent_id: AgentId
    cause: str
    counted: str | None = None


@dataclass(frozen=True, slots=True)
class AgentDeactivated(Stored):
    """An agent is not to be offered; with `drain`, it is to end its tasks."""

    agent_id: AgentId
    drain: Drain | None = None


@dataclass(frozen=True, slots=True)
class AgentReactivated(Stored):
    """An agent may be offered again."""

    agent_id: AgentId


@dataclass(frozen=True, slots=True)
class AgentDrained(Stored):
    """An agent that was to be drained runs nothing any more; `drain` says so."""

    agent_id: AgentId
    drain: Drain


@dataclass(frozen=True, slots=True)
class AgentGone(Stored):
    """An operator said at that moment that an agent is gone for good."""

    agent_id: AgentId
    since: Moment


@dataclass(frozen=True, slots=True)
class AgentsForgotten(Stored):
    """Agents that were unreachable, or gone, for too long, or were too many, are forgotten."""

    unreachable: tuple[AgentId, ...]
    gone: tuple[AgentId, ...]


@dataclass(frozen=True, slots=True)
class WeightsSet(Stored):
    """Roles have these weights."""

    weights: Mapping[Role, float]


@dataclass(frozen=True, slots=True)
class QuotasSet(Stored):
    """Roles have these quotas."""

    quotas: Mapping[Role, Quota]


@dataclass(frozen=True, slots=True)
class ScheduleSet(Stored):
    """This is the schedule of maintenance."""

    schedule: Document


@dataclass(frozen=True, slots=True)
class MaintenanceStarted(Stored):
    """These machines are down."""

    machines: frozenset[MachineKey]


@dataclass(frozen=True, slots=True)
class MaintenanceStopped(Stored):
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
