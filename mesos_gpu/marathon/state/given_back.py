"""What was given back of offers while something waits in order, and when it comes again: it is as free as it was. Pure.

A gang needs several machines at one moment, and each was refused for a time of its own. So all that was refused is
remembered for as long as the master keeps the refusal, and offers are asked for again when there would be room in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

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
_AS_ONE_S, _NOT_AGAIN_S = 1.5, 10.0
"""For so long it is waited for what comes as one: a master makes offers each second. And not again for so long."""
_AT_ONCE, _MOST_PAUSE_S = 3, 30.0
"""So often offers are asked for in vain without a pause; how long the pauses then grow."""


class Calls(Struct, frozen=True):
    """How often offers were asked for, for what waits in order, since some of it last started.

    What a role's quota leaves it can be offered here or there, and never both: asking again brings no more of it.
    """

    count: int = 0
    last_s: float = 0.0

    def due(self, now_s: float) -> bool:
        """Return whether offers may be asked for again: each second at first, then ever more seldom."""
        pause_s = min(_MOST_PAUSE_S, 2.0 ** (self.count - _AT_ONCE)) if self.count > _AT_ONCE else 0.0
        return not self.last_s <= now_s < self.last_s + pause_s

    def made(self, now_s: float) -> Calls:
        """Return them after one more."""
        return Calls(self.count + 1, now_s)

    def started(self) -> Calls:
        """Return them after something has started: nothing was in vain."""
        return NO_CALLS


NO_CALLS = Calls()


class Awaited(Struct, frozen=True):
    """Agents whose offers were given back in parts, to come as one a moment later.

    What starts in the meantime would start where it would not with all machines to choose from.
    """

    agents: frozenset[AgentId] = frozenset()
    until_s: float = 0.0

    def after(self, parts: Collection[AgentId], at_hand: Collection[AgentId], now_s: float) -> Awaited:
        """Return it when `parts` were given back in parts, and the offers of agents came that are `at_hand`.

        Where they come in parts again and again, as a quota has it, nobody waits for them for long.
        """
        if parts and not self.until_s <= now_s < self.until_s + _NOT_AGAIN_S:
            until_s = self.until_s if self.holds_up(now_s) else now_s + _AS_ONE_S
            return Awaited(frozenset(parts) | (self.agents - frozenset(at_hand)), until_s)
        return Awaited(self.agents - (frozenset(at_hand) - frozenset(parts)), self.until_s)

    def holds_up(self, now_s: float) -> bool:
        """Return whether to wait for them."""
        return bool(self.agents) and self.until_s - _AS_ONE_S <= now_s < self.until_s


NOTHING_AWAITED = Awaited()


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

    def used(self, rest: Offer, refuse_s: float) -> None:
        """Note the rest of an offer on which something has started: what was known of its agent holds no more."""
        self._of = {key: entry for key, entry in self._of.items() if key[0] != rest.agent_id}
        self.refused(rest, refuse_s)

    def at_hand(self, offers: Collection[Offer]) -> None:
        """Note that these have come again: nobody refuses them in their roles."""
        self._here = frozenset(offer.agent_id for offer in offers)
        for offer in offers:
            self._of.pop(_key(offer), None)

    @property
    def offers(self) -> list[Offer]:
        """Return what agents that have none at hand are known to have, of each the most that was given back of it.

        In some roles that was less than there is: as much as a quota leaves them.
        """
        found: dict[AgentId, Offer] = {}
        for offer, _, _ in self._of.values():
            if offer.agent_id in self._here:
                continue
            known = found.get(offer.agent_id)
            if known is None or _size(known) <= _size(offer):
                found[offer.agent_id] = offer
        return list(found.values())

    @property
    def lately(self) -> dict[tuple[AgentId, Role], Offer]:
        """Return the offers of agents that have none at hand, by agent and role, that came about when its last one did.

        What came before that says no more.
        """
        latest: dict[AgentId, float] = {}
        for offer, from_s, _ in self._of.values():
            latest[offer.agent_id] = max(from_s, latest.get(offer.agent_id, from_s))
        return {
            key: offer
            for key, (offer, from_s, _) in self._of.items()
            if offer.agent_id not in self._here and from_s > latest[offer.agent_id] - SETTLE_S
        }

    @property
    def still_refused(self) -> set[tuple[AgentId, Role]]:
        """Return which agents come earlier in which role if offers are asked for; others come by themselves."""
        return {key for key, (_, _, until_s) in self._of.items() if until_s > self._now_s}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return what is to be remembered."""
        return tuple(self._of.values())


def _size(offer: Offer) -> tuple[int, int, int]:
    resources = offer.resources
    return resources.gpus, resources.milli("cpus"), resources.milli("mem")


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
