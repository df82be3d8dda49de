"""Offers are read: from the documents of the master to values that can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.actions import Say
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId, OfferId, Role


def read(
    draft: Draft, documents: Sequence[OfferDocument], as_offer: Callable[[OfferDocument], Offer] | None = None
) -> tuple[list[Offer], list[OfferId]]:
    """Return offers as they can be used, and the ids of those that cannot be read."""
    offers: list[Offer] = []
    declined: list[OfferId] = []
    as_offer = as_offer or Offer.from_json
    for document in documents:
        try:
            offers.append(as_offer(document))
        except (BadResources, KeyError) as error:
            draft.actions.append(Say(f"declining an offer that cannot be read: {error!r}"))
            declined.append(document["id"]["value"])
    return offers, declined


def read_anew(draft: Draft, documents: Sequence[OfferDocument]) -> tuple[list[Offer], list[OfferId]]:
    """Return the same; what says no more than an agent's last offer in that role is known, with all found out of it.

    While something waits in order, all that is free comes again and again.
    """
    known = dict(draft.offers_read)

    def as_offer(document: OfferDocument) -> Offer:
        key: tuple[AgentId, Role] = document["agent_id"]["value"], document.get("allocation_info", {}).get("role", "")
        last = known.get(key)
        offer = None if last is None else last.again(document)
        if offer is None:
            offer = Offer.from_json(document)
        known[key] = offer
        return offer

    found = read(draft, documents, as_offer)
    draft.offers_read = known
    return found
