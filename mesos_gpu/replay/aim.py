"""Which machine a run would choose of all, so that a replay need not offer it all of them.

A master offers every machine for every run, and Marathon declines all but one: that is most of what a replay takes,
and nothing comes of it. The choice is made here by the same policies (`mesos_gpu.placement`), over all machines; then
the one that was chosen is offered, and both decide as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from mesos_gpu.placement.demand import Demand, Machine
from mesos_gpu.placement.fleet import Fleet
from mesos_gpu.placement.mix import Mix
from mesos_gpu.placement.policies import POLICIES

_NONE_OF_THESE = frozenset({"no model that is here"})
_LOOK_AGAIN = 0.02
"""The mix is looked at again when so much of it has changed: all machines are judged anew then."""


class Aim:
    """The machines, who holds what of them, and the mix of what runs and waits."""

    def __init__(self, machines: Mapping[str, Machine], policy: str) -> None:
        self._fleet = Fleet(machines, POLICIES[policy])
        self._models = frozenset(machine.model for machine in machines.values())
        self._asks: dict[str, tuple[Demand, int]] = {}
        self._places: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        self._mix: Counter[Demand] = Counter()
        self._size = self._changes = 0

    def asked(self, run_id: str, demand: Demand, nodes: int = 1) -> str | None:
        """Count a run into the mix, and return the machine that is best for it; None when it fits nowhere now.

        Of one on several `nodes` each member counts, and the machine is that of one of them.
        """
        suited = demand.models & self._models or _NONE_OF_THESE
        models = frozenset[str]() if not demand.models or suited == self._models else suited
        demand = replace(demand, models=models)
        self._asks[run_id] = demand, nodes
        if demand.gpus:
            self._mix[demand] += nodes
            self._size += nodes
            self._changes += nodes
        if self._changes > _LOOK_AGAIN * self._size:
            mix = Mix()
            for size, count in self._mix.items():
                mix.saw(size, count)
            self._fleet.judge_by(mix)
            self._changes = 0
        found = self._fleet.best(demand)
        return None if found is None else found.machine

    def starts(self, run_id: str, name: str) -> None:
        """Take note that a run, or one of its members, has its place."""
        (demand, _), machine = self._asks[run_id], self._fleet.machine(name)
        cards = machine.whole_cards(demand.gpus)
        self._places.setdefault(run_id, []).append((name, cards))
        self._fleet.change(name, machine.without(demand, cards))

    def over(self, run_id: str) -> None:
        """Take note that a run has ended, with all its members, or waits no more."""
        demand, nodes = self._asks.pop(run_id, (None, 0))
        if demand is None:
            return
        if demand.gpus:
            self._mix[demand] -= nodes
            self._size -= nodes
            self._changes += nodes
            if not self._mix[demand]:
                del self._mix[demand]
        for name, cards in self._places.pop(run_id, ()):
            self._fleet.change(name, self._fleet.machine(name).with_back(demand, cards))
