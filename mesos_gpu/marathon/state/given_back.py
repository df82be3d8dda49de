"""What was given back of offers while something waits in order, and when it comes again: it is as free as it was. Pure.

A gang needs several machines at one moment, and each was refused for a time of its own. So all that was refused is
remembered for as long as the master keeps the refusal, and offers are asked for again when there would be room in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.mesos.ids import AgentId, OfferId

Entry = tuple[Offer, float, float]
"""An offer, when it was given back, and until when it is refused."""
SETTLE_S = 3.0
"""So long after offers were asked for, all that is free has been offered: then others may have to give way."""


class GivenBack:
    """The offers that were given back, one of each agent."""

    def __init__(self, entries: Sequence[Entry], now_s: float) -> None:
        # When nobody refuses it any more a master still takes a moment to offer it; what has not come by then is taken.
        self._of = {entry[0].agent_id: entry for entry in entries if entry[2] > now_s - SETTLE_S}
        self._now_s = now_s

    def refused(self, offer: Offer, refuse_s: float) -> None:
        """Note that an offer, or the rest of one, was given back and is refused for so long."""
        self._of[offer.agent_id] = offer, self._now_s, self._now_s + refuse_s

    def elsewhere(self, offer: Offer) -> None:
        """Note what was offered in another role, in which it is refused now: it comes in the role that waits.

        Masters keep refusals by role (Mesos src/master/allocator/mesos/hierarchical.cpp, `offerFilters`), so a refusal
        in the role that waits stands all the same.
        """
        _, from_s, until_s = self._of.get(offer.agent_id, (offer, self._now_s, self._now_s))
        self._of[offer.agent_id] = offer, from_s, max(until_s, self._now_s)

    def came(self, agent_ids: Collection[AgentId]) -> None:
        """Forget what has come again."""
        for agent_id in agent_ids:
            self._of.pop(agent_id, None)

    @property
    def offers(self) -> list[Offer]:
        """Return the offers."""
        return [offer for offer, _, _ in self._of.values()]

    @property
    def still_refused(self) -> set[OfferId]:
        """Return the ids of those that come earlier if offers are asked for; the others come by themselves."""
        return {offer.id for offer, _, until_s in self._of.values() if until_s > self._now_s}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return what is to be remembered."""
        return tuple(self._of.values())


def lifted(entries: Sequence[Entry], now_s: float) -> tuple[Entry, ...]:
    """Return what was given back as it is after offers were asked for: nothing of it is refused any more."""
    return tuple((offer, from_s, min(until_s, now_s)) for offer, from_s, until_s in entries)
