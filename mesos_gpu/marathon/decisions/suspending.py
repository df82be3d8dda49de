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
from mesos_gpu.marathon.matching import parts_first
from mesos_gpu.marathon.matching.matching import Reason
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import ASKED, AWAY, COMING, Instance, Phase, Task
from mesos_gpu.marathon.state.actions import Publish, Say, Tell
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, NOT_SUSPENDED, RESUME, RESUMED, SUSPEND, SUSPENDED, data_of
from mesos_gpu.placement.demand import Demand
from mesos_gpu.queueing.parts import Sharer

LABEL, WAY = "GPU_PREEMPTION", "suspend"

AGAIN_S = 15.0
"""A message may get lost: so long an answer is waited for. It copies what is on the GPUs to the machine's memory."""
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
        ask = parts_first.high_share(draft.app(app_id))
        if ask is None or _comes(draft, app_id):
            continue
        entry = draft.queue.get(app_id)
        if entry is None or draft.now_s < entry.since_s + OFFERED_S:
            continue  # another machine with room may be offered yet
        for name in parts_first.victims(ask, _lacking_parts(draft, entry), list(_sharers(draft))):
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
        rested = not task.suspension_s or draft.now_s >= task.suspension_s + IN_VAIN_S
        free = not task.suspension and task.id not in draft.kills
        if rested and free and task.cards and parts_first.gives_part(spec):
            yield parts_first.sharer(instance, task, spec)


def _comes(draft: Draft, taker: str) -> bool:
    """Return whether something was put away for an app a moment ago, or is about to be."""
    tasks = [one.task for one in draft.instances.values() if one.task is not None and one.task.suspended_for == taker]
    return any(task.suspension == ASKED or draft.now_s < task.suspension_s + OFFERED_S for task in tasks)


def given_back(task: Task, needed: Demand) -> Demand:
    """Return what a task gives back when it ends: of one that is suspended no GPUs, for those are back already."""
    return dataclasses.replace(needed, gpus=0) if task.away else needed


def suspend(draft: Draft, instance: Instance, task: Task, taker: str) -> None:
    """Have the GPUs of a task put away for an app."""
    _publish(draft, instance, task, takenBy=taker)
    draft.actions.append(Say(f"{task.id} has its GPUs put away for {taker}"))
    _ask(draft, instance, replace(task, suspended_for=taker), ASKED)


def _publish(draft: Draft, instance: Instance, task: Task, **more: Any) -> None:
    spec = draft.spec_of(instance)
    fields: dict[str, Any] = {"appId": instance.app_id, "taskId": task.id, "slaveId": task.agent_id, "host": task.host}
    draft.actions.append(
        Publish("instance_suspended_event", fields | {"gpus": 0 if spec is None else spec.gpus} | more)
    )


def heard(draft: Draft, instance: Instance, message: str) -> None:
    """Take an agent's word about a task that is being suspended or resumed; other messages say nothing of it."""
    task = instance.task
    if task is None:
        return
    if not task.suspension:
        if message.startswith(SUSPENDED):
            _publish(draft, instance, task)
            _put(draft, instance, replace(task, suspended_for=None), AWAY)
            draft.revive_due = True
        return
    if message.startswith(NOT_SUSPENDED) and task.suspension == ASKED:
        if _has_whole(draft, instance):
            _end(draft, instance, task, message)
        else:
            draft.actions.append(Say(f"{task.id} keeps its part: {message}"))
            _put(draft, instance, replace(task, suspended_for=None), "")
    elif message.startswith(SUSPENDED):
        _put(draft, instance, task, AWAY)
        draft.revive_due = True
    elif message.startswith(NOT_RESUMED):
        _put(draft, instance, task, AWAY)
    elif message.startswith(RESUMED):
        fields = {"appId": instance.app_id, "taskId": task.id, "slaveId": task.agent_id, "host": task.host}
        draft.actions.append(Publish("instance_resumed_event", fields))
        cards = parts_first.cards_after(task, message)
        whole = parts_first.whole_after(task, message)
        _put(draft, instance, replace(task, suspended_for=None, cards=cards, whole_cards=whole), "")


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
        elif draft.now_s >= task.suspension_s + AGAIN_S:
            _ask(draft, instance, task, task.suspension)
    for_high_shares(draft)


def due_s(task: Task, now_s: float) -> float:
    """Return when a suspended task is looked at next."""
    if task.suspension != AWAY:
        return task.suspension_s + AGAIN_S
    return task.suspension_s + LOOK_S * (1 + max(0.0, now_s - task.suspension_s) // LOOK_S)


def _look(draft: Draft, instance: Instance, task: Task) -> None:
    """Have GPUs back that nobody needs any more; where they alone did not help, the task ends for the other.

    One with a part of a GPU has it back then.
    """
    takers = [one for one in draft.instances.values() if one.app_id == task.suspended_for]
    if any(one.active and one.task is not None and one.task.agent_id == task.agent_id for one in takers):
        return
    if not any(not one.active and one.wanted for one in takers):
        if draft.now_s >= task.suspension_s + LOOK_S:
            _ask(draft, instance, task, COMING)
    elif draft.now_s >= task.suspension_s + IN_VAIN_S:
        if _has_whole(draft, instance):
            _end(draft, instance, task, "its GPUs alone did not let it start")
        else:
            _ask(draft, instance, task, COMING)


def _has_whole(draft: Draft, instance: Instance) -> bool:
    spec = draft.spec_of(instance)
    return spec is None or spec.gpus > 0


def _end(draft: Draft, instance: Instance, task: Task, why: str) -> None:
    """End a task for the app that it was to give its GPUs to, with notice; it will wait again."""
    draft.actions.append(Say(f"{task.id} is ended for {task.suspended_for}: {why}"))
    ended = replace(task, suspension="", gives_way_to=task.suspended_for, suspended_for=None)
    draft.put_instance(replace(instance, task=ended))
    lifecycle.end(draft, ended)


def _ask(draft: Draft, instance: Instance, task: Task, suspension: str) -> None:
    _put(draft, instance, task, suspension)
    draft.actions.append(Tell(task.id, task.agent_id, data_of(SUSPEND if suspension == ASKED else RESUME)))


def _put(draft: Draft, instance: Instance, task: Task, suspension: str) -> None:
    draft.put_instance(replace(instance, task=replace(task, suspension=suspension, suspension_s=draft.now_s)))
