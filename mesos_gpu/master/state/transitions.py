"""Which agents' places in the registry are being changed: until that is durable, no other change of them begins.

Source: Mesos src/master/master.hpp (slaves.registering, reregistering, markingUnreachable, markingGone, removing).
"""

from __future__ import annotations

from msgspec import Struct, field

from mesos_gpu.master.model.report import Report
from mesos_gpu.mesos.ids import AgentId


class Transitions(Struct):
    """What is under way. All by agent id, but for agents that have none yet."""

    registering: set[str] = field(default_factory=set)
    """Pids of agents that are being admitted."""
    returning: dict[AgentId, Report] = field(default_factory=dict)
    """What agents that re-register said last."""
    marking_unreachable: set[AgentId] = field(default_factory=set)
    marking_gone: set[AgentId] = field(default_factory=set)
    removing: set[AgentId] = field(default_factory=set)
    marking_drained: set[AgentId] = field(default_factory=set)

    def introduced(self, pid: str) -> bool:
        """Return whether an agent at this address is about to be here: one at a time is."""
        return pid in self.registering or any(report.pid == pid for report in self.returning.values())

    def leaving(self, agent_id: AgentId) -> bool:
        """Return whether an agent is about to leave."""
        return agent_id in self.marking_unreachable or agent_id in self.marking_gone or agent_id in self.removing

    def under_way(self, agent_id: AgentId) -> bool:
        """Return whether an agent is about to leave or to come back."""
        return agent_id in self.returning or self.leaving(agent_id)
