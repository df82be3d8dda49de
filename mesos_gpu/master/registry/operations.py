"""The changes a master makes to its registry: each changes a record, and tells whether it did. Pure.

One that finds nothing to change is not an error: another came before it in the queue.
Source: Mesos src/master/registry_operations.cpp, weights.cpp, quota.cpp, maintenance.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from mesos_gpu.master.model.model import Drain, KnownAgent
from mesos_gpu.master.model.policy import MachineKey
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.model.record import MAX_MASTERS, Record
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resource import Document


class Operation(Protocol):
    """A change of the record."""

    def apply(self, record: Record) -> bool:
        """Make the change; return whether there was any."""


class Nothing(Struct, frozen=True):
    """No change: what follows it waits for all that was asked for before."""

    def apply(self, record: Record) -> bool:
        """Change nothing."""
        return False


class Lead(Struct, frozen=True):
    """A master leads: from now on no earlier one can write."""

    master_id: str

    def apply(self, record: Record) -> bool:
        """Enter the master."""
        record.masters = tuple(dict.fromkeys([*record.masters, self.master_id]))[-MAX_MASTERS:]
        return True


class Admit(Struct, frozen=True):
    """An agent is one of ours: it is new, is other than it was, or came back (AdmitSlave, MarkSlaveReachable).

    Those in `instead_of` are known no more: it has their address.
    """

    agent_id: AgentId
    known: KnownAgent
    instead_of: tuple[AgentId, ...] = ()

    def apply(self, record: Record) -> bool:
        """Enter the agent; one that is gone for good stays gone."""
        if self.agent_id in record.gone:
            return False
        returned = record.unreachable.pop(self.agent_id, None) is not None
        replaced = Remove(self.instead_of).apply(record)
        if record.agents.get(self.agent_id) == self.known and not returned:
            return replaced
        record.agents[self.agent_id] = self.known
        return True


class MarkUnreachable(Struct, frozen=True):
    """An agent does not answer, or did not come back (MarkSlaveUnreachable)."""

    agent_id: AgentId
    since_s: float

    def apply(self, record: Record) -> bool:
        """Move the agent aside."""
        known = record.agents.pop(self.agent_id, None)
        if known is None:
            return False
        record.unreachable[self.agent_id] = KnownAgent(known.info, known.pid, self.since_s)
        return True


class Remove(Struct, frozen=True):
    """Agents left for good (RemoveSlave)."""

    agent_ids: tuple[AgentId, ...]

    def apply(self, record: Record) -> bool:
        """Forget those that are admitted, and what was wanted of them."""
        left = [agent_id for agent_id in self.agent_ids if record.agents.pop(agent_id, None) is not None]
        for agent_id in left:
            record.deactivated.pop(agent_id, None)
        return bool(left)


class MarkGone(Struct, frozen=True):
    """An operator says that an agent never comes back (MarkSlaveGone)."""

    agent_id: AgentId
    since_s: float

    def apply(self, record: Record) -> bool:
        """Forget the agent and keep its id."""
        if self.agent_id in record.gone or not record.knows(self.agent_id):
            return False
        record.agents.pop(self.agent_id, None)
        record.unreachable.pop(self.agent_id, None)
        record.deactivated.pop(self.agent_id, None)
        record.gone[self.agent_id] = self.since_s
        return True


class Prune(Struct, frozen=True):
    """Agents that were unreachable or gone for long, or are too many, are forgotten."""

    unreachable: tuple[AgentId, ...]
    gone: tuple[AgentId, ...]

    def apply(self, record: Record) -> bool:
        """Forget those that still are."""
        changed = False
        for agent_id in self.unreachable:
            if record.unreachable.pop(agent_id, None) is not None:
                record.deactivated.pop(agent_id, None)
                changed = True
        for agent_id in self.gone:
            changed = record.gone.pop(agent_id, None) is not None or changed
        return changed


class Deactivate(Struct, frozen=True):
    """An agent is not to be offered; with a `drain`, it is to be emptied (DeactivateAgent, DrainAgent)."""

    agent_id: AgentId
    drain: Drain | None = None

    def apply(self, record: Record) -> bool:
        """Keep that; an agent that drains continues with it."""
        nothing = object()
        before = record.deactivated.get(self.agent_id, nothing)
        if not record.knows(self.agent_id) or before == self.drain or (self.drain is None and before is not nothing):
            return False
        record.deactivated[self.agent_id] = self.drain
        return True


class MarkDrained(Struct, frozen=True):
    """An agent that was to be emptied is (MarkAgentDrained)."""

    agent_id: AgentId
    drain: Drain

    def apply(self, record: Record) -> bool:
        """Keep that, unless it was put to use or left meanwhile."""
        if record.deactivated.get(self.agent_id, self.drain) == self.drain:
            return False
        record.deactivated[self.agent_id] = self.drain
        return True


class Reactivate(Struct, frozen=True):
    """An agent may be offered again (ReactivateAgent)."""

    agent_id: AgentId

    def apply(self, record: Record) -> bool:
        """Forget that it was out of use."""
        if self.agent_id not in record.deactivated:
            return False
        del record.deactivated[self.agent_id]
        return True


class SetWeights(Struct, frozen=True):
    """Weights of roles, by role (UpdateWeights)."""

    weights: Mapping[Role, float]

    def apply(self, record: Record) -> bool:
        """Keep them beside those of other roles."""
        before = dict(record.policy.weights)
        record.policy.weights.update(self.weights)
        return record.policy.weights != before


class SetQuotas(Struct, frozen=True):
    """Quotas of roles, by role; the default one is none (UpdateQuota)."""

    quotas: Mapping[Role, Quota]

    def apply(self, record: Record) -> bool:
        """Keep them beside those of other roles."""
        before = record.policy.quotas
        record.policy.set_quotas(self.quotas)
        return record.policy.quotas != before


class SetSchedule(Struct, frozen=True):
    """A maintenance schedule (UpdateSchedule)."""

    schedule: Document

    def apply(self, record: Record) -> bool:
        """Let it replace the one before."""
        before = record.policy.copy()
        record.policy.set_schedule(self.schedule)
        return record.policy != before


class StartMaintenance(Struct, frozen=True):
    """Machines go down."""

    machines: frozenset[MachineKey]

    def apply(self, record: Record) -> bool:
        """Keep that of those in the schedule."""
        return record.policy.bring_down(self.machines)


class StopMaintenance(Struct, frozen=True):
    """Machines are up again."""

    machines: frozenset[MachineKey]

    def apply(self, record: Record) -> bool:
        """Take them out of the schedule."""
        before = record.policy.copy()
        record.policy.forget_machines(set(self.machines))
        return record.policy != before
