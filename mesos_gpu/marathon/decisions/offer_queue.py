"""Offers that came while no launch token was left: kept for a moment, and used as tasks that come to run return theirs.

Marathon's queue of offers is bounded by --max_queued_offers and --offer_matching_timeout, too; what does not fit, or
has waited for too long, is declined. It keeps none for want of tokens: such an offer is refused for Mesos' 5 s. Here
the tokens of tasks that start quickly are back long before. As long as queued offers are used one after the other, the
others are kept for longer than the flag says, up to 30 s: each would be declined, offered and read again otherwise.
Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala (unprocessedOffers, rejectElapsedOffers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import Books

_AT_ONCE = 8
"""So many queued offers are looked at together: a choice among them, in a short time."""
_MOST_LOOKS = 4
"""Looks at one event; what is left of tokens and offers then waits for the next."""
_LONGEST_S = 30.0
"""For so long offers are kept at most while others of the queue are used: others could use those machines."""

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
        draft.queued = (*draft.queued, *((offer, draft.now_s) for offer in untried[:room]))
    return untried[room:]


def use_queued(draft: Draft, take: Take, decline: Give) -> None:
    """Use what is queued as far as tokens go, and let go what nothing waits for or what has waited too long."""
    if draft.queued and not draft.waiting:
        decline(draft, dequeued(draft))
    for _ in range(_MOST_LOOKS):
        if not draft.queued or draft.tokens.left < tokens_worth_a_look(draft, draft.settings):
            break
        part, draft.queued = draft.queued[:_AT_ONCE], draft.queued[_AT_ONCE:]
        came_s, tokens = part[0][1], draft.tokens
        untried = take(draft, [offer for offer, _ in part])
        if draft.tokens is not tokens:
            draft.queue_used_s = draft.now_s
        draft.queued = (*((offer, came_s) for offer in untried), *draft.queued)
    # In the order in which they came: at most events none is overdue, and no more than the first is looked at.
    kept_until = partial(kept_until_s, draft, draft.settings)
    overdue = [offer for offer, _ in takewhile(lambda entry: kept_until(entry[1]) <= draft.now_s, draft.queued)]
    if overdue:
        draft.queued = draft.queued[len(overdue) :]
        decline(draft, take(draft, overdue))


def kept_until_s(books: Books, settings: Settings, came_s: float) -> float:
    """Return until when an offer is kept that came then, if none is used any more until then."""
    timeout_s = settings.offer_matching_timeout_s
    return min(max(came_s, books.queue_used_s) + timeout_s, came_s + max(timeout_s, _LONGEST_S))


def dequeued(draft: Draft) -> list[Offer]:
    """Return what is queued; it is not any more."""
    queued, draft.queued = draft.queued, ()
    return [offer for offer, _ in queued]


def tokens_worth_a_look(books: Books, settings: Settings) -> int:
    """Return how many tokens must be there before queued offers are used: one would start one task alone."""
    return max(1, min(settings.max_instances_per_offer, settings.launch_tokens, len(books.waiting)))


def runs_dry(draft: Draft, settings: Settings) -> bool:
    """Return whether offers that were declined for want of tokens are worth asking for now.

    That is when none is left for the tokens that are there, or while the queue is used and what is left of it takes
    fewer tokens than there are in all: others take a while to come. While nothing is started, more would only time out.
    """
    if not draft.queued:
        return draft.tokens.left >= tokens_worth_a_look(draft, settings)
    enough = settings.launch_tokens // max(1, settings.max_instances_per_offer)
    return draft.queue_used_s == draft.now_s and len(draft.queued) < min(
        enough, len(draft.waiting), settings.max_queued_offers // 2
    )


def next_use_s(books: Books, settings: Settings, now_s: float) -> float | None:
    """Return when what is queued can be used, or must be let go, by the passing of time; None when nothing is."""
    if not books.queued:
        return None
    if books.tokens.left >= tokens_worth_a_look(books, settings):
        return now_s
    return min(kept_until_s(books, settings, books.queued[0][1]), max(now_s, books.tokens.refresh_s))
