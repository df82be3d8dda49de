"""Refusals: which framework does not want what from whom, and until when.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp, RefusedOfferFilter and recoverResources.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from heapq import heappop, heappush
from typing import Any

from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resources import Resources

DEFAULT_REFUSE_S = 5.0
MAX_REFUSE_S = 365 * 86400.0
_Client = tuple[FrameworkId, Role]
_SLACK = 1000


def refuse_seconds(filters: dict[str, Any] | None) -> float:
    """Return for how long a scheduler refuses: 5 s unless it says something usable, at most a year."""
    if filters is None:
        return DEFAULT_REFUSE_S
    seconds = float(filters.get("refuse_seconds", DEFAULT_REFUSE_S))
    if math.isnan(seconds) or seconds < 0:
        return DEFAULT_REFUSE_S
    return min(seconds, MAX_REFUSE_S)


class Filters:
    """Refusals by (framework, role, agent).

    Filters leave only in `expire`, which runs once per allocation interval. So does a refusal for 0 seconds, which is
    no filter in Mesos: there the next offer comes with the next interval, here allocation follows at once and such a
    refusal must not become a storm of offers.
    """

    def __init__(self, allocation_interval_s: float) -> None:
        self._interval_s = allocation_interval_s
        self._refused: dict[_Client, dict[AgentId, list[tuple[Resources, float]]]] = {}
        self._ends: list[tuple[float, FrameworkId, Role, AgentId]] = []
        self._counts: Counter[str] = Counter()
        self._dropped: set[tuple[FrameworkId, Role, AgentId]] = set()

    def refuse(
        self,
        framework_id: FrameworkId,
        role: Role,
        agent_id: AgentId,
        resources: Resources,
        seconds: float,
        now_s: float,
    ) -> None:
        """Remember that these resources (unallocated) are not wanted for max(seconds, allocation interval)."""
        until = now_s + max(seconds, self._interval_s) if seconds > 0 else now_s
        by_agent = self._refused.setdefault((framework_id, role), {})
        by_agent.setdefault(agent_id, []).append((resources, until))
        self._counts[role] += 1
        heappush(self._ends, (until, framework_id, role, agent_id))
        if len(self._ends) > 2 * self.count() + _SLACK:  # most of them were revived or forgotten since
            self._ends = sorted(
                (until, framework_id, role, agent_id)
                for (framework_id, role), by_agent in self._refused.items()
                for agent_id, refused in by_agent.items()
                for _, until in refused
            )

    def blocks(self, framework_id: FrameworkId, role: Role, agent_id: AgentId, candidate: Resources) -> bool:
        """Return whether an offer of `candidate` was refused already; a larger one passes."""
        by_agent = self._refused.get((framework_id, role))
        if by_agent is None:
            return False
        return any(resources.contains(candidate) for resources, _ in by_agent.get(agent_id, ()))

    @property
    def ends_s(self) -> float:
        """Return when the first that there may be runs out; infinite without any."""
        return self._ends[0][0] if self._ends else math.inf

    def expire(self, now_s: float) -> bool:
        """Drop what has run out; return whether there was any. Costs what ends, not what there is."""
        any_left = False
        while self._ends and self._ends[0][0] <= now_s:
            _, framework_id, role, agent_id = heappop(self._ends)
            refused = self._refused.get((framework_id, role), {}).get(agent_id, [])
            kept = [(resources, until) for resources, until in refused if until > now_s]
            if len(kept) < len(refused):
                any_left = True
                self._counts[role] -= len(refused) - len(kept)
                self._dropped.add((framework_id, role, agent_id))
                self._keep((framework_id, role), agent_id, kept)
        return any_left

    def revive(self, framework_id: FrameworkId, roles: Collection[Role]) -> None:
        """Drop all refusals of a framework for these roles."""
        for role in roles:
            by_agent = self._refused.pop((framework_id, role), {})
            self._counts[role] -= sum(map(len, by_agent.values()))
            self._dropped.update((framework_id, role, agent_id) for agent_id in by_agent)

    def forget_framework(self, framework_id: FrameworkId) -> None:
        """Drop all refusals of a framework."""
        self.revive(framework_id, [role for f, role in self._refused if f == framework_id])

    def forget_agent(self, agent_id: AgentId) -> None:
        """Drop all refusals of an agent's resources."""
        for client in [client for client, by_agent in self._refused.items() if agent_id in by_agent]:
            self._counts[client[1]] -= len(self._refused[client][agent_id])
            self._dropped.add((*client, agent_id))
            self._keep(client, agent_id, [])

    def count(self, role: Role | None = None) -> int:
        """Return how many refusals there are, for one role or in all."""
        return self._counts.total() if role is None else self._counts[role]

    @property
    def any_dropped(self) -> bool:
        """Return whether refusals have gone since `take_dropped`."""
        return bool(self._dropped)

    def take_dropped(self) -> set[tuple[FrameworkId, Role, AgentId]]:
        """Return (framework, role, agent) of the refusals that have gone since this was asked before."""
        dropped, self._dropped = self._dropped, set()
        return dropped

    def _keep(self, client: _Client, agent_id: AgentId, refused: list[tuple[Resources, float]]) -> None:
        by_agent = self._refused[client]
        if refused:
            by_agent[agent_id] = refused
        else:
            del by_agent[agent_id]
            if not by_agent:
                del self._refused[client]
