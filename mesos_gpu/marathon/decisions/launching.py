"""Offers: which instances start on them, and when to ask for more.

Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala,
core/launchqueue/impl/ReviveOffersState.scala.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.decisions import lifecycle, residency
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.matching import Match, Reason, Refusal, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.pod_taskinfo import task_group
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.marathon.model.backoff import Backoff, ready_at
from mesos_gpu.marathon.model.instances import Cause, Instance, Task, moved
from mesos_gpu.marathon.model.task_group import TaskGroup
from mesos_gpu.marathon.state.actions import Decline, Launch, Revive, Say, Suppress
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.documents import OfferDocument, TaskInfo
from mesos_gpu.mesos.ids import FrameworkId, OfferId
from mesos_gpu.mesos.resources import Resources

REQUEST_INTERVAL_S = 0.05
"""The least time between two revives for what requests ask for, such as one-off runs that follow one another."""


def take_offers(draft: Draft, documents: Sequence[OfferDocument]) -> None:
    """Start what fits on each offer, and decline the offers that nothing fits on."""
    declined: list[OfferId] = []
    ready, backoff_s = _ready_by_app(draft), _next_backoff_s(draft)
    for document in documents:
        try:
            offer = Offer.from_json(document)
        except (BadResources, KeyError) as error:
            draft.actions.append(Say(f"declining an offer that cannot be read: {error!r}"))
            declined.append(document["id"]["value"])
            continue
        if not _use(draft, offer, ready, backoff_s):
            declined.append(offer.id)
    if declined:
        draft.actions.append(Decline(declined, _refuse_s(draft, backoff_s)))


def _use(draft: Draft, offer: Offer, ready: dict[str, deque[str]], backoff_s: float) -> bool:
    """Start instances on one offer, one of each app in turn; tell whether it was used.

    For an app with persistent volumes the start may be to reserve what it needs. Those that are started, and those that
    something was reserved for, leave `ready`.
    """
    sifted = residency.sift(draft, offer)
    left, operations = sifted.left, list(sifted.operations)
    started: list[TaskInfo | TaskGroup] = []
    reserved = 0
    refused: dict[str, QueueEntry] = {}
    cut_short = False
    apps = list(ready)
    while apps and not cut_short:
        # An app that this offer does not suit is not tried again on it.
        again: list[str] = []
        for app_id in apps:
            spec = draft.app(app_id)
            if spec is None:
                continue
            if len(started) + reserved >= draft.settings.max_instances_per_offer or draft.tokens.left == 0:
                cut_short = True
                break
            instance, found = _find(draft, spec, offer, left, ready[app_id])
            entry = draft.queue.get(app_id) or QueueEntry(draft.now_s)
            if isinstance(found, Match):
                left -= found.whole
                ready[app_id].remove(instance.id)
                if spec.resident and instance.reservation is None:
                    operations += residency.reserve(draft, spec, instance, offer, found)
                    reserved += 1
                else:
                    started.append(_provision(draft, instance, spec, offer, found))
                draft.queue.put(app_id, entry.used(draft.now_s))
                refused.pop(app_id, None)
                if ready[app_id]:
                    again.append(app_id)
                else:
                    del ready[app_id]
            else:
                refused[app_id] = entry.refused(offer.agent_id, offer.document, found.reasons, draft.now_s)
        apps = again
    for app_id, entry in refused.items():
        draft.queue.put(app_id, entry)
    if started or operations:
        infos = [item for item in started if not isinstance(item, TaskGroup)]
        groups = [item for item in started if isinstance(item, TaskGroup)]
        # What is left is worth another look at once if we stopped before trying everything, or wait for what we made.
        refuse_s = 0.0 if cut_short or reserved else _refuse_s(draft, backoff_s)
        draft.actions.append(Launch(offer.id, infos, refuse_s, groups, operations))
    return bool(started or operations)


def _find(
    draft: Draft, spec: RunSpec, offer: Offer, left: Resources, waiting: Sequence[str]
) -> tuple[Instance, Match | Refusal]:
    """Return which of the waiting instances of an app fits what is left of an offer, or why none does."""
    members = draft.instances_of(spec.id) if spec.document["constraints"] or spec.resident else []
    # Who is where only matters to constraints.
    counted = members if spec.document["constraints"] else ()
    placed = [i for i in counted if i.active and i.wanted and not lifecycle.outdated(i, spec)]
    instance, pool = draft.instances[waiting[0]], None
    if spec.resident:
        chosen = residency.choose([draft.instances[instance_id] for instance_id in waiting], offer, left)
        if chosen is None:
            return instance, Refusal((Reason.NO_CORRESPONDING_RESERVATION,))
        instance, pool = chosen
        placed += residency.bound(members, instance)
    found = match(
        spec,
        offer,
        left,
        placed,
        behaviour=draft.settings.gpu_behaviour,
        roles_behaviour=draft.settings.roles_behaviour,
        now_s=draft.now_s,
        pick=draft.pick(),
        home_region=draft.region,
        pool=pool,
        draining_s=draft.settings.draining_s,
    )
    if isinstance(found, Match) and instance.reservation is not None:
        found = residency.with_volumes(spec, instance, found, left)
    return instance, found


def _provision(draft: Draft, instance: Instance, spec: RunSpec, offer: Offer, found: Match) -> TaskInfo | TaskGroup:
    task_id, pick = instance.next_task_id, draft.pick()
    pod = (
        task_group(
            spec,
            instance,
            offer,
            found,
            framework_id=draft.framework_id or FrameworkId(""),
            env_prefix=draft.settings.env_prefix,
            pick=pick,
            bridge_name=draft.settings.rules.bridge_name,
        )
        if spec.is_pod
        else None
    )
    task = Task(
        id=task_id,
        agent_id=offer.agent_id,
        host=offer.host,
        ports=found.host_ports,
        version=spec.version,
        staged_at_s=draft.now_s,
        attributes=offer.attributes,
        region=offer.region,
        zone=offer.zone,
        containers=() if pod is None else tuple(replace(c, since_s=draft.now_s) for c in pod.containers),
    )
    draft.tokens = draft.tokens.taken(1)
    launched = moved(instance, Cause.LAUNCHED, draft.now_s)
    draft.put_instance(replace(launched, task=task, incarnation=instance.incarnation + 1, version=spec.version))
    if pod is not None:
        return pod.group
    return task_info(
        spec,
        task_id,
        offer,
        found,
        env_prefix=draft.settings.env_prefix,
        enforces_role=draft.enforces_role(spec.id),
        pick=pick,
        bridge_name=draft.settings.rules.bridge_name,
    )


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
