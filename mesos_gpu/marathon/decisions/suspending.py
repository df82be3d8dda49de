"""Tasks whose GPUs are put away for an app of higher priority, and that have them again when it needs them no more.

Only what says so: `preemptible` apps with whole GPUs and the label GPU_PREEMPTION=suspend, which else are ended
(docs/do/gangs.md), and `preemptible` apps with parts of shared GPUs, for those whose `gpuShare` has `highPriority`
(docs/do/sharing.md), which are never ended for that. What is to give way is `mesos_gpu.queueing`'s decision. The agent
does it, and its word counts: a GPU is another's when the agent offers it, and the task's again when the agent says that
it has it. What somebody does by hand at the agent is known by that word, too, and is left to him.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.decisions import lifecycle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching import share_scheduling
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model import asking
from mesos_gpu.marathon.model.instances import ASKED, AWAY, COMING, Instance, Phase, Refusal, Task
from mesos_gpu.marathon.state.actions import Publish, Say, Tell
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.state import Books
from mesos_gpu.mesos.shares.suspending import (
    AT_WORK,
    NOT_RESUMED,
    NOT_SUSPENDED,
    RESUME,
    RESUMED,
    SUSPEND,
    SUSPENDED,
    data_of,
)
from mesos_gpu.placement.demand import Demand
from mesos_gpu.queueing.parts import Sharer

LABEL, WAY = "GPU_PREEMPTION", "suspend"

IN_VAIN_S = 60.0
"""For so long a task stays suspended for an app that does not start; then it is ended for it, processors and all."""
OFFERED_S = 5.0
"""So long after a part was put away it may take to be offered and used."""
FRESH_S = 60.0
"""What was free of an agent's cards so long ago says nothing of them any more."""
LOOK_S = 2.0
"""How often it is looked whether what was put away may come back."""


def gives_gpus(spec: RunSpec) -> bool:
    """Return whether tasks of an app give way by having their whole GPUs put away."""
    document = spec.document
    alone = spec.gpus > 0 and "gang" not in document and "containers" not in document
    return alone and bool(document.get("preemptible")) and document["labels"].get(LABEL) == WAY


def for_high_shares(draft: Draft) -> None:
    """Have parts of shared GPUs put away for apps of high priority that wait for such parts."""
    for app_id in draft.singular_apps() if draft.subscribed else ():
        ask = share_scheduling.high_share(draft.app(app_id))
        if ask is None or _comes(draft, app_id):
            continue
        entry = draft.queue.get(app_id)
        if entry is None or draft.now_s < entry.since_s + OFFERED_S:
            continue  # another machine with room may be offered yet
        for name in share_scheduling.victims(ask, _lacking_parts(draft, entry), list(_sharers(draft))):
            instance = draft.instances[name]
            if instance.task is not None:
                suspend(draft, instance, instance.task, app_id)


def _lacking_parts(draft: Draft, entry: QueueEntry) -> Iterator[Offer]:
    """Yield the last offers that would do for what waits, but for their cards."""
    for unused in entry.last_offers.values():
        if set(unused.reasons) == {Reason.INSUFFICIENT_GPUS} and draft.now_s <= unused.at_s + FRESH_S:
            try:
                yield Offer.from_json(unused.offer)
            except (BadResources, KeyError):
                continue


def _sharers(draft: Draft) -> Iterator[Sharer]:
    """Yield the tasks that may be suspended; not those of which that was in vain, or refused, a moment ago."""
    for instance in draft.instances.values():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or instance.phase is not Phase.RUNNING or not instance.wanted:
            continue
        silent = task.refusal is not None and task.refusal.silent
        rest_s = asking.SILENT_S if silent else IN_VAIN_S
        rested = not task.suspension_s or draft.now_s >= task.suspension_s + rest_s
        free = not task.suspension and task.id not in draft.kills
        if rested and free and task.cards and share_scheduling.gives_part(spec):
            yield share_scheduling.sharer(instance, task, spec)


def _comes(draft: Draft, taker: str) -> bool:
    """Return whether something was put away for an app a moment ago, or is about to be."""
    tasks = [one.task for one in draft.instances.values() if one.task is not None and one.task.suspended_for == taker]
    return any(task.suspension == ASKED or draft.now_s < task.suspension_s + OFFERED_S for task in tasks)


def given_back(task: Task, needed: Demand) -> Demand:
    """Return what a task gives back when it ends: of one that is suspended no GPUs, for those are back already."""
    return dataclasses.replace(needed, gpus=0) if task.away else needed


def suspend(draft: Draft, instance: Instance, task: Task, taker: str) -> None:
    """Have the GPUs of a task put away for an app. That it is suspended is told when its agent says so."""
    draft.actions.append(Say(f"{task.id} is to have its GPUs put away for {taker}"))
    _ask(draft, instance, replace(task, suspended_for=taker, refusal=None), ASKED)


def heard(draft: Draft, instance: Instance, message: str) -> None:
    """Take an agent's word about a task that is being suspended or resumed; other messages say nothing of it."""
    task = instance.task
    if task is None:
        return
    if message.startswith(SUSPENDED):
        _suspended(draft, instance, task)
    elif message.startswith(NOT_SUSPENDED) and (task.suspension == ASKED or _is_silent(task)):
        _not_suspended(draft, instance, task, message.removeprefix(NOT_SUSPENDED))
    elif message.startswith(RESUMED) and task.suspension:
        _publish(draft, "instance_resumed_event", instance, task)
        cards = share_scheduling.cards_after(task, message)
        whole = share_scheduling.whole_after(task, message)
        back = replace(task, suspended_for=None, cards=cards, whole_cards=whole, refusal=None)
        _put(draft, instance, back, "")
    elif message.startswith(NOT_RESUMED) and task.away:
        _put(draft, instance, _not_resumed(draft, instance, task, message.removeprefix(NOT_RESUMED)), AWAY)
    elif message.startswith(AT_WORK) and task.suspension in (ASKED, COMING):
        _put(draft, instance, task, task.suspension, asks=1)


def asked_anew(draft: Draft, instance: Instance) -> None:
    """Ask anew what was asked of an agent that was away, or of a master: neither was silent."""
    task = instance.task
    if task is not None and task.suspension in (ASKED, COMING):
        _ask(draft, instance, replace(task, asks=0), task.suspension)


def _suspended(draft: Draft, instance: Instance, task: Task) -> None:
    """Take note that GPUs are put away: for who asked for that here, or by hand. An agent may say so again."""
    after = task if task.suspension else replace(task, suspended_for=_late_for(draft, task))
    if not task.away:
        _publish(draft, "instance_suspended_event", instance, after)
    _put(draft, instance, replace(after, refusal=None), AWAY)
    draft.revive_due = True


def _is_silent(task: Task) -> bool:
    """Return whether a suspension was given up as the agent said nothing: its word may come yet."""
    return not task.suspension and task.refusal is not None and task.refusal.silent


def _late_for(draft: Draft, task: Task) -> str | None:
    """Return for whom a task was suspended that was not asked to be any more; None for one suspended by hand."""
    no = task.refusal
    if no is None or no.what != "suspend":
        return None
    return no.asked_for if no.silent or draft.now_s < no.at_s + asking.LATE_S else None


def _not_suspended(draft: Draft, instance: Instance, task: Task, reason: str, *, silent: bool = False) -> None:
    """End a task whose whole GPUs cannot be put away for the one that still waits for them; all others run on."""
    if task.refusal is not None and not task.suspension:
        task = replace(task, suspended_for=task.refusal.asked_for)
    _publish(draft, "instance_not_suspended_event", instance, task, reason=reason)
    if _has_whole(draft, instance) and _waits(draft, task.suspended_for):
        _end(draft, instance, task, f"it could not be suspended: {reason}")
        return
    draft.actions.append(Say(f"{task.id} keeps what it has of GPUs: it could not be suspended: {reason}"))
    refusal = Refusal("suspend", reason, draft.now_s, task.suspended_for, silent)
    _put(draft, instance, replace(task, suspended_for=None, refusal=refusal), "")


def _not_resumed(draft: Draft, instance: Instance, task: Task, reason: str, *, silent: bool = False) -> Task:
    """Return a task that stays suspended. It is asked for again and again, and told once for each reason."""
    no = task.refusal
    if no is not None and (no.silent if silent else no.reason == reason):
        return task
    _publish(draft, "instance_not_resumed_event", instance, task, reason=reason)
    return replace(task, refusal=Refusal("resume", reason, draft.now_s, task.suspended_for, silent))


def _publish(draft: Draft, kind: str, instance: Instance, task: Task, **more: Any) -> None:
    spec = draft.spec_of(instance)
    fields: dict[str, Any] = {
        "appId": instance.app_id,
        "taskId": task.id,
        "instanceId": instance.id,
        "slaveId": task.agent_id,
        "host": task.host,
        "gpus": 0 if spec is None else spec.gpus,
    }
    if task.suspended_for is not None:
        fields["takenBy"] = task.suspended_for
    draft.actions.append(Publish(kind, fields | more))


def watch(draft: Draft) -> None:
    """Ask again what was not answered, and for GPUs of those whose taker needs them no more."""
    for instance in list(draft.instances.values()):
        task = instance.task
        if task is None or not task.suspension or instance.phase is not Phase.RUNNING or not draft.subscribed:
            continue
        if task.away_by_hand:
            continue
        if task.suspension == AWAY:
            _look(draft, instance, task)
        elif draft.now_s >= task.suspension_s + asking.patience_s(task.asks):
            _unanswered(draft, instance, task)
    for_high_shares(draft)


def _unanswered(draft: Draft, instance: Instance, task: Task) -> None:
    """Ask again, or give a suspension up whose agent does not answer; that it does not is told once."""
    reason = asking.silence(task.asks)
    if asking.is_over(task.suspension, task.asks):
        _not_suspended(draft, instance, task, reason, silent=True)
        return
    if task.suspension == COMING and task.asks >= asking.MOST:
        task = _not_resumed(draft, instance, task, reason, silent=True)
    _ask(draft, instance, task, task.suspension)


def matters(state: Books) -> bool:
    """Return whether time matters to what is, or may be, suspended for something that waits."""
    asked = any(one.task is not None and one.task.suspension for one in state.instances.values())
    return asked or any(share_scheduling.high_share(state.app(app_id)) for app_id in state.singular)


def due_s(task: Task, now_s: float) -> float:
    """Return when a suspended task is looked at next."""
    if task.suspension != AWAY:
        return task.suspension_s + asking.patience_s(task.asks)
    return task.suspension_s + LOOK_S * (1 + max(0.0, now_s - task.suspension_s) // LOOK_S)


def _look(draft: Draft, instance: Instance, task: Task) -> None:
    """Have GPUs back that nobody needs any more; where they alone did not help, the task ends for the other.

    One with a part of a GPU has it back then.
    """
    takers = [one for one in draft.instances.values() if one.app_id == task.suspended_for]
    if any(one.active and one.task is not None and one.task.agent_id == task.agent_id for one in takers):
        return
    if not _waits(draft, task.suspended_for):
        if draft.now_s >= task.suspension_s + LOOK_S:
            _ask(draft, instance, task, COMING)
    elif draft.now_s >= task.suspension_s + IN_VAIN_S:
        if _has_whole(draft, instance):
            _end(draft, instance, task, "its GPUs alone did not let that start")
        else:
            _ask(draft, instance, task, COMING)


def _waits(draft: Draft, app_id: str | None) -> bool:
    return draft.app(str(app_id)) is not None and any(
        one.app_id == app_id and not one.active and one.wanted for one in draft.instances.values()
    )


def _has_whole(draft: Draft, instance: Instance) -> bool:
    spec = draft.spec_of(instance)
    return spec is not None and spec.gpus > 0


def _end(draft: Draft, instance: Instance, task: Task, because: str) -> None:
    """End a task for the app that it was to give its GPUs to, with notice; it will wait again."""
    taker, ended = str(task.suspended_for), replace(task, suspension="", suspended_for=None, refusal=None)
    lifecycle.end_for(draft, replace(instance, task=ended), ended, taker, because)


def _ask(draft: Draft, instance: Instance, task: Task, suspension: str) -> None:
    asks = task.asks + 1 if task.suspension == suspension else 1
    _put(draft, instance, task, suspension, asks=asks)
    draft.actions.append(Tell(task.id, task.agent_id, data_of(SUSPEND if suspension == ASKED else RESUME)))


def _put(draft: Draft, instance: Instance, task: Task, suspension: str, *, asks: int = 0) -> None:
    after = replace(task, suspension=suspension, suspension_s=draft.now_s, asks=asks)
    draft.put_instance(replace(instance, task=after))
