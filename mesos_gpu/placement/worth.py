"""What machines are worth to a mix, for many machines at once.

All arrays have one row for each machine and one column for each typical size; GPUs, CPUs are thousandths, memory MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mesos_gpu.placement.demand import WHOLE, Demand
from mesos_gpu.placement.mix import Typical
from mesos_gpu.placement.policies import Policy, Worth

Floats: TypeAlias = "NDArray[np.float32]"
Ints: TypeAlias = "NDArray[np.int64]"

_NEARLY_GONE = 1 / 300
"""Of all GPUs of the cluster: below this a size is scarce, and no scarcer."""


class Rows(Struct, frozen=True):
    """Machines as arrays: what is free of each. `parts`: for each size what `Appraisal.parts` says of its GPUs."""

    cpus: Floats
    mem: Floats
    free: Floats
    whole: Ints
    model: Ints
    parts: Floats


class Appraisal:
    """What machines are worth to one mix, by one policy. Sizes that take whole GPUs come first."""

    def __init__(self, policy: Policy, typical: Typical, models: Sequence[str], most_cards: int) -> None:
        self.policy = policy
        sizes = sorted(typical.parts, key=lambda size: size.share_milli > 0)
        self._typical = typical
        self._wholes = sum(not size.share_milli for size in sizes)
        self._popular = np.array([typical.parts[size] for size in sizes], np.float32)
        self._cpus = np.array([max(size.cpus_milli, 1) for size in sizes], np.float32)
        self._mem = np.array([max(size.mem_mib, 1) for size in sizes], np.float32)
        self._gpus = np.array([size.gpu_milli for size in sizes], np.float32)
        self._per_cpu, self._per_mem = self._gpus / self._cpus, self._gpus / self._mem
        self._suits = np.array([[not s.models or model in s.models for s in sizes] for model in models], np.float32)
        self._weights: Floats = self._suits * self._popular
        self.by_card = self._card_table([size.share_milli for size in sizes[self._wholes :]])
        self._by_whole = self._whole_table(sizes[: self._wholes], most_cards)

    def _card_table(self, shares: Sequence[int]) -> Floats:
        """Return what one card is worth, by the thousandths that are free of it: one row for each of 0 to 1000."""
        free = np.arange(WHOLE + 1)[:, None]
        asked = np.array(shares, np.int64)[None, :]
        if self.policy.worth is Worth.CAPACITY:
            return (free // asked * asked).astype(np.float32)
        return np.where(free >= asked, free, 0).astype(np.float32)

    def _whole_table(self, sizes: Sequence[Demand], most_cards: int) -> Floats:
        free = np.arange(most_cards + 1)[:, None]
        asked = np.array([size.gpus for size in sizes], np.int64)[None, :]
        if self.policy.worth is Worth.CAPACITY:
            return (free // asked * asked * WHOLE).astype(np.float32)
        return np.where(free >= asked, free * WHOLE, 0).astype(np.float32)

    def parts(self, cards: Ints) -> Floats:
        """Return, for each machine and each size that is a share, the sum over its cards."""
        return np.asarray(self.by_card[cards].sum(axis=1), np.float32)

    def worth(self, rows: Rows) -> Floats:
        """Return what each machine is worth to the mix: thousandths of GPUs, weighted by size."""
        found = np.einsum("ij,ij->i", self._by_size(rows), self._weights[rows.model])
        if self.policy.balance:
            cpus = rows.cpus * np.float32(1 / max(self._typical.cpus_per_gpu, 1e-6))
            mem = rows.mem * np.float32(1 / max(self._typical.mem_per_gpu, 1e-6))
            found += np.float32(self.policy.balance) * np.minimum(rows.free, np.minimum(cpus, mem))
        return np.asarray(found, np.float32)

    def _by_size(self, rows: Rows) -> Floats:
        found = np.empty((len(rows.cpus), len(self._gpus)), np.float32)
        found[:, : self._wholes] = self._by_whole[rows.whole]
        found[:, self._wholes :] = rows.parts
        if self.policy.worth is Worth.CAPACITY:
            np.minimum(found, np.multiply.outer(rows.cpus, self._per_cpu), out=found)
            np.minimum(found, np.multiply.outer(rows.mem, self._per_mem), out=found)
        else:
            found *= rows.cpus[:, None] >= self._cpus
            found *= rows.mem[:, None] >= self._mem
        return found

    def weigh(self, rows: Rows, cards: int) -> None:
        """Set the weights of sizes by how much more of each the machines could take: the scarcer, the heavier.

        `cards`: all GPUs of the cluster. Without machines nothing is scarce. At a free GPU the weights add up to 1 on
        average: sizes that want a model of which none is free weigh nothing anywhere, and do not make the others light
        beside CPUs and memory.
        """
        if not self.policy.scarcity or not cards:
            return
        left = (self._by_size(rows) * self._suits[rows.model]).sum(axis=0, dtype=np.float64) / (cards * WHOLE)
        weights = self._popular / (left + _NEARLY_GONE) ** self.policy.scarcity
        by_model = self._suits * (weights / weights.sum())
        free = np.bincount(rows.model, weights=rows.free, minlength=len(by_model))
        mean = float((by_model.sum(axis=1) * free).sum() / max(float(free.sum()), 1.0))
        self._weights = np.asarray(by_model / mean if mean else by_model, np.float32)
