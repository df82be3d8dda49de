"""Who gives way so that another app can start, ended or suspended; and that this one has what was made free.

Without the latter an offer with parts of a shared card that were put away would go to whoever has waited longest, and
the task would stand still in vain. They are kept for as long as a suspension may be in vain (`suspending.IN_VAIN_S`),
and no longer than the app waits; then anybody may have them. Whole GPUs that somebody gives up are kept by the promise
of `mesos_gpu.queueing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

from msgspec import Struct

from mesos_gpu.marathon.decisions import lifecycle, suspending
from mesos_gpu.marathon.decisions.using import OpenOffer, Ready
from mesos_gpu.marathon.matching import share_scheduling
from mesos_gpu.marathon.matching.gpu_shares import parts_of
from mesos_gpu.marathon.model.instances import ASKED, AWAY, Task
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.shares.cgpu import ShareAsk

AGAIN_S = 5.0
"""For so long an offer is refused of which something is kept: then the app may be gone, and others want it."""

Parts = Mapping[int, tuple[int, int]]
"""GiB and slices, by the index of the card."""


class _Kept(Struct, frozen=True):
    """What is kept on one machine for an app that waits. `whole`: with what was free and it was to have, too."""

    away: Parts
    whole: Parts


def give_way(draft: Draft, units: Collection[str], taker: str) -> None:
    """Ask for the end of these instances and gangs, by their ids, for the app `taker`; they will wait again."""
    for instance in list(draft.instances.values()) if units else ():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or draft.app(taker) is None or not instance.active:
            continue
        if (task.gang.id if task.gang is not None else instance.id) not in units:
            continue
        if suspending.gives_gpus(spec):
            suspending.suspend(draft, instance, task, taker)
        else:
            lifecycle.end_for(draft, instance, task, taker)


def place_first(draft: Draft, opened: Sequence[OpenOffer], ready: Ready) -> float:
    """Start those for whom something was put away on what is offered there, and keep it from others.

    Those who start leave `ready`. Returns for how many seconds the rest of these offers may be refused at most.
    """
    asks = {
        app_id: ask
        for app_id in draft.singular_apps()
        if (ask := share_scheduling.high_share(draft.app(app_id))) is not None
    }
    if not asks:
        return inf
    tasks = (instance.task for instance in draft.instances.values())
    where = {task.agent_id for task in tasks if task is not None and task.suspended_for in asks}
    most_s = inf
    for each in opened:
        agent_id = each.offer.agent_id
        if agent_id not in where:
            continue
        for taker in _kept_on(draft, agent_id, asks):
            if taker in ready:
                others = [kept.away for app_id, kept in _kept_on(draft, agent_id, asks).items() if app_id != taker]
                _start(each, taker, ready, others)
        for kept in _kept_on(draft, agent_id, asks).values():
            each.set_aside(parts_of(each.left, kept.whole))
            most_s = AGAIN_S
    return most_s


def _start(each: OpenOffer, taker: str, ready: Ready, others: Sequence[Parts]) -> None:
    """Start an app as often as it fits beside what is kept for others."""
    alone = Ready({taker: ready[taker]}, ready.specs)
    aside = []
    for parts in others:
        aside.append(parts_of(each.left, parts))
        each.set_aside(aside[-1])
    each.fill(alone)
    for resources in aside:
        each.bring_back(resources)
    if taker not in alone:
        del ready[taker]


def _kept_on(draft: Draft, agent_id: AgentId, asks: Mapping[str, ShareAsk]) -> dict[str, _Kept]:
    """Return what is kept on an agent, by the app that waits for it."""
    given: dict[str, list[tuple[Parts, bool]]] = {}
    had: dict[str, list[Parts]] = {}
    for instance in draft.instances.values():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or task.agent_id != agent_id or not instance.active:
            continue
        taker = task.suspended_for
        if taker is not None and taker in asks and _lately(task, draft.now_s):
            parts = share_scheduling.sharer(instance, task, spec).parts
            given.setdefault(taker, []).append((parts, task.away))
        elif instance.app_id in asks:
            had.setdefault(instance.app_id, []).append(share_scheduling.sharer(instance, task, spec).parts)
    found = {}
    for app_id, each in given.items():
        if draft.waiting.has_app(app_id):
            least_gib, least_slices = max(asks[app_id].mem_gib), asks[app_id].weight
            away = _together([parts for parts, is_away in each if is_away])
            whole = {
                card: (max(gib, least_gib), max(slices, least_slices))
                for card, (gib, slices) in _together([parts for parts, _ in each]).items()
            }
            taken = _together(had.get(app_id, []))
            found[app_id] = _Kept(_less(away, taken), _less(whole, taken))
    return found


def parts_held(draft: Draft) -> dict[AgentId, Parts]:
    """Return what tasks have of shared cards on each agent; not those that are to give it up.

    Pods are left out: of which of its containers a card is, nobody keeps.
    """
    found: dict[AgentId, list[Parts]] = {}
    for instance in draft.instances.values():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or spec.is_pod or not task.cards or not (instance.active and instance.wanted):
            continue
        if not task.suspension and task.id not in draft.kills:
            found.setdefault(task.agent_id, []).append(share_scheduling.sharer(instance, task, spec).parts)
    return {agent_id: _together(each) for agent_id, each in found.items()}


def _lately(task: Task, now_s: float) -> bool:
    return task.suspension == ASKED or (task.suspension == AWAY and now_s < task.suspension_s + suspending.IN_VAIN_S)


def _together(several: Sequence[Parts]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for parts in several:
        for card, (gib, slices) in parts.items():
            before = found.get(card, (0, 0))
            found[card] = before[0] + gib, before[1] + slices
    return found


def _less(parts: Parts, taken: Parts) -> Parts:
    """Return what is left of parts when some of the same cards are taken."""
    found = {}
    for card, (gib, slices) in parts.items():
        taken_gib, taken_slices = taken.get(card, (0, 0))
        found[card] = max(0, gib - taken_gib), max(0, slices - taken_slices)
    return found
