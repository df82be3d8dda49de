"""What was given back of offers while something waits in order, and when it comes again: it is as free as it was. Pure.

A gang needs several machines at one moment, and each was refused for a time of its own. So all that was refused is
remembered for as long as the master keeps the refusal, and offers are asked for again when there would be room in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resource import UNRESERVED
from mesos_gpu.mesos.resources import Resources

Entry = tuple[Offer, float, float]
"""An offer, when it was given back, and until when it is refused."""
SETTLE_S = 3.0
"""So long after offers were asked for, all that is free has been offered: then others may have to give way."""


class GivenBack:
    """The offers that were given back, by agent and role: masters keep refusals so.

    Source: Mesos src/master/allocator/mesos/hierarchical.cpp, `offerFilters`.
    """

    def __init__(self, entries: Sequence[Entry], now_s: float) -> None:
        # When nobody refuses it any more a master still takes a moment to offer it; what has not come by then is taken.
        self._of = {_key(entry[0]): entry for entry in entries if entry[2] > now_s - SETTLE_S}
        self._here: frozenset[AgentId] = frozenset()
        self._now_s = now_s

    def refused(self, offer: Offer, refuse_s: float) -> None:
        """Note that an offer, or the rest of one, was given back and is refused for so long in its role.

        What comes by itself, in another role, is refused for no time.
        """
        self._of.pop(_key(offer), None)
        self._of[_key(offer)] = offer, self._now_s, self._now_s + refuse_s

    def at_hand(self, offers: Collection[Offer]) -> None:
        """Note that these have come again: nobody refuses them in their roles."""
        self._here = frozenset(offer.agent_id for offer in offers)
        for offer in offers:
            self._of.pop(_key(offer), None)

    @property
    def offers(self) -> list[Offer]:
        """Return the offers of agents that have none at hand, of each the one that was given back last."""
        latest = {offer.agent_id: offer for offer, _, _ in self._of.values() if offer.agent_id not in self._here}
        return list(latest.values())

    @property
    def still_refused(self) -> set[tuple[AgentId, Role]]:
        """Return which agents come earlier in which role if offers are asked for; others come by themselves."""
        return {key for key, (_, _, until_s) in self._of.items() if until_s > self._now_s}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return what is to be remembered."""
        return tuple(self._of.values())


def _key(offer: Offer) -> tuple[AgentId, Role]:
    return offer.agent_id, offer.role


def lifted(entries: Sequence[Entry], now_s: float) -> tuple[Entry, ...]:
    """Return what was given back as it is after offers were asked for: nothing of it is refused any more."""
    return tuple((offer, from_s, min(until_s, now_s)) for offer, from_s, until_s in entries)


def by_agent(offers: Sequence[Offer], idle: Sequence[Offer]) -> tuple[list[Offer], list[list[Offer]]]:
    """Return the offers of agents that have one of what is nobody's, and those of which it is in several."""
    found: dict[AgentId, list[Offer]] = {}
    for offer in (*offers, *idle):
        if offer.usable((UNRESERVED,), offer.resources):
            found.setdefault(offer.agent_id, []).append(offer)
    several = [each for each in found.values() if len(each) > 1 and each[0] not in idle]
    together = {offer.id for each in several for offer in each}
    return [offer for offer in offers if offer.id not in together], several


def in_all(offers: Sequence[Offer]) -> Resources:
    """Return what offers of one agent have together."""
    return sum((offer.resources for offer in offers[1:]), offers[0].resources)


def in_one_piece(documents: Sequence[OfferDocument]) -> tuple[list[OfferDocument], list[list[Offer]]]:
    """Return the offers of agents and roles of which there is one, and those of which there are several, by agent."""
    found: dict[tuple[str, str], list[OfferDocument]] = {}
    for document in documents:
        role = document.get("allocation_info", {}).get("role", "")
        found.setdefault((document["agent_id"]["value"], role), []).append(document)
    whole: list[OfferDocument] = []
    several: list[list[Offer]] = []
    for group in found.values():
        try:
            several += [[Offer.from_json(each) for each in group]] if len(group) > 1 else []
            whole += group if len(group) == 1 else []
        except (BadResources, KeyError):
            whole += group  # one by one they are found out
    return whole, several
