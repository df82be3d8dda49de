"""What waits and what runs, as the order of the queue is decided from. Values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from msgspec import Struct

from mesos_gpu.placement.demand import WHOLE, Demand, Machine


class Ask(Struct, frozen=True):
    """`units` that wait, each of `size` members that start together or not at all; each member needs `demand`.

    Who has the least `rank` comes first (see `rank_of`).
    """

    id: str
    rank: float
    demand: Demand
    size: int = 1
    units: int = 1
    one_per_host: bool = False
    priority: int = 0
    max_run_s: float | None = None
    """For so long it may run at most, then it is ended; None: as long as it wants."""
    stays: bool = False
    """Whether it runs until somebody stops it."""
    machines: frozenset[str] | None = None
    """Where it may go, whatever is free there; None: anywhere."""

    def ends_s(self, started_s: float) -> float | None:
        """Return when it must have ended if it starts at a time, as Running has it."""
        if self.max_run_s is not None:
            return started_s + self.max_run_s
        return None if self.stays else inf

    def may_use(self, machine: str) -> bool:
        """Return whether it may go to a machine at all."""
        return self.machines is None or machine in self.machines


class Running(Struct, frozen=True):
    """One task that runs. `unit` names those that start and end together with it."""

    unit: str
    machine: str
    demand: Demand
    ends_s: float | None = inf
    """When it must have ended; infinite: it ends some time; None: it runs until somebody stops it."""
    since_s: float = 0.0
    priority: int = 0
    preemptible: bool = False
    ending: bool = False
    """Whether its end has been asked for."""


Free = Mapping[str, Machine]
"""What is free on each machine."""
_EMPTY, _NOTHING = Machine(0, 0), (0, 0, 0)


def rank_of(since_s: float, priority: int, share: float, *, aging_s: float, fair_s: float) -> float:
    """Return the rank of what waits since then; it does not change with time, so nobody is overtaken for ever.

    A point of priority is worth having waited for `aging_s` longer. `share` (0 to 1) is the part of what runs that its
    role has: a role that has everything comes `fair_s` later, which is less than a point of priority is worth.
    """
    return since_s - priority * aging_s + min(max(share, 0.0), 1.0) * fair_s


def taken(machine: Machine, demand: Demand) -> Machine:
    """Return what is left of a machine after one more member; it must fit."""
    return machine.without(demand, machine.whole_cards(demand.gpus))


def given(machine: Machine, demand: Demand) -> Machine:
    """Return a machine with what a task gives back; of a card that others have too nothing is known."""
    cards = machine.cards + (WHOLE,) * demand.gpus
    cpus_milli, mem_mib = machine.cpus_milli + demand.cpus_milli, machine.mem_mib + demand.mem_mib
    return Machine(cpus_milli, mem_mib, cards, machine.model, machine.linked)


def with_ended(free: Free, tasks: Iterable[Running]) -> dict[str, Machine]:
    """Return what is free once these tasks have ended; machines of which nothing is free now may come in."""
    found = dict(free)
    together: dict[str, tuple[int, int, int]] = {}
    for task in tasks:
        demand, (cpus_milli, mem_mib, gpus) = task.demand, together.get(task.machine, _NOTHING)
        together[task.machine] = cpus_milli + demand.cpus_milli, mem_mib + demand.mem_mib, gpus + demand.gpus
    for name, amounts in together.items():
        found[name] = given(found.get(name, _EMPTY), Demand(*amounts))
    return found


def slots(ask: Ask, machine: Machine, most: int) -> int:
    """Return how many members fit on a machine, `most` at most; as many as `taken` could be called for one by one."""
    limit, demand = min(1, most) if ask.one_per_host else most, ask.demand
    if limit < 1 or not machine.fits(demand):
        return 0
    if limit > 1 and demand.cpus_milli:
        limit = min(limit, machine.cpus_milli // demand.cpus_milli)
    if limit > 1 and demand.mem_mib:
        limit = min(limit, machine.mem_mib // demand.mem_mib)
    if limit > 1 and demand.gpus:
        limit = min(limit, machine.whole // demand.gpus)
    return limit
