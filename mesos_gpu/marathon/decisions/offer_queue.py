"""Offers that came while no launch token was left: kept for a moment, and used as tasks that come to run return theirs.

Marathon's queue of offers is bounded by --max_queued_offers and --offer_matching_timeout, too; what does not fit, or
has waited for too long, is declined. It keeps none for want of tokens: such an offer is refused for Mesos' 5 s. Here
the tokens of tasks that start quickly are back long before.
Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala (unprocessedOffers, rejectElapsedOffers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import Books
from mesos_gpu.mesos.documents import OfferDocument

_AT_ONCE = 8
"""So many queued offers are looked at together: a choice among them, in a short time."""
_MOST_LOOKS = 4
"""Looks at one event; what is left of tokens and offers then waits for the next."""

Take = Callable[[Draft, Sequence[OfferDocument]], Sequence[OfferDocument]]
"""Uses offers, and returns those that were not tried because no token was left."""
Give = Callable[[Draft, Sequence[OfferDocument]], None]
"""Declines offers that were not tried."""


def enqueue(draft: Draft, untried: Sequence[OfferDocument]) -> Sequence[OfferDocument]:
    """Keep offers for what waits; return those that there is no room for."""
    room = max(0, min(draft.settings.max_queued_offers, len(draft.waiting)) - len(draft.queued))
    if untried[:room]:
        until_s = draft.now_s + draft.settings.offer_matching_timeout_s
        draft.queued = (*draft.queued, *((document, until_s) for document in untried[:room]))
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
        untried = take(draft, [document for document, _ in part])
        draft.queued = (*((document, until_s) for document in untried), *draft.queued)
    overdue = [document for document, until_s in draft.queued if until_s <= draft.now_s]
    if overdue:
        draft.queued = draft.queued[len(overdue) :]  # in the order in which they came
        decline(draft, take(draft, overdue))


def dequeued(draft: Draft) -> list[OfferDocument]:
    """Return what is queued; it is not any more."""
    queued, draft.queued = draft.queued, ()
    return [document for document, _ in queued]


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
