"""What a task asks of one machine, and what a machine has left. Values."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from mesos_gpu.placement.card_sets import best_set

WHOLE = 1000
"""Thousandths of one GPU."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task needs, on one machine.

    `gpus` whole GPUs, or a share of one: `share_milli` thousandths of it (then `gpus` is 0).
    """

    cpus_milli: int
    mem_mib: int
    gpus: int = 0
    share_milli: int = 0
    models: frozenset[str] = frozenset()
    """Models of GPU that will do; empty: any."""

    def __post_init__(self) -> None:
        if self.gpus and self.share_milli:
            raise ValueError(f"{self.gpus} whole GPUs and {self.share_milli} thousandths of one: ask for either")
        if not 0 <= self.share_milli < WHOLE:
            raise ValueError(f"{self.share_milli} thousandths of a GPU: a share is 1 to {WHOLE - 1}")

    @property
    def gpu_milli(self) -> int:
        """Return the thousandths of GPUs that it takes."""
        return self.gpus * WHOLE + self.share_milli

    @property
    def shape(self) -> tuple[int, int, frozenset[str]]:
        """Return what it asks of GPUs, whatever else it needs."""
        return self.gpus, self.share_milli, self.models


class Machine(Struct, frozen=True):
    """What one machine has left. `cards`: of each of its GPUs the thousandths that nobody holds.

    `linked`: sets of its GPUs, by their place in `cards`, in which every two share NVLink; none where nobody tells.
    """

    cpus_milli: int
    mem_mib: int
    cards: tuple[int, ...] = ()
    model: str = ""
    linked: tuple[frozenset[int], ...] = ()

    @property
    def free_milli(self) -> int:
        """Return the thousandths of GPUs that nobody holds."""
        return sum(self.cards)

    @property
    def whole(self) -> int:
        """Return how many GPUs nobody holds a part of."""
        return self.cards.count(WHOLE)

    @property
    def most_linked(self) -> int:
        """Return the size of the largest set of GPUs that nobody holds a part of and that all share NVLink."""
        return max((sum(self.cards[place] == WHOLE for place in some) for some in self.linked), default=0)

    def whole_cards(self, count: int) -> tuple[int, ...]:
        """Return which of its GPUs a task with so many gets, by their place in `cards`: agents choose so, too."""
        free = [place for place, left in enumerate(self.cards) if left == WHOLE]
        if not self.linked or count >= len(free):
            return tuple(free[:count])
        ties = [[(int(any({one, other} <= some for some in self.linked)), 0) for other in free] for one in free]
        return tuple(free[position] for position in best_set(ties, count))

    def fits(self, demand: Demand) -> bool:
        """Return whether the task could start here now."""
        if demand.cpus_milli > self.cpus_milli or demand.mem_mib > self.mem_mib:
            return False
        if demand.share_milli:
            return self.suits(demand) and max(self.cards, default=0) >= demand.share_milli
        return not demand.gpus or (self.suits(demand) and self.whole >= demand.gpus)

    def suits(self, demand: Demand) -> bool:
        """Return whether these are GPUs of a model that will do."""
        return not demand.models or self.model in demand.models

    def without(self, demand: Demand, cards: tuple[int, ...]) -> Machine:
        """Return what is left when the task has taken these of its GPUs, by their place in `cards`."""
        taken = demand.share_milli or WHOLE
        left = tuple(free - taken if place in cards else free for place, free in enumerate(self.cards))
        return self._changed(demand, left, -1)

    def with_back(self, demand: Demand, cards: tuple[int, ...]) -> Machine:
        """Return what is left when the task has given these back."""
        given = demand.share_milli or WHOLE
        left = tuple(free + given if place in cards else free for place, free in enumerate(self.cards))
        return self._changed(demand, left, +1)

    def _changed(self, demand: Demand, cards: tuple[int, ...], sign: int) -> Machine:
        cpus_milli, mem_mib = self.cpus_milli + sign * demand.cpus_milli, self.mem_mib + sign * demand.mem_mib
        if cpus_milli < 0 or mem_mib < 0 or any(not 0 <= free <= WHOLE for free in cards):
            raise ValueError(f"{demand} is more than {self} has, or was not taken from it")
        return Machine(cpus_milli, mem_mib, cards, self.model, self.linked)


class Place(Struct, frozen=True):
    """Where a task goes: the machine's name, and which of its GPUs, by their place in `cards`."""

    machine: str
    cards: tuple[int, ...] = ()
