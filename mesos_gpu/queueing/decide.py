"""One look at the queue: who starts where, for whom something is kept, and who gives way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.queueing.places import Preference, fewest_first, members_that_fit, places
from mesos_gpu.queueing.preemption import give_way
from mesos_gpu.queueing.promise import Promise, promise
from mesos_gpu.queueing.values import Ask, Free, Running, taken


class Start(Struct, frozen=True):
    """One unit that starts: so many of its members on each machine."""

    ask: str
    members: Mapping[str, int]


class Decision(Struct, frozen=True):
    """What is done now. `fits`: how many members of its next unit have a place, for each that still waits, in order."""

    starts: tuple[Start, ...]
    promise: Promise | None
    fits: Mapping[str, int]
    gives_way: tuple[str, ...] = ()
    """The units whose end is to be asked for, for the one that was promised something."""


def decide(
    asks: Sequence[Ask],
    free: Free,
    running: Sequence[Running],
    now_s: float,
    prefer: Callable[[str], Preference] = lambda ask: fewest_first,
    *,
    taking: bool = True,
    promised: str | None = None,
) -> Decision:
    """Return who starts now, in the order of their ranks, each unit as a whole.

    Of equal rank the one that was `promised` machines at the last look is before the others, or what it was promised
    would be put off by whose id happens to sort first; then ids decide.

    For the first that does not fit, and will once others have ended, machines are kept; nobody starts on them who could
    delay it. `prefer` tells by which preference an ask's machines are chosen, `taking` whether somebody may give
    way now: not while what is free is not known.
    """
    left, tasks = dict(free), list(running)
    starts: list[Start] = []
    kept: Promise | None = None
    fits: dict[str, int] = {}
    ending: tuple[str, ...] = ()
    counted: dict[tuple[object, ...], int] = {}
    """How many members fit of all that ask for the same, until something starts."""
    in_vain: set[tuple[object, ...]] = set()
    """Of those of which all members fit, who has no place beside what is kept; until something starts."""
    for ask in sorted(asks, key=lambda each: (each.rank, each.id != promised, each.id)):
        same = ask.demand, ask.size, ask.one_per_host, ask.machines
        for number in range(ask.units):
            if same not in counted:
                counted[same] = members_that_fit(ask, left)
            members = None
            alike = *same, ask.max_run_s
            if counted[same] == ask.size and not (kept is not None and alike in in_vain):
                spared = kept.spares(ask, now_s) if kept is not None else None
                members = places(ask, left, prefer(ask.id), spared)
                if members is None:
                    in_vain.add(alike)
            if members is None:
                fits[ask.id] = counted[same]
                if kept is None:
                    ending = give_way(ask, left, tasks, now_s) if taking else ()
                    tasks = [_told(task, now_s) if task.unit in ending else task for task in tasks]
                    kept = promise(ask, left, tasks)
                break
            starts.append(Start(ask.id, members))
            counted.clear()
            in_vain.clear()
            for name, count in members.items():
                for _ in range(count):
                    left[name] = taken(left[name], ask.demand)
                    tasks.append(_started(ask, f"{ask.id}#{number}", name, now_s))
            kept = kept.beside(ask, members, now_s) if kept is not None else None
    return Decision(tuple(starts), kept, fits, ending)


def _started(ask: Ask, unit: str, machine: str, now_s: float) -> Running:
    return Running(unit, machine, ask.demand, ask.ends_s(now_s), now_s, ask.priority)


def _told(task: Running, now_s: float) -> Running:
    return replace(task, ends_s=now_s, ending=True)
