"""Shares of GPUs for apps that wait: where there are any, and who is suspended for a share of high priority. Pure.

The order of the queue counts processors, memory and whole GPUs. It does not know that the end of a task gives shares
back, so an app that requests one is promised only machines that have it now. Who is suspended for an app whose
`gpuShare` has `highPriority` (docs/do/sharing.md) is decided by `mesos_gpu.queueing.parts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.gpu_shares import rooms_of, take_shares, usable_cards
from mesos_gpu.marathon.matching.matching import Pool
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES
from mesos_gpu.queueing.parts import PartAsk, Room, Sharer, fits, who_is_suspended

Attributes = Sequence[tuple[str, str]]


def high_share(spec: RunSpec | None) -> ShareAsk | None:
    """Return the part that an app asks for whose tasks come before others; None where it is no such app."""
    share = None if spec is None or spec.resident else _share(spec)
    return share if share is not None and share.high_priority else None


def gives_part(spec: RunSpec) -> bool:
    """Return whether tasks of an app are suspended for others' of high priority: `preemptible` ones with a part."""
    share = _share(spec)
    return share is not None and not share.high_priority and bool(spec.document.get("preemptible"))


def _share(spec: RunSpec) -> ShareAsk | None:
    return None if spec.is_pod or "gang" in spec.document else spec.shares[0]


def victims(ask: ShareAsk, offers: Iterable[Offer], sharers: Sequence[Sharer]) -> tuple[str, ...]:
    """Return the instances that are to be suspended for an app; `offers` would do but for what is free of cards."""
    rooms = {str(offer.agent_id): rooms_of(ask, offer.resources, offer.attributes) for offer in offers}
    return who_is_suspended(PartAsk(ask.mem_gib, ask.weight), rooms, sharers)


def sharer(instance: Instance, task: Task, spec: RunSpec) -> Sharer:
    """Return a task with parts of cards as one that may be suspended."""
    share = spec.shares[0]
    amounts = sorted(share.mem_gib, reverse=True) if share is not None else []
    weight = 0 if share is None else share.weight
    parts = {card: (amount, weight) for card, amount in zip(task.cards, amounts, strict=False)}
    return Sharer(instance.id, str(task.agent_id), parts, task.started_at_s or task.staged_at_s)


def cards_after(task: Task, message: str) -> tuple[int, ...]:
    """Return the cards of a task whose agent said `resumed on GPU 1 (GPU-...)`: one may have become another."""
    named = _named(message)
    return named if len(task.cards) == len(named) == 1 else task.cards


def whole_after(task: Task, message: str) -> tuple[int, ...]:
    """Return the whole GPUs of a task whose agent said on which it was resumed."""
    named = _named(message)
    return named if len(task.whole_cards) == len(named) else task.whole_cards


def _named(message: str) -> tuple[int, ...]:
    return tuple(int(index) for index in re.findall(r"(?:GPU|,) (\d+) \(", message))


def has_shares(spec: RunSpec, pool: Pool, attributes: Attributes, members: int = 1) -> bool:
    """Return whether what may be taken of an offer has the parts that so many instances ask for; of none, it has."""
    return take_shares(spec.shares * members, pool.resources, pool.roles, attributes) is not None


def may_have_shares(spec: RunSpec, attributes: Attributes, taken: Room) -> bool:
    """Return whether an agent of which nothing is offered may have the parts that an instance asks for.

    `attributes` name its shared cards, `taken` is what tasks of ours have of them. What others have is not known.
    """
    return all(_may_have(ask, attributes, taken) for ask in spec.shares if ask is not None)


def _may_have(ask: ShareAsk, attributes: Attributes, taken: Room) -> bool:
    room = {}
    for card, label in usable_cards(ask, attributes).items():
        gib, slices = taken.get(card, (0, 0))
        room[card] = label.mem_units - gib, MOST_SLICES - slices
    return fits(PartAsk(ask.mem_gib, ask.weight), room)
