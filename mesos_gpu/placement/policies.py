"""The table of policies: how each one ranks the machines that a task fits. docs/do/placement.md says it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Rank(Enum):
    """By what machines are compared."""

    ORDER = "the order in which machines came to be known"
    LEAST_LEFT = "what is free of GPUs, CPUs and memory: little first"
    MOST_LEFT = "the same: much first"
    LOSS = "what the machine is worth to the mix, before and after: little loss first"


class Worth(Enum):
    """What a machine is worth to tasks of one size."""

    USABLE = "the GPUs that one more task of this size could choose from"
    CAPACITY = "the GPUs that tasks of this size alone would fill, as far as CPUs and memory reach"


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to choose. `scarcity`: how much more a size counts of which little more would fit in the cluster (an
    exponent); `balance`: the weight of CPUs and memory that belong to free GPUs, by the mean of the mix; `links`:
    what a task with several GPUs loses where they do not all share NVLink, as a part of them.
    """

    rank: Rank
    worth: Worth = Worth.USABLE
    scarcity: float = 0.0
    balance: float = 0.0
    links: float = 0.0


POLICIES: Mapping[str, Policy] = {
    "first_fit": Policy(Rank.ORDER),
    "spread": Policy(Rank.MOST_LEFT),
    "best_fit": Policy(Rank.LEAST_LEFT),
    # Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 4: least growth of the fragmentation measure.
    "fgd": Policy(Rank.LOSS, Worth.USABLE),
    "capacity": Policy(Rank.LOSS, Worth.CAPACITY, scarcity=2.0, balance=1.0, links=0.3),
}
BEST = "capacity"
"""What apps with GPUs get unless somebody asks for another."""
