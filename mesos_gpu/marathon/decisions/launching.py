"""Offers: which instances start on them, and when to ask for more.

Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala,
core/launchqueue/impl/ReviveOffersState.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

from msgspec.structs import replace

from mesos_gpu.marathon.decisions.choosing import Choice, worth_waiting
from mesos_gpu.marathon.decisions.giving_way import place_first
from mesos_gpu.marathon.decisions.in_order import Look
from mesos_gpu.marathon.decisions.offer_queue import dequeued, enqueue, next_use_s, room_in_queue, runs_dry
from mesos_gpu.marathon.decisions.offer_queue import use_queued as use_queue
from mesos_gpu.marathon.decisions.roles import in_one_role, keep_all
from mesos_gpu.marathon.decisions.using import OpenOffer, Ready, waits_in_lines
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.backoff import Backoff, ready_at
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.state.actions import Decline, Revive, Suppress
from mesos_gpu.marathon.state.asked import NOTHING_ASKED, Asked
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.given_back import NO_CALLS, SETTLE_S, GivenBack, in_one_piece, lifted
from mesos_gpu.marathon.state.reading import read, read_anew
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import Books, State
from mesos_gpu.marathon.state.turns import Line
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId, OfferId, TaskId

_PAUSE_S, _PAUSE_MORE_S = 1.0, 3.0
"""For so long, and up to so much more by chance, others have their turn with what was kept in vain: two Marathons that
each hold half of what both want do not do so again at the same moment."""
_EARLIER = 0.25
"""By up to this part of --gang_offer_hold, by chance, what is kept is given back earlier, for the same reason: of two
that began at one moment the one that keeps its half for longer is offered the other's."""
_LOOK_S, _LONGEST_LOOK_S = 3.0, 30.0
"""How often time matters to what waits in order: at first, and once nothing else has happened for long."""
REQUEST_INTERVAL_S = 0.05
"""The least time between two revives for what requests ask for, such as one-off runs that follow one another."""


def offered(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Use offers, or hold them for a moment with those that were held already (--offer_window)."""
    held = (*draft.held, *documents)
    if _all_wait_for_tokens(draft, held):
        _know(draft, documents)
        draft.held, draft.held_until_s = (), None
        _keep_untried(draft, held)
        return
    ready = Ready({}, {}, draft.lines) if waits_in_lines(draft, held) else _ready_by_app(draft)
    if ready.ordered:
        _know(draft, documents)
        offering = {document["agent_id"]["value"] for document in documents}
        grown = {task.agent_id for task, _, _ in draft.freed if task.agent_id in offering}
        draft.freed = tuple(entry for entry in draft.freed if entry[0].agent_id not in offering)
        _take_in_order(draft, [*_queued(draft), *held], ready, keep=True, grown=grown)
        return
    if worth_waiting(draft, held, ready) and (draft.held_until_s or inf) > draft.now_s:
        draft.held = held
        _know(draft, documents)
        if draft.held_until_s is None:
            draft.held_until_s = draft.now_s + draft.settings.offer_window_s
        return
    _know(draft, documents)
    draft.held, draft.held_until_s = (), None
    take_offers(draft, held, ready)


def _know(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Remember the agents that have made offers."""
    new = {document["agent_id"]["value"] for document in documents}.difference(draft.agents)
    if new:
        draft.agents |= new


def _all_wait_for_tokens(draft: Draft, documents: Sequence[OfferDocument]) -> bool:
    """Return whether there is nothing to do with these offers but to keep them until there is a token.

    Nothing that waits asks for an order or to wait for better offers, and nothing is reserved in them that may have to
    be given back.
    """
    if draft.tokens.left or draft.settings.offer_window_s > 0 or draft.singular_apps():
        return False
    if any(
        "reservations" in resource or "reservation" in resource for each in documents for resource in each["resources"]
    ):
        return False
    return next(_startable(draft), None) is not None


def _keep_untried(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Queue offers that are not tried, as far as there is room, and decline the others, which need not be read."""
    room = room_in_queue(draft, draft.settings)
    offers, unread = read(draft, documents[:room])
    enqueue(draft, offers)
    if unread:
        draft.actions.append(Decline(unread, _refuse_s(draft, _next_backoff_s(draft))))
    _decline_untried(draft, [document["id"]["value"] for document in documents[room:]])


def use_held(draft: Draft) -> None:
    """Use the offers that were held, once their time is over."""
    if draft.held_until_s is not None and draft.held_until_s <= draft.now_s:
        gathered, held = draft.gathering, draft.held
        draft.held, draft.held_until_s, draft.gathering = (), None, False
        ready = _ready_by_app(draft)
        if gathered and ready.ordered:
            _take_in_order(draft, held, ready, keep=False)
        else:
            take_offers(draft, held, ready)


def forget_offers(draft: Draft) -> None:
    """Forget offers that are kept: a subscription has ended or begun, and they are void."""
    draft.held, draft.held_until_s, draft.gathering, draft.away = (), None, False, ()
    draft.offers_read = {}
    draft.queued, draft.token_short = (), False


def rescinded(draft: Draft, offer_id: str) -> None:
    """Forget an offer that is kept: what is started on it now would be lost, and count as a failure."""
    draft.held = tuple(document for document in draft.held if document["id"]["value"] != offer_id)
    draft.queued = tuple(entry for entry in draft.queued if entry[0].id != offer_id)
    if not draft.held:
        draft.held_until_s, draft.gathering = None, False


def look_again(draft: Draft, *, tick: bool) -> None:
    """Decide anew about what waits in order, when something has changed or, with `tick`, as time has passed."""
    new = {app_id for app_id in draft.waiting.changes.values() if app_id is not None}
    if not draft.subscribed or not (new or (tick and draft.ordered)):
        return
    if not draft.ordered:
        specs = (draft.app(app_id) for app_id in new)
        draft.ordered = any(spec is not None and spec.ordered for spec in specs)
        return
    if new:
        draft.calls = NO_CALLS
    ready = _ready_by_app(draft)
    if ready.ordered:
        _take_in_order(draft, [*_queued(draft), *draft.held], ready, keep=True)
    else:
        specs = (draft.app(app_id) for app_id in draft.waiting_apps())
        draft.ordered = any(spec is not None and spec.ordered for spec in specs)
        draft.away, draft.freed, draft.places, draft.seen, draft.offers_read = (), (), {}, {}, {}
        if draft.gathering:
            held, draft.held, draft.held_until_s, draft.gathering = draft.held, (), None, False
            take_offers(draft, held, ready)


def _take_in_order(
    draft: Draft,
    documents: Sequence[OfferDocument],
    ready: Ready,
    *,
    keep: bool,
    grown: Collection[AgentId] = frozenset(),
) -> None:
    """Start what comes first; with `keep`, hold what the first that waits is to have, else give everything back.

    `grown`: agents on which a task has ended, and which are offered for the first time since.
    """
    whole, parts = in_one_piece(documents)
    offers, declined = read_anew(draft, whole)
    away = GivenBack(draft.away, draft.now_s)
    draft.freed = tuple(entry for entry in draft.freed if entry[2] > draft.now_s - SETTLE_S)
    alone, idle = in_one_role(draft, away, offers, parts, ready, grown)
    if keep and draft.awaited.holds_up(draft.now_s):
        keep_all(draft, alone)
        draft.away = away.entries
        if declined:
            draft.actions.append(Decline(declined, _refuse_s(draft, _next_backoff_s(draft))))
        return
    opened = [OpenOffer(draft, offer) for offer in alone]
    most_s = place_first(draft, opened, ready)
    look = Look(draft, opened, ready, away)
    decision = look.carry_out()
    hold_s = draft.settings.gang_offer_hold_s
    until_s = (
        draft.held_until_s if draft.gathering else draft.now_s + hold_s * (1 - draft.pick() % 1000 / 1000 * _EARLIER)
    )
    resident = Ready({app_id: ids for app_id, ids in ready.items() if ready.specs[app_id].resident}, ready.specs)
    refuse_s = min(most_s, _refuse_s(draft, _next_backoff_s(draft)))
    if look.meant or (idle and any(decision.fits.values())):
        refuse_s = min(refuse_s, _PAUSE_S + draft.pick() % 1000 / 1000 * _PAUSE_MORE_S)
    held: list[OfferDocument] = []
    for each in opened:
        role = look.meant.get(str(each.offer.id)) if keep else None
        kept = each.offer.role == role
        if not kept:
            each.fill(resident)
        if each.close(0.0 if decision.fits else refuse_s):
            away.used(replace(each.offer, resources=each.left), _PAUSE_S)
        elif kept:
            held.append(each.offer.document)
        elif role is not None:  # it is to come in the role of who is to have it
            draft.actions.append(Decline([each.offer.id], draft.settings.gang_offer_hold_s))
            away.refused(each.offer, draft.settings.gang_offer_hold_s)
        else:
            declined.append(each.offer.id)
            away.refused(each.offer, refuse_s)
    if declined:
        draft.actions.append(Decline(declined, refuse_s))
    draft.held, draft.gathering = tuple(held), bool(held)
    draft.held_until_s = until_s if held else None
    draft.ordered = bool(draft.waiting)
    draft.away = away.entries if draft.ordered else ()
    draft.freed = draft.freed if draft.ordered else ()
    draft.seen, draft.offers_read = (draft.seen, draft.offers_read) if draft.ordered else ({}, {})


def take_offers(draft: Draft, documents: Sequence[OfferDocument], ready: Ready | None = None) -> None:
    """Start what fits: first where there is a choice of offers, then on each offer; decline those nothing fits on.

    Those that were not tried because no token was left are queued (offer_queue.py), as far as there is room.
    """
    offers, unread = read(draft, documents)
    untried = enqueue(draft, _use(draft, offers, ready, unread=unread))
    _decline_untried(draft, [offer.id for offer in untried])


def use_queued(draft: Draft) -> None:
    """Use queued offers as tokens come back; where some were declined for want of tokens, ask for them again."""
    use_queue(draft, _use, lambda draft, offers: _decline_untried(draft, [offer.id for offer in offers]))
    if draft.token_short and draft.waiting and runs_dry(draft, draft.settings):
        draft.token_short, draft.revive_due = False, True
    elif draft.token_short and not draft.waiting:
        draft.token_short = False


def _use(
    draft: Draft, offers: Sequence[Offer], ready: Ready | None = None, *, unread: Sequence[OfferId] = ()
) -> list[Offer]:
    """Start what fits, decline what nothing fits on, and return the offers that were not tried for want of tokens.

    `unread` are the ids of offers that cannot be read: these are declined, too.
    """
    ready = _ready_by_app(draft) if ready is None else ready
    backoff_s = _next_backoff_s(draft)
    opened, declined = [OpenOffer(draft, offer) for offer in offers], list(unread)
    most_s = place_first(draft, opened, ready)
    choice = Choice(draft, opened)
    choice.place(ready)
    untried: list[Offer] = []
    for each in opened:
        each.fill(ready, choice.nowhere)
        if each.close(min(most_s, _refuse_s(draft, backoff_s))):
            continue
        if each.cut_short:
            untried.append(each.offer)
        else:
            declined.append(each.offer.id)
    if declined:
        draft.actions.append(Decline(declined, min(most_s, _refuse_s(draft, backoff_s))))
    return untried


def _decline_untried(draft: Draft, untried: Sequence[OfferId]) -> None:
    if untried:
        draft.token_short = bool(draft.waiting)
        refuse_s = _refuse_s(draft, _next_backoff_s(draft)) if draft.waiting else draft.settings.decline_offer_s
        draft.actions.append(Decline(untried, refuse_s))


def _queued(draft: Draft) -> list[OfferDocument]:
    """Return the documents of what is queued; it is not any more."""
    return [offer.document for offer in dequeued(draft)]


def _ready_by_app(draft: Draft) -> Ready:
    """Return what may start now; the app that has waited longest comes first."""
    specs: dict[str, RunSpec] = {}
    ready: dict[str, Line] = {}
    for app_id, spec in _startable(draft):
        specs[app_id], ready[app_id] = spec, Line(draft.waiting.line(app_id))
    return Ready(ready, specs)


def _startable(draft: Draft) -> Iterator[tuple[str, RunSpec]]:
    """Yield the apps that wait, and not for their backoff, the one that has waited longest first."""
    waiting, backoffs = draft.waiting, draft.backoffs
    for _, instance_id in waiting.heads:
        app_id = waiting[instance_id]
        spec = waiting.run_specs.get(instance_id)
        if spec is None:
            spec = draft.app(app_id)
            if spec is not None and run_of(app_id) is not None:
                waiting.run_specs[instance_id] = spec
        if spec is not None and not (app_id in backoffs and ready_at(backoffs[app_id], spec) > draft.now_s):
            yield app_id, spec


def _next_backoff_s(draft: Draft) -> float:
    """Return in how many seconds the next backoff of an app that waits ends; infinite when there is none."""
    delays = [
        ready_at(draft.backoffs.get(app_id), spec) - draft.now_s
        for app_id in _held_back(draft)
        if (spec := draft.app(app_id)) is not None
    ]
    return min((delay for delay in delays if delay > 0), default=inf)


def _held_back(books: Books) -> list[str]:
    """Return the ids of apps of which an instance waits, and which may have to wait for their backoff: few of many."""
    return [app_id for app_id in books.backoffs if books.waiting.has_app(app_id)]


def _refuse_s(draft: Draft, backoff_s: float) -> float:
    """Return for how long to refuse: the flag's time, or until the next backoff ends, whichever is sooner."""
    tokens_s = max(0.0, draft.tokens.refresh_s - draft.now_s) if draft.tokens.left == 0 else inf
    return min(draft.settings.decline_offer_s, backoff_s, tokens_s)


def ask_for_offers(draft: Draft, *, requested: bool = False) -> None:
    """Revive when something new waits for an offer, suppress when nothing does; called after every event.

    An app that ends and waits out its backoff is no reason to revive: the agent it ran on has grown by what it used
    and is offered anyway, and `_refuse_s` brings that offer back in time. So apps that fail over and over leave the
    revives to the others. Only when that has not helped for one interval is a revive asked for after all. What is due
    because of a request (`requested`) does not wait for the interval: somebody sits there and waits.
    """
    for app_id in [app_id for app_id, known in draft.backoffs.items() if known.forgotten(draft.now_s)]:
        draft.backoffs.drop(app_id)
    if not draft.subscribed:
        return
    if draft.asked_before() and _asked_for_more(draft, requested=requested):
        _revive_when_due(draft)
        return
    interval_s = draft.settings.min_revive_interval_s
    waiting: dict[str, str] = {}
    reasons: dict[str, bool] = {}
    for instance in draft.waiting_instances():
        app_id = instance.app_id
        if app_id not in reasons and (spec := draft.app(app_id)) is not None:
            reasons[app_id] = _revive_from_s(draft.backoffs.get(app_id), spec, interval_s) <= draft.now_s
        if app_id in reasons:
            waiting[instance.next_task_id] = app_id
    due = {TaskId(task_id) for task_id, app_id in waiting.items() if reasons[app_id]}
    # What is to be given back must come in an offer, too.
    due |= {TaskId(instance_id) for instance_id in draft.releasing}
    if not waiting and not draft.releasing:
        draft.asked_for, draft.revive_due, draft.revive_for_request = NOTHING_ASKED, False, False
        if draft.settings.suppress_offers and not draft.suppressed and not draft.backoffs:
            draft.suppressed = True
            draft.actions.append(Suppress())
        return
    if draft.suppressed or not due <= draft.asked_for:
        draft.revive_due, draft.revive_for_request = True, draft.revive_for_request or requested
    draft.asked_for = Asked(draft.asked_for & (waiting.keys() | draft.releasing) | due)
    _revive_when_due(draft)


def _asked_for_more(draft: Draft, *, requested: bool) -> bool:
    """Ask for what the event has added to what waits, when all the rest was asked for; return whether that was all."""
    if not draft.waiting.changes:
        return True
    gone, new = draft.newly_asked()
    if any(i.app_id in draft.backoffs or draft.app(i.app_id) is None for i in new):
        return False
    if not draft.waiting and not draft.releasing:
        return False
    added = {instance.next_task_id for instance in new}
    if not added <= draft.asked_for:
        draft.revive_due, draft.revive_for_request = True, draft.revive_for_request or requested
    draft.asked_for = draft.asked_for.after(gone, added)
    return True


def _revive_when_due(draft: Draft) -> None:
    if not draft.revive_due:
        return
    interval_s, burst = draft.settings.min_revive_interval_s, draft.settings.revive_burst
    if draft.now_s >= _revive_allowed_s(draft.revive_credit_s, interval_s, burst):
        draft.revive_credit_s = max(draft.revive_credit_s, draft.now_s) + interval_s
    elif not draft.revive_for_request or draft.now_s < draft.revived_s + REQUEST_INTERVAL_S:
        return
    draft.revive_due, draft.revive_for_request, draft.suppressed = False, False, False
    draft.revived_s, draft.away = draft.now_s, lifted(draft.away, draft.now_s)
    draft.actions.append(Revive())


def next_launch_s(state: State, settings: Settings, moment: Moment, *, looks: bool = True) -> float | None:
    """Return when a start, or asking for offers, becomes possible by the passing of time; None when it will not.

    With `looks` also when what waits in order is looked at again because time matters to it.
    """
    interval_s, burst = settings.min_revive_interval_s, settings.revive_burst
    times: list[float] = []
    for app_id in _held_back(state):
        spec = state.app(app_id)
        if spec is not None:
            known = state.backoffs.get(app_id)
            times += [ready_at(known, spec), _revive_from_s(known, spec, interval_s)]
    times = [at for at in times if at > moment.now_s]
    if looks and state.ordered and state.subscribed and state.waiting:
        times.append(moment.now_s + _look_s(moment.now_s - state.stirred_s))
    if state.held_until_s is not None and (looks or not state.gathering):
        times.append(state.held_until_s)
    if looks and state.awaited.holds_up(moment.now_s):
        times.append(state.awaited.until_s)
    if (use_s := next_use_s(state, settings, moment.now_s)) is not None:
        times.append(use_s)
    if state.subscribed and state.revive_due:
        allowed_s = _revive_allowed_s(state.revive_credit_s, interval_s, burst)
        if state.revive_for_request:
            allowed_s = min(allowed_s, state.revived_s + REQUEST_INTERVAL_S)
        times.append(max(moment.now_s, allowed_s))
    return min(times, default=None)


def _look_s(quiet_s: float) -> float:
    """Return in how many seconds to look again at what waits in order when nothing has happened for so many: as many.

    So a Marathon in which one app waits for a day is not busy with it.
    """
    return min(_LONGEST_LOOK_S, max(_LOOK_S, quiet_s))


def _revive_from_s(known: Backoff | None, spec: RunSpec, interval_s: float) -> float:
    """Return from when on an instance that waits is a reason to revive; 0 for at once."""
    ready_s = ready_at(known, spec)
    return ready_s + interval_s if ready_s else 0.0


def _revive_allowed_s(credit_s: float, interval_s: float, burst: int) -> float:
    """Return when a revive may be sent: on average one each interval, a few at once after a quiet time."""
    return credit_s - (burst - 1) * interval_s
