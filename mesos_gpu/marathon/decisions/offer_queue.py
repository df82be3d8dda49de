"""Offers that came while no launch token was left: kept for a moment, and used as tasks that come to run return theirs.

Marathon's queue of offers is bounded by --max_queued_offers and --offer_matching_timeout, too; what does not fit, or
has waited for too long, is declined. It keeps none for want of tokens: such an offer is refused for Mesos' 5 s. Here
the tokens of tasks that start quickly are back long before.
Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala (unprocessedOffers, rejectElapsedOffers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import Books

_AT_ONCE = 8
"""So many queued offers are looked at together: a choice among them, in a short time."""
_MOST_LOOKS = 4
"""Looks at one event; what is left of tokens and offers then waits for the next."""

Take = Callable[[Draft, Sequence[Offer]], Sequence[Offer]]
"""Uses offers, and returns those that were not tried because no token was left."""
Give = Callable[[Draft, Sequence[Offer]], None]
"""Declines offers that were not tried."""


def room_in_queue(books: Books, settings: Settings) -> int:
    """Return how many more offers may be kept: no more than there are instances that wait, either."""
    return max(0, min(settings.max_queued_offers, len(books.waiting)) - len(books.queued))


def enqueue(draft: Draft, untried: Sequence[Offer]) -> Sequence[Offer]:
    """Keep offers for what waits; return those that there is no room for."""
    room = room_in_queue(draft, draft.settings)
    if untried[:room]:
        until_s = draft.now_s + draft.settings.offer_matching_timeout_s
        draft.queued = (*draft.queued, *((offer, until_s) for offer in untried[:room]))
    return untried[room:]


def use_queued(draft: Draft, take: Take, decline: Give) -> None:
    """Use what is queued as far as tokens go, and let go what nothing waits for or what has waited too long."""
    if draft.queued and not draft.waiting:
        decline(draft, dequeued(draft))
    for _ in range(_MOST_LOOKS):
        if not draft.queued or draft.tokens.left < tokens_worth_a_look(draft, draft.settings):
            break
        part, draft.queued = draft.queued[:_AT_ONCE], draft.queued[_AT_ONCE:]
        until_s = part[0][1]
        untried = take(draft, [offer for offer, _ in part])
        draft.queued = (*((offer, until_s) for offer in untried), *draft.queued)
    # In the order in which they came: at most events none is overdue, and no more than the first is looked at.
    overdue = [offer for offer, _ in takewhile(lambda entry: entry[1] <= draft.now_s, draft.queued)]
    if overdue:
        draft.queued = draft.queued[len(overdue) :]
        decline(draft, take(draft, overdue))


def dequeued(draft: Draft) -> list[Offer]:
    """Return what is queued; it is not any more."""
    queued, draft.queued = draft.queued, ()
    return [offer for offer, _ in queued]


def tokens_worth_a_look(books: Books, settings: Settings) -> int:
    """Return how many tokens must be there before queued offers are used: one would start one task alone."""
    return max(1, min(settings.max_instances_per_offer, settings.launch_tokens, len(books.waiting)))


def next_use_s(books: Books, settings: Settings, now_s: float) -> float | None:
    """Return when what is queued can be used, or must be let go, by the passing of time; None when nothing is."""
    if not books.queued:
        return None
    if books.tokens.left >= tokens_worth_a_look(books, settings):
        return now_s
    return min(books.queued[0][1], max(now_s, books.tokens.refresh_s))
