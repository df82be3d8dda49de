"""What the registry holds, as a value, and the document that it is kept as. Pure.

Source: Mesos src/master/registry.proto; the document is our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.master.model import deactivations
from mesos_gpu.master.model.model import Drain, KnownAgent
from mesos_gpu.master.model.policy import Policy
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document

MAX_MASTERS = 100
"""Ids of earlier masters kept, for people who read the document."""


class Record(Struct):
    """All of it. Operations change a copy (`registry/operations.py`); one that is written is never changed again."""

    masters: tuple[str, ...] = ()
    """Ids of the masters that led, the newest last."""
    agents: dict[AgentId, KnownAgent] = field(default_factory=dict)
    """Agents that are admitted, by id."""
    unreachable: dict[AgentId, KnownAgent] = field(default_factory=dict)
    """Agents that were given up and may come back, by id, the one longest away first."""
    gone: dict[AgentId, float] = field(default_factory=dict)
    """When operators said that agents are gone for good, by id; the newest last."""
    deactivated: dict[AgentId, Drain | None] = field(default_factory=dict)
    """Agents that operators keep from being offered, and whether they are to be drained, by id."""
    policy: Policy = field(default_factory=Policy)

    def copy(self) -> Record:
        """Return one of its own that may be changed."""
        return replace(
            self,
            agents=dict(self.agents),
            unreachable=dict(self.unreachable),
            gone=dict(self.gone),
            deactivated=dict(self.deactivated),
            policy=self.policy.copy(),
        )

    def knows(self, agent_id: AgentId) -> bool:
        """Return whether an agent may be here, or come back."""
        return agent_id in self.agents or agent_id in self.unreachable

    def to_document(self) -> Document:
        """Return it as JSON."""
        return {
            "masters": list(self.masters),
            "agents": [
                {"info": a.info, "pid": a.pid, **({} if a.since_s is None else {"unreachable_since_s": a.since_s})}
                for a in (*self.agents.values(), *self.unreachable.values())
            ],
            **deactivations.to_registry(self.deactivated, self.gone),
            **self.policy.to_registry(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Record:
        """Read what `to_document` wrote. Raises KeyError or TypeError for anything else."""
        known = {
            agent["info"]["id"]["value"]: KnownAgent(agent["info"], agent["pid"], agent.get("unreachable_since_s"))
            for agent in document["agents"]
        }
        deactivated, gone = deactivations.from_registry(document)
        return cls(
            tuple(str(master) for master in document["masters"]),
            {id: agent for id, agent in known.items() if agent.since_s is None},
            {id: agent for id, agent in known.items() if agent.since_s is not None},
            gone,
            deactivated,
            Policy.from_registry(document),
        )
