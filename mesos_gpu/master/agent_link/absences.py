"""Agents that are away: who does not come back within `--agent_reregister_timeout` is given up, no faster than allowed.

The time runs from a broken link to the agent, and from the start of a master that has the agent in its registry.
Source: Mesos src/master/master.cpp (agentReregisterTimeout, recoveredSlavesTimeout).
"""

from __future__ import annotations

import logging

from mesos_gpu.master.agent_link.observers import RemovalLimit
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.agents import AgentSilent, AgentsMissing
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.units import format_duration

_NAMED = 20
"""Agents that a message names, at most."""
log = logging.getLogger(__name__)


class Absences:
    """Waits for agents that are away, then gives them up in their turn. One event loop."""

    def __init__(self, engine: Engine, limit: RemovalLimit, patience_s: float, *, most_missing: float = 1.0) -> None:
        """`most_missing` is the share of the registry's agents that may be missing when the wait for them is over."""
        self._engine, self._limit, self._patience_s = engine, limit, patience_s
        self._away: dict[str, int] = {}
        self._count = 0
        self._most_missing, self._known = most_missing, 0

    def begin(self) -> None:
        """Wait for the agents of the registry."""
        self._known = len(self._engine.state.recovered)
        self._engine.call_later(self._patience_s, self._recovery_ended)

    def away(self, agent_id: AgentId) -> None:
        """Wait for an agent whose link broke."""
        self._count += 1
        absence = self._away[agent_id] = self._count
        self._engine.call_later(self._patience_s, lambda: self._too_long(agent_id, absence))

    def back(self, agent_id: AgentId) -> None:
        """Stop waiting: it is back, or gone for good."""
        self._away.pop(agent_id, None)
        self._limit.withdraw(agent_id)

    def _too_long(self, agent_id: AgentId, absence: int) -> None:
        if self._away.get(agent_id) != absence:
            return
        words = f"agent did not re-register within {format_duration(self._patience_s)} after disconnecting"
        log.info("giving up agent %s, if the rate allows it: %s", agent_id, words)

        def go() -> None:
            self._away.pop(agent_id, None)
            self._engine.do(AgentSilent(agent_id, words))

        self._limit.ask(agent_id, go)

    def _recovery_ended(self) -> None:
        """Give up the agents of the registry that are not back."""
        missing = list(self._engine.state.recovered)
        share = len(missing) / self._known if self._known else 0.0
        if share > self._most_missing:
            self._engine.fail(
                f"{len(missing)} of the {self._known} agents of the registry ({share:.0%}) did not re-register within "
                f"{format_duration(self._patience_s)} after this master began to lead: {', '.join(missing[:_NAMED])}"
                f"{', ...' if len(missing) > _NAMED else ''}. --recovery_agent_removal_limit={self._most_missing:.0%} "
                "allows no more: see what became of them, or start the master with a higher limit"
            )
            return
        if not self._limit.limits:
            self._give_up(missing)  # all in one: the registry is written once
            return
        for agent_id in missing:
            log.info("giving up agent %s, if the rate allows it: it did not come back after our start", agent_id)
            self._limit.ask(agent_id, lambda agent_id=agent_id: self._give_up([agent_id]))  # type: ignore[misc]

    def _give_up(self, missing: list[AgentId]) -> None:
        self._engine.do(AgentsMissing(missing))
