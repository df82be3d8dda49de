"""Fragmentation as numbers to be watched: free GPUs, and those of them that nothing could use, by cause. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.why.fragments import CAUSES, fragments, sizes_of
from mesos_gpu.marathon.why.remainders import CARDS, parts_of, remainders


def figures(
    machines: Sequence[Machine], specs: Sequence[RunSpec], jobs: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return gauges by name, as Marathon's are named. A GPU that lacks several things counts for the first of them."""
    found = fragments(machines, sizes_of(specs, jobs))
    cards = remainders(machines, parts_of(specs))
    by_cause = dict.fromkeys(CAUSES, 0)
    for one in found:
        if one.causes:
            by_cause[one.causes[0]] += one.stranded
    return {
        "gpus.free.gauge": sum(one.free for one in found),
        "gpus.unusable.gauge": sum(one.stranded for one in found),
        **{f"gpus.unusable.{_NAMES[cause]}.gauge": count for cause, count in by_cause.items()},
        "gpu-cards.free.gauge.gibibytes": sum(one.free_gib for one in cards),
        "gpu-cards.unusable.gauge.gibibytes": sum(one.stranded_gib for one in cards),
        "gpu-cards.unusable.remainders.gauge.gibibytes": sum(one.stranded_gib for one in cards if CARDS in one.causes),
    }


_NAMES = {"gpus": "too-few", "cpus": "cpus", "mem": "mem"}
