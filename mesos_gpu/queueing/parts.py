"""Who gives up parts of shared GPUs for a task of high priority: by being suspended, never by being ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

Room = Mapping[int, tuple[int, int]]
"""GiB and slices that nobody has of each card of a machine."""


class PartAsk(Struct, frozen=True):
    """What a task wants: so many GiB of each of so many cards of one machine, and slices of each."""

    mem_gib: tuple[int, ...]
    weight: int


class Sharer(Struct, frozen=True):
    """A task that may be suspended. `parts`: GiB and slices that it has of cards, by index."""

    unit: str
    machine: str
    parts: Room
    since_s: float = 0.0


def fits(ask: PartAsk, room: Room) -> bool:
    """Return whether a task finds all of its parts, the largest first, each on the fullest card that has room."""
    left = {card: free for card, (free, slices) in room.items() if slices >= ask.weight}
    for amount in sorted(ask.mem_gib, reverse=True):
        able = [card for card, free in left.items() if free >= amount]
        if not able:
            return False
        del left[min(able, key=lambda card: (left[card], card))]
    return True


def who_is_suspended(ask: PartAsk, rooms: Mapping[str, Room], sharers: Sequence[Sharer]) -> tuple[str, ...]:
    """Return the tasks of one machine that are to be suspended so that `ask` fits there: few of them, and little GiB.

    `rooms` has the machines that would do but for their cards, with those cards that would. None are suspended where
    it fits anyway, or where that would be in vain.
    """
    if any(fits(ask, room) for room in rooms.values()):
        return ()
    ways = []
    for machine, room in sorted(rooms.items()):
        here = [one for one in sharers if one.machine == machine and one.parts.keys() & room.keys()]
        way = _way(ask, room, sorted(here, key=lambda one: (_gib(one), -one.since_s, one.unit)))
        if way:
            ways.append((len(way), sum(map(_gib, way)), tuple(one.unit for one in way)))
    return min(ways, default=(0, 0, ()))[2]


def _way(ask: PartAsk, room: Room, sharers: Sequence[Sharer]) -> list[Sharer]:
    """Return one that is enough alone, else the largest first until they are enough, without those not needed."""
    for one in sharers:
        if fits(ask, _without(room, [one])):
            return [one]
    chosen: list[Sharer] = []
    for one in sorted(sharers, key=lambda one: (-_gib(one), -one.since_s, one.unit)):
        chosen.append(one)
        if fits(ask, _without(room, chosen)):
            break
    else:
        return []
    for one in list(chosen):
        others = [other for other in chosen if other is not one]
        if fits(ask, _without(room, others)):
            chosen = others
    return chosen


def _without(room: Room, gone: Iterable[Sharer]) -> Room:
    found = dict(room)
    for one in gone:
        for card, (memory, slices) in one.parts.items():
            if card in found:
                found[card] = (found[card][0] + memory, found[card][1] + slices)
    return found


def _gib(one: Sharer) -> int:
    return sum(memory for memory, _ in one.parts.values())
