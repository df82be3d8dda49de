"""The mix of what is asked for: what came so far, of late more than long ago."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from mesos_gpu.placement.demand import Demand

COVERED = 0.95
"""Sizes are typical that together make up so much of what came; the rare rest would cost time and say little."""
MOST_TYPES = 192
FORGET_AT = 16384
"""When so many came, what came before counts half from then on: a mix that changes is followed."""


class Typical(Struct, frozen=True):
    """Sizes that are asked for, and each one's part of all that ask for GPUs; the parts add up to 1."""

    parts: Mapping[Demand, float]
    cpus_per_gpu: float
    """Thousandths of a CPU for each thousandth of a GPU, over all that ask for GPUs."""
    mem_per_gpu: float
    """MiB for each thousandth of a GPU."""


class Mix:
    """Counts what comes."""

    def __init__(self) -> None:
        self._counts: Counter[Demand] = Counter()
        self._seen = 0
        self._since = 0

    def saw(self, demand: Demand, times: int = 1) -> None:
        """Count what asks, so many of one size. What asks for no GPU is not part of the mix: none is kept for it."""
        if not demand.gpu_milli or not times:
            return
        self._counts[demand] += times
        self._seen += times
        self._since += times
        if self._seen >= FORGET_AT:
            self._counts = Counter({known: (count + 1) // 2 for known, count in self._counts.items()})
            self._seen = self._counts.total()

    @property
    def due(self) -> bool:
        """Return whether so much came since `typical` was last asked for that the answer may differ."""
        return self._since > min(self._seen * 0.3, 1024.0)

    def typical(self) -> Typical:
        """Return the sizes that make up most of what came, the most frequent first."""
        self._since = 0
        chosen: dict[Demand, int] = {}
        covered = 0
        for demand, count in sorted(self._counts.items(), key=lambda item: -item[1]):
            chosen[demand] = count
            covered += count
            if covered >= COVERED * self._seen or len(chosen) == MOST_TYPES:
                break
        gpu_milli = sum(demand.gpu_milli * count for demand, count in self._counts.items()) or 1
        return Typical(
            {demand: count / covered for demand, count in chosen.items()},
            sum(demand.cpus_milli * count for demand, count in self._counts.items()) / gpu_milli,
            sum(demand.mem_mib * count for demand, count in self._counts.items()) / gpu_milli,
        )
