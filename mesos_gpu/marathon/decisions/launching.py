"""Offers: which instances start on them, and when to ask for more.

Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala,
core/launchqueue/impl/ReviveOffersState.scala.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.decisions.choosing import Choice, worth_waiting
from mesos_gpu.marathon.decisions.using import OpenOffer
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.backoff import Backoff, ready_at
from mesos_gpu.marathon.state.actions import Decline, Revive, Say, Suppress
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import OfferId

REQUEST_INTERVAL_S = 0.05
"""The least time between two revives for what requests ask for, such as one-off runs that follow one another."""


def offered(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Use offers, or hold them for a moment with those that were held already (--offer_window)."""
    held = (*draft.held, *documents)
    known = draft.agents | {document["agent_id"]["value"] for document in documents}
    if worth_waiting(draft, held, _ready_by_app(draft)) and (draft.held_until_s or inf) > draft.now_s:
        draft.held, draft.agents = held, known
        if draft.held_until_s is None:
            draft.held_until_s = draft.now_s + draft.settings.offer_window_s
        return
    draft.agents = known
    draft.held, draft.held_until_s = (), None
    take_offers(draft, held)


def use_held(draft: Draft) -> None:
    """Use the offers that were held, once their time is over."""
    if draft.held_until_s is not None and draft.held_until_s <= draft.now_s:
        held, draft.held, draft.held_until_s = draft.held, (), None
        take_offers(draft, held)


def take_offers(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Start what fits: first where there is a choice of offers, then on each offer; decline those nothing fits on."""
    declined: list[OfferId] = []
    ready, backoff_s = _ready_by_app(draft), _next_backoff_s(draft)
    opened: list[OpenOffer] = []
    for document in documents:
        try:
            opened.append(OpenOffer(draft, Offer.from_json(document)))
        except (BadResources, KeyError) as error:
            draft.actions.append(Say(f"declining an offer that cannot be read: {error!r}"))
            declined.append(document["id"]["value"])
    Choice(draft, opened).place(ready)
    for each in opened:
        each.fill(ready)
        if not each.close(_refuse_s(draft, backoff_s)):
            declined.append(each.offer.id)
    if declined:
        draft.actions.append(Decline(declined, _refuse_s(draft, backoff_s)))


def _ready_by_app(draft: Draft) -> dict[str, deque[str]]:
    """Return the ids of the instances that may start now, by app; the app that has waited longest comes first."""
    startable: dict[str, bool] = {}
    ready: dict[str, deque[str]] = {}
    for instance in sorted(draft.waiting_instances(), key=lambda i: (i.since_s, i.id)):
        app_id = instance.app_id
        if app_id not in startable:
            spec = draft.app(app_id)
            startable[app_id] = spec is not None and ready_at(draft.backoffs.get(app_id), spec) <= draft.now_s
        if startable[app_id]:
            ready.setdefault(app_id, deque()).append(instance.id)
    return ready


def _next_backoff_s(draft: Draft) -> float:
    """Return in how many seconds the next backoff of an app that waits ends; infinite when there is none."""
    delays = [
        ready_at(draft.backoffs.get(app_id), spec) - draft.now_s
        for app_id in draft.waiting_apps()
        if (spec := draft.app(app_id)) is not None
    ]
    return min((delay for delay in delays if delay > 0), default=inf)


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
    if draft.all_asked_for():
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
    due = {task_id for task_id, app_id in waiting.items() if reasons[app_id]}
    # What is to be given back must come in an offer, too.
    due |= draft.releasing
    if not waiting and not draft.releasing:
        draft.asked_for, draft.revive_due, draft.revive_for_request = frozenset(), False, False
        if draft.settings.suppress_offers and not draft.suppressed and not draft.backoffs:
            draft.suppressed = True
            draft.actions.append(Suppress())
        return
    if draft.suppressed or not due <= draft.asked_for:
        draft.revive_due, draft.revive_for_request = True, draft.revive_for_request or requested
    draft.asked_for = draft.asked_for & (waiting.keys() | draft.releasing) | due
    _revive_when_due(draft)


def _revive_when_due(draft: Draft) -> None:
    if not draft.revive_due:
        return
    interval_s, burst = draft.settings.min_revive_interval_s, draft.settings.revive_burst
    if draft.now_s >= _revive_allowed_s(draft.revive_credit_s, interval_s, burst):
        draft.revive_credit_s = max(draft.revive_credit_s, draft.now_s) + interval_s
    elif not draft.revive_for_request or draft.now_s < draft.revived_s + REQUEST_INTERVAL_S:
        return
    draft.revive_due, draft.revive_for_request, draft.suppressed = False, False, False
    draft.revived_s = draft.now_s
    draft.actions.append(Revive())


def next_launch_s(state: State, settings: Settings, moment: Moment) -> float | None:
    """Return when a start, or asking for offers, becomes possible by the passing of time; None when it will not."""
    interval_s, burst = settings.min_revive_interval_s, settings.revive_burst
    times: list[float] = []
    for app_id in set(state.waiting.values()):
        spec = state.app(app_id)
        if spec is not None:
            known = state.backoffs.get(app_id)
            times += [ready_at(known, spec), _revive_from_s(known, spec, interval_s)]
    times = [at for at in times if at > moment.now_s]
    if state.held_until_s is not None:
        times.append(state.held_until_s)
    if state.subscribed and state.revive_due:
        allowed_s = _revive_allowed_s(state.revive_credit_s, interval_s, burst)
        if state.revive_for_request:
            allowed_s = min(allowed_s, state.revived_s + REQUEST_INTERVAL_S)
        times.append(max(moment.now_s, allowed_s))
    return min(times, default=None)


def _revive_from_s(known: Backoff | None, spec: RunSpec, interval_s: float) -> float:
    """Return from when on an instance that waits is a reason to revive; 0 for at once."""
    ready_s = ready_at(known, spec)
    return ready_s + interval_s if ready_s else 0.0


def _revive_allowed_s(credit_s: float, interval_s: float, burst: int) -> float:
    """Return when a revive may be sent: on average one each interval, a few at once after a quiet time."""
    return credit_s - (burst - 1) * interval_s
