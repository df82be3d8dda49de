"""What nobody holds on an agent and is somebody's all the same: a suspended task is not resumed on that. Pure.

What a suspended task gave back is offered; who it is offered to may reserve it, or launch on it. A master that gives
the task its own again would then count more as taken than there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.displaced import numbers_of
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, PER_CARD


class SpokenFor(Struct, frozen=True):
    """Whole GPUs, and by the index of a shared card its GiB and slices."""

    gpus: int = 0
    units: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def spoken_for(
    owners: Iterable[Task | Executor],
    kept: Resources,
    *,
    promised: int,
    sharers: Collection[ContainerId],
) -> SpokenFor:
    """Return what is reserved (`kept`) and no task has, and what was promised to tasks that are starting.

    `promised`: this number of GPUs (see the ledger); `sharers`: the containers that have, or released, a GPU share.
    """
    live = [one for one in owners if not (isinstance(one, Task) and one.phase is Phase.OVER)]
    has = _had_by(live)
    starting = _had_by([one for one in live if one.container_id not in sharers])
    gpus = promised + max(0, kept.gpus - has.kept().gpus)
    memory, slices = (
        (numbers_of(kept, name) - numbers_of(has, name)) | numbers_of(starting, name) for name in (GPU_MEM, GPU_SLICES)
    )
    cards = {number // PER_CARD for number in memory | slices}
    return SpokenFor(gpus, {card: (_on(card, memory), _on(card, slices)) for card in sorted(cards)})


def _on(card: int, numbers: Iterable[int]) -> int:
    return sum(number // PER_CARD == card for number in numbers)


def _had_by(owners: Iterable[Task | Executor]) -> Resources:
    return Resources(Resource.from_json(document) for one in owners for document in one.info.get("resources", []))
