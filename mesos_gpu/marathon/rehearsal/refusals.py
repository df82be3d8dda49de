"""What a master does not offer for a while, as it was refused: of whom, how much and until when. Pure.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp, `offerFilters`: an offer is kept back while it has no more
than what was refused of its agent in its role.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesos_gpu.marathon.state.given_back import Entry
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources


class Refusals:
    """The refusals of one framework. `known` are those that it remembers of what has been."""

    def __init__(self, known: Iterable[Entry]) -> None:
        self._of: dict[tuple[AgentId, Role], tuple[Resources, float]] = {
            (offer.agent_id, offer.role): (offer.resources.unallocated(), until_s) for offer, _, until_s in known
        }

    def copy(self) -> Refusals:
        """Return others that are as these are, and go their own way from here."""
        other = Refusals(())
        other._of = dict(self._of)
        return other

    def refused(self, agent_id: AgentId, role: Role, resources: Resources, until_s: float) -> None:
        """Note that an offer, or what is left of one, was given back: what was refused before holds no more."""
        self._of[agent_id, role] = resources.unallocated(), until_s

    def keep_back(self, agent_id: AgentId, role: Role, resources: Resources, now_s: float) -> bool:
        """Return whether an offer of so much is not made now."""
        refused, until_s = self._of.get((agent_id, role), (Resources(), 0.0))
        return now_s < until_s and refused.contains(resources.unallocated())

    def lift(self, now_s: float) -> bool:
        """Forget all, for offers were asked for; return whether anything was kept back by then."""
        kept = any(now_s < until_s for _, until_s in self._of.values())
        self._of.clear()
        return kept

    def ends_s(self, now_s: float, by_s: float) -> list[float]:
        """Return when refusals end, of those that do after now and by then."""
        return [until_s for _, until_s in self._of.values() if now_s < until_s <= by_s]
