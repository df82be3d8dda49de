"""Refusals: which framework does not want what from whom, and until when.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp, RefusedOfferFilter and recoverResources.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from mesos_gpu.mesos.resources import Resources

DEFAULT_REFUSE_S = 5.0
MAX_REFUSE_S = 365 * 86400.0
_Key = tuple[str, str, str]


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
        self._refused: dict[_Key, list[tuple[Resources, float]]] = {}

    def refuse(
        self, framework_id: str, role: str, agent_id: str, resources: Resources, seconds: float, now_s: float
    ) -> None:
        """Remember that these resources (unallocated) are not wanted for max(seconds, allocation interval)."""
        until = now_s + max(seconds, self._interval_s) if seconds > 0 else now_s
        self._refused.setdefault((framework_id, role, agent_id), []).append((resources, until))

    def blocks(self, framework_id: str, role: str, agent_id: str, candidate: Resources) -> bool:
        """Tell whether an offer of `candidate` was refused already; a larger one passes."""
        refused = self._refused.get((framework_id, role, agent_id), ())
        return any(resources.contains(candidate) for resources, _ in refused)

    def expire(self, now_s: float) -> bool:
        """Drop what has run out; tell whether there was any."""
        before = self.count()
        for key, refused in list(self._refused.items()):
            self._keep(key, [(resources, until) for resources, until in refused if until > now_s])
        return self.count() != before

    def revive(self, framework_id: str, roles: Collection[str]) -> None:
        """Drop all refusals of a framework for these roles."""
        for key in [k for k in self._refused if k[0] == framework_id and k[1] in roles]:
            del self._refused[key]

    def forget_framework(self, framework_id: str) -> None:
        """Drop all refusals of a framework."""
        for key in [k for k in self._refused if k[0] == framework_id]:
            del self._refused[key]

    def forget_agent(self, agent_id: str) -> None:
        """Drop all refusals of an agent's resources."""
        for key in [k for k in self._refused if k[2] == agent_id]:
            del self._refused[key]

    def count(self, role: str | None = None) -> int:
        """Return how many refusals there are, for one role or in all."""
        return sum(len(refused) for key, refused in self._refused.items() if role is None or key[1] == role)

    def _keep(self, key: _Key, refused: list[tuple[Resources, float]]) -> None:
        if refused:
            self._refused[key] = refused
        else:
            del self._refused[key]
