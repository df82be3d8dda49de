"""Which free GPUs to give together: the best connected ones, and those that leave the rest whole. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mesos_gpu.gpu.device import Gpu, Topology
from mesos_gpu.placement.card_sets import Tie, best_set

MOST_LOOKED_AT = 64
"""Of more free GPUs than this a single one is the lowest: no machine has as many, but simulated ones may."""


def best(free: Collection[Gpu], count: int, topology: Topology) -> frozenset[Gpu]:
    """Return the `count` GPUs of `free` to give, by the rule of `placement.card_sets.best_set` over their links.

    Between equals the lowest GPUs in Mesos' order win, so the answer does not depend on chance.
    Raises ValueError when `count` is negative or more than are free.
    """
    if not 0 <= count <= len(free):
        raise ValueError(f"{count} of {len(free)} GPUs cannot be chosen")
    ordered = sorted(free)
    if count in (0, len(ordered)) or (count == 1 and len(ordered) > MOST_LOOKED_AT):
        return frozenset(ordered[:count])
    return frozenset(ordered[position] for position in best_set(_ties(ordered, topology), count))


def _ties(ordered: Sequence[Gpu], topology: Topology) -> list[list[Tie]]:
    ties: list[list[Tie]] = [[(0, 0)] * len(ordered) for _ in ordered]
    for place, one in enumerate(ordered):
        for further, other in enumerate(ordered[:place]):
            link = topology.between(one, other)
            ties[place][further] = ties[further][place] = (link.nvlinks, -link.level)
    return ties


def linked_sets(gpus: Collection[Gpu], topology: Topology) -> tuple[frozenset[int], ...]:
    """Return the sets of whole GPUs, by index, in which every two share NVLink, and to which no more can be added.

    A GPU alone is no set, and MIG instances share none.
    """
    whole = {gpu.index: gpu for gpu in gpus if gpu.mig is None}
    joined = {
        index: {other for other, there in whole.items() if other != index and topology.between(gpu, there).nvlinks}
        for index, gpu in whole.items()
    }
    return tuple(found for found in _grown(joined, frozenset(), set(joined), set()) if len(found) > 1)


def _grown(
    joined: dict[int, set[int]], chosen: frozenset[int], may: set[int], seen: set[int]
) -> Iterator[frozenset[int]]:
    """Yield the largest sets with `chosen` and some that `may` come, without those `seen`.

    Source: Bron and Kerbosch, "Finding all cliques of an undirected graph", CACM 1973, with a pivot.
    """
    if not may and not seen:
        yield chosen
        return
    pivot = max(may | seen, key=lambda index: (len(joined[index] & may), -index))
    for index in sorted(may - joined[pivot]):
        yield from _grown(joined, chosen | {index}, may & joined[index], seen & joined[index])
        may = may - {index}
        seen = seen | {index}
