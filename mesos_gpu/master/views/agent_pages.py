"""/slaves as bytes: what it says of an agent is kept until something of that changes. Pure.

Schedulers and monitors ask for it every few seconds; of 5 000 agents it takes the better part of a second to make, and
few of them are other than they were. What it says is `views.slaves_view`, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

import msgspec

from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.state.unversioned import agent_full, agent_view, recovered_view
from mesos_gpu.mesos.ids import AgentId

AT_ONCE = 50
"""So many agents are written before others have their turn."""
_encoder = msgspec.json.Encoder()


class AgentPages:
    """What /slaves says of each agent to those who may see everything."""

    def __init__(self) -> None:
        self._kept: dict[AgentId, tuple[tuple[object, ...], bytes]] = {}

    def refresh(self, state: MasterState) -> Iterator[None]:
        """Write anew what it says of agents that are other than they were; yields between one lot and the next.

        In between the state may change: `page` writes what is other by then.
        """
        written = 0
        for agent in list(state.agents.values()):
            written += self._write(agent)
            if written == AT_ONCE:
                written = 0
                yield

    def page(self, state: MasterState) -> bytes:
        """Return the body of /slaves as the state is now."""
        for agent in state.agents.values():
            self._write(agent)
        if len(self._kept) > len(state.agents):
            self._kept = {agent_id: self._kept[agent_id] for agent_id in state.agents}
        agents = b",".join([self._kept[agent_id][1] for agent_id in state.agents])
        recovered = _encoder.encode([recovered_view(known) for known in state.recovered.values()])
        return b'{"slaves":[%b],"recovered_slaves":%b}' % (agents, recovered)

    def _write(self, agent: Agent) -> bool:
        """Write what it says of an agent, and return True; False where that is what it said before."""
        kept, seen = self._kept.get(agent.id), _seen(agent)
        if kept is not None and all(map(is_, kept[0], seen)):
            return False
        self._kept[agent.id] = seen, _encoder.encode({**agent_view(agent), **agent_full(agent)})
        return True


def _seen(agent: Agent) -> tuple[object, ...]:
    """Return all that /slaves is made of. Each of these is replaced, never changed."""
    return (
        agent.total,
        agent.used_total,
        agent.offered,
        agent.info,
        agent.pid,
        agent.registered_s,
        agent.reregistered_s,
        agent.connected,
        agent.deactivated,
        agent.version,
        agent.capabilities,
        agent.drain,
    )
