"""Where the members of a unit go: all of them have a place, or none has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesos_gpu.queueing.values import Ask, Free, slots

Preference = Callable[[int, bool], tuple[bool, int]]
"""Of two machines the one is taken for which this is less. It is told how many members would fit there, and whether
the GPUs of one would be apart: several that do not all share NVLink, as far as that is known.
"""

PREFERENCES: Mapping[str, Preference] = {
    "spread": lambda count, apart: (False, -count),
    "first_fit": lambda count, apart: (False, 0),
}
"""By placement policy. All others keep machines with much room for others: few members first."""


def fewest_first(count: int, apart: bool) -> tuple[bool, int]:
    """Prefer machines where the GPUs of a member share NVLink, and of these the ones on which few members fit."""
    return apart, count


def room(ask: Ask, free: Free, most: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return how many members fit where, up to the size of a unit; machines where none does are left out.

    `most`: where no more may go than so many.
    """
    limits, size, usable = most or {}, ask.size, ask.machines
    found = {}
    for name, machine in free.items():
        if usable is not None and name not in usable:
            continue
        if count := slots(ask, machine, min(size, limits.get(name, size)) if limits else size):
            found[name] = count
    return found


def members_that_fit(ask: Ask, free: Free) -> int:
    """Return how many members of one unit have a place now: all, when it could start."""
    return min(ask.size, sum(room(ask, free).values()))


def places(
    ask: Ask, free: Free, prefer: Preference = fewest_first, most: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """Return how many members of one unit go where, None when they do not all fit.

    Without one_per_host as few machines as can be are taken: the smallest room that is enough for those that are left,
    else the largest there is.
    """
    found = room(ask, free, most)
    if sum(found.values()) < ask.size:
        return None
    if ask.one_per_host or ask.size == 1:
        order = {name: prefer(_would_fit(ask, free, name), _apart(ask, free, name)) for name in found}
        chosen = sorted(found, key=order.__getitem__)[: ask.size]
        return dict.fromkeys(chosen, 1)
    return _packed(ask.size, found, lambda name: prefer(found[name], _apart(ask, free, name)))


def _apart(ask: Ask, free: Free, name: str) -> bool:
    """Return whether a member would get several GPUs that do not all share NVLink."""
    return ask.demand.gpus > 1 and free[name].most_linked < ask.demand.gpus


def _would_fit(ask: Ask, free: Free, name: str) -> int:
    """Return how many members would fit on a machine if several might go there."""
    machine = free[name]
    if ask.demand.gpus:
        return machine.whole // ask.demand.gpus
    return min(machine.cpus_milli // max(1, ask.demand.cpus_milli), machine.mem_mib // max(1, ask.demand.mem_mib))


def _packed(size: int, found: Mapping[str, int], order: Callable[[str], tuple[bool, int]]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    left, others = size, dict(found)
    while left:
        enough = [name for name, count in others.items() if count >= left]
        name = min(enough, key=order) if enough else max(others, key=lambda e: found[e])
        chosen[name] = min(left, others.pop(name))
        left -= chosen[name]
    return chosen
