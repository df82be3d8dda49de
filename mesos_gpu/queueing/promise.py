"""What is kept free for the first that has to wait, and who may start before it all the same (back-fill).

As EASY back-filling (Lifka, "The ANL/IBM SP scheduling system", 1995): one reservation, for the first in the queue; who
cannot delay it may start. Ends are those that were asked for (`maxRuntimeSeconds`), as in Slurm's sched/backfill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import inf

from msgspec import Struct

from mesos_gpu.placement.demand import Machine
from mesos_gpu.queueing.places import places, room
from mesos_gpu.queueing.values import Ask, Free, Running, slots, taken, with_ended


class Promise(Struct, frozen=True):
    """What the first that waits will have: so many members on these machines, at `at_s` at the latest.

    `at_s` is infinite when that takes the end of tasks that did not say how long they run. `then`: what is free on
    those machines by that time, less what was let start since and stays beyond it.
    """

    ask: Ask
    at_s: float
    members: Mapping[str, int]
    then: Free

    def spares(self, ask: Ask, now_s: float) -> dict[str, int]:
        """Return how many members of another may start now on each of the machines without delaying this one."""
        if self.ends_in_time(ask, now_s):
            return {}
        return {name: self._spares(ask, machine, self.members[name]) for name, machine in self.then.items()}

    def ends_in_time(self, ask: Ask, now_s: float) -> bool:
        """Return whether what starts now will have ended by then."""
        return ask.max_run_s is not None and now_s + ask.max_run_s <= self.at_s < inf

    def beside(self, ask: Ask, members: Mapping[str, int], now_s: float) -> Promise:
        """Return the promise after another was let start."""
        if self.ends_in_time(ask, now_s):
            return self
        then = dict(self.then)
        for name, count in members.items():
            for _ in range(count if name in then else 0):
                then[name] = taken(then[name], ask.demand)
        return Promise(self.ask, self.at_s, self.members, then)

    def _spares(self, ask: Ask, machine: Machine, kept: int) -> int:
        count, left = 0, machine
        while count < ask.size and left.fits(ask.demand):
            left = taken(left, ask.demand)
            if slots(self.ask, left, kept) < kept:
                break
            count += 1
        return count


def promise(ask: Ask, free: Free, running: Sequence[Running]) -> Promise | None:
    """Return what can be promised to one that does not fit now; None when no end of a task would let it start.

    Tasks that run until somebody stops them are not waited for.
    """
    ends = [(task.ends_s, task) for task in running if task.ends_s is not None]
    then = dict(free)
    for at_s, together in groupby(sorted(ends, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
        then = with_ended(then, (task for _, task in together))
        found = places(ask, then) if at_s < inf else _nearest(ask, free, then)
        if found is not None:
            return Promise(ask, at_s, found, {name: then[name] for name in found})
    return None


def _nearest(ask: Ask, free: Free, then: Free) -> dict[str, int] | None:
    """Return the machines on which least is still to be given back.

    Nothing that could delay it starts there, so that they only ever come nearer: it starts once what runs there has
    ended, whatever goes on elsewhere.
    """
    found = room(ask, then)
    if sum(found.values()) < ask.size:
        return None
    members: dict[str, int] = {}
    left = ask.size
    for name in sorted(found, key=lambda each: _missing(ask, free.get(each, Machine(0, 0)), found[each])):
        if left:
            members[name] = min(left, found[name])
            left -= members[name]
    return members


def _missing(ask: Ask, machine: Machine, count: int) -> tuple[float, float]:
    """Return what a machine lacks for each of so many members: GPUs, then CPUs."""
    demand = ask.demand
    gpus = max(0, demand.gpus * count - machine.whole)
    cpus_milli = max(0, demand.cpus_milli * count - machine.cpus_milli)
    return gpus / count, cpus_milli / count
