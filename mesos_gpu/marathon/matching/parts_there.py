"""Where an app that waits in order finds the parts of shared GPUs that it asks for.

The order of the queue counts processors, memory and whole GPUs. That the end of a task gives parts back it does not
know; so one that asks for parts is promised only what has them now, or it would be waited for in vain. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.gpu_shares import take_shares, usable_cards
from mesos_gpu.marathon.matching.matching import Pool
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES
from mesos_gpu.queueing.parts import PartAsk, Room, fits

Attributes = Sequence[tuple[str, str]]


def offered(spec: RunSpec, pool: Pool, attributes: Attributes, members: int = 1) -> bool:
    """Return whether what may be taken of an offer has the parts that so many instances ask for; of none, it has."""
    return take_shares(spec.shares * members, pool.resources, pool.roles, attributes) is not None


def not_offered(spec: RunSpec, attributes: Attributes, taken: Room) -> bool:
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
