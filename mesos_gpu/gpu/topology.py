"""Which free GPUs to give together: the best connected ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import comb

from mesos_gpu.gpu.device import Gpu, Topology

MOST_SETS = 2000
"""Where there are more sets than this, GPUs are added one by one, which may miss the best set. Any choice among 13
free GPUs is below it, and up to 4 among 16: a choice takes milliseconds at most."""

MOST_STEPS = 100_000
"""Bounds adding one by one: the number of GPUs to start from is cut so that there are about as many comparisons."""

_Tie = tuple[int, int]
"""How well two GPUs are connected: NVLinks, then nearness over PCIe; more is better."""

_Score = tuple[_Tie, int, int]
"""How well a set is connected: its weakest pair, NVLinks in all, nearness in all."""

_NO_PAIR: _Score = ((1 << 30, 0), 0, 0)


def best(free: Collection[Gpu], count: int, topology: Topology) -> frozenset[Gpu]:
    """Return the `count` GPUs of `free` that are best connected with each other.

    A set is as fast as its weakest pair, so that is compared first: by its NVLinks, then by where its PCIe ways meet
    (one switch before several, host bridge, NUMA node, system). Then all NVLinks of the set count, then how near all
    its pairs are. Between equals the lowest GPUs in Mesos' order win, so the answer does not depend on chance.
    Exact while there are at most MOST_SETS sets. Raises ValueError when `count` is negative or more than are free.
    """
    if not 0 <= count <= len(free):
        raise ValueError(f"{count} of {len(free)} GPUs cannot be chosen")
    ordered = sorted(free)
    if count in (0, 1, len(ordered)):
        return frozenset(ordered[:count])
    ties = _ties(ordered, topology)
    chosen = _exact(ties, count) if comb(len(ordered), count) <= MOST_SETS else _one_by_one(ties, count)
    return frozenset(ordered[position] for position in chosen)


_Ties = Sequence[Sequence[_Tie]]
"""By two positions in the ordered list."""


def _ties(ordered: Sequence[Gpu], topology: Topology) -> _Ties:
    return [[_tie(topology, one, other) for other in ordered] for one in ordered]


def _tie(topology: Topology, one: Gpu, other: Gpu) -> _Tie:
    link = topology.between(one, other)
    return link.nvlinks, -link.level


def _joined(score: _Score, ties: Sequence[_Tie], chosen: Sequence[int]) -> _Score:
    """Return the score of `chosen`, which has `score`, with one more GPU, whose ties are `ties`."""
    weakest, nvlinks, nearness = score
    for position in chosen:
        tie = ties[position]
        weakest = min(weakest, tie)
        nvlinks += tie[0]
        nearness += tie[1]
    return weakest, nvlinks, nearness


def _score(ties: _Ties, chosen: Sequence[int]) -> _Score:
    score = _NO_PAIR
    for place, position in enumerate(chosen):
        score = _joined(score, ties[position], chosen[:place])
    return score


def _exact(ties: _Ties, count: int) -> Sequence[int]:
    # Sets come lowest first, and max keeps the first of equals.
    return max(combinations(range(len(ties)), count), key=lambda chosen: _score(ties, chosen))


def _one_by_one(ties: _Ties, count: int) -> Sequence[int]:
    size = len(ties)
    starts = range(min(size, max(1, MOST_STEPS // (size * count))))
    return min((_grown(ties, start, count) for start in starts), key=lambda grown: (_worse(grown[0]), grown[1]))[1]


def _worse(score: _Score) -> tuple[int, ...]:
    """Return a key by which the better score comes first."""
    (nvlinks, nearness), all_nvlinks, all_nearness = score
    return -nvlinks, -nearness, -all_nvlinks, -all_nearness


def _grown(ties: _Ties, start: int, count: int) -> tuple[_Score, Sequence[int]]:
    """Return the set that comes of adding to `start`, again and again, the GPU that leaves the set best connected."""
    score, chosen = _NO_PAIR, [start]
    # What the set would be with each of the others: kept as it grows, so that a step looks at each of them once.
    outside = {
        position: _joined(_NO_PAIR, ties[position], chosen) for position in range(len(ties)) if position != start
    }
    while len(chosen) < count:
        added = max(outside, key=lambda position: (outside[position], -position))
        before, score = score, outside.pop(added)
        chosen.append(added)
        outside = {
            position: _with(score, before, reached, ties[position][added]) for position, reached in outside.items()
        }
    return score, sorted(chosen)


def _with(score: _Score, before: _Score, reached: _Score, tie: _Tie) -> _Score:
    """Return what a GPU would make of the set that has now `score` and had `before`; with the latter it `reached`."""
    weakest = min(score[0], reached[0], tie)
    return weakest, score[1] + reached[1] - before[1] + tie[0], score[2] + reached[2] - before[2] + tie[1]
