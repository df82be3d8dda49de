"""Tasks with parts of shared GPUs that are suspended for apps whose `gpuShare` has `highPriority` (docs/do/sharing.md).

Whom it hits is `mesos_gpu.queueing.parts`' decision; how it goes on is suspending.py's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.gpu_shares import rooms_of
from mesos_gpu.marathon.matching.matching import Reason
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.queueing.parts import PartAsk, Room, Sharer, who_is_suspended

FRESH_S = 60.0
"""What was free of an agent's cards so long ago says nothing of them any more."""


def high_share(spec: RunSpec) -> ShareAsk | None:
    """Return the part that an app asks for whose tasks come before others; None where it is no such app."""
    (share,) = spec.shares if len(spec.shares) == 1 else (None,)
    return share if share is not None and share.high_priority and _alone(spec) and not spec.resident else None


def waits_first(spec: RunSpec | None) -> bool:
    """Return whether an app that waits may have others suspended."""
    return spec is not None and high_share(spec) is not None


def is_suspendable(spec: RunSpec) -> bool:
    """Return whether tasks of an app are suspended for others' of high priority: `preemptible` ones with a part."""
    (share,) = spec.shares if len(spec.shares) == 1 else (None,)
    return share is not None and not share.high_priority and _alone(spec) and bool(spec.document.get("preemptible"))


def _alone(spec: RunSpec) -> bool:
    return not spec.is_pod and "gang" not in spec.document


def victims(draft: Draft, spec: RunSpec, ask: ShareAsk, again_s: float) -> tuple[str, ...]:
    """Return the instances that are to be suspended for an app that waits.

    None of those that were `again_s` ago suspended in vain, or could not be.
    """
    entry = draft.queue.get(spec.id)
    if entry is None:
        return ()
    sharers = list(_sharers(draft, again_s))
    rooms: dict[str, Room] = {}
    for agent, unused in entry.last_offers.items():
        if set(unused.reasons) != {Reason.INSUFFICIENT_GPUS} or draft.now_s > unused.at_s + FRESH_S:
            continue
        try:
            offer = Offer.from_json(unused.offer)
        except (BadResources, KeyError):
            continue
        rooms[str(agent)] = rooms_of(ask, offer.resources, offer.attributes)
    return who_is_suspended(PartAsk(ask.mem_gib, ask.weight), rooms, sharers)


def _sharers(draft: Draft, again_s: float) -> Iterable[Sharer]:
    for instance in draft.instances.values():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or instance.phase is not Phase.RUNNING or not instance.wanted:
            continue
        free = not task.suspension and task.id not in draft.kills
        rested = not task.suspension_s or draft.now_s >= task.suspension_s + again_s
        if free and rested and task.cards and is_suspendable(spec):
            yield _sharer(instance, task, spec)


def _sharer(instance: Instance, task: Task, spec: RunSpec) -> Sharer:
    (share,) = spec.shares
    amounts = sorted(share.mem_gib, reverse=True) if share is not None else []
    weight = 0 if share is None else share.weight
    parts = {card: (amount, weight) for card, amount in zip(task.cards, amounts, strict=False)}
    return Sharer(instance.id, str(task.agent_id), parts, task.started_at_s or task.staged_at_s)


def cards_after(task: Task, message: str) -> tuple[int, ...]:
    """Return the cards of a task whose agent said `resumed on GPU 1 (GPU-...)`: one may have become another."""
    named = tuple(int(index) for index in re.findall(r"(?:GPU|,) (\d+) \(", message))
    return named if len(task.cards) == len(named) == 1 else task.cards
