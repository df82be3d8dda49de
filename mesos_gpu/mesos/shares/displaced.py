"""Containers whose parts of cards are elsewhere than their master counts them: suspended ones, and those moved. Pure.

A master counts units by number, and those of a suspended task as that task's. So that others can be given what is free
of a card, the agent offers other numbers of the same card in their place: k in i * 1000 + k may be any below 1000, and
how many of them nobody has is what is free. A number is never two tasks', and what is offered beside those that tasks
have is as much as nobody has: a card is given once at every moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import (
    GPU_MEM,
    GPU_SLICES,
    PER_CARD,
    CardPart,
    Share,
    SharedCard,
    as_ranges,
    ranges_of,
)

_NOTHING: Mapping[int, tuple[int, int]] = MappingProxyType({})


def with_displaced(
    total: Resources,
    cards: Iterable[SharedCard],
    *,
    live: Resources,
    kept: Resources,
    over: Resources,
    away: Resources,
    displaced: Iterable[Share],
    lingering: Iterable[CardPart] = (),
) -> Resources:
    """Return `total` with the units of shared cards that are to be offered, or are somebody's.

    `live`: what tasks have, as their master counts it; `kept`: what must be there besides, for it is reserved; `over`:
    what tasks had whose end the master does not know yet, or has not acknowledged; `away`: what of `live` is counted
    for the `displaced`; `lingering`: what containers hold of cards and no task of theirs has any more.

    A master gives what was had to others as soon as it hears of the end (Mesos src/master/master.cpp, updateTask). So
    units of `over` are there as far as nobody has the card: those of a suspended task mostly not.
    """
    elsewhere = [*(part for share in displaced for part in share.parts), *lingering]
    for name in (GPU_MEM, GPU_SLICES):
        has, stays, had, gone = (numbers_of(some, name) for some in (live, kept, over, away))
        numbers: set[int] = set()
        for card in cards:
            mine = range(card.index * PER_CARD, (card.index + 1) * PER_CARD)
            used = {number for number in has - gone if number in mine}
            moved = sum(_units(part, name) for part in elsewhere if part.card == card.index)
            there = {number for number in has | stays if number in mine}
            free = (card.mem_units if name == GPU_MEM else card.slices) - len(used) - moved
            spare = sorted((number for number in mine if number not in there), key=lambda number: number not in had)
            more = max(0, free - len(there - has))
            numbers |= there | {number for number, _ in zip(spare, range(more), strict=False)}
        total = _with(total, name, numbers)
    return total


def places_again(
    asked: Sequence[CardPart],
    cards: Mapping[int, SharedCard],
    free: Mapping[int, tuple[int, int]],
    like: Mapping[int, Collection[int]],
) -> tuple[CardPart, ...] | None:
    """Return parts as large as those that were `asked` for, in their order; None when there is no room for all.

    Each is of the card that it was, where that has room, else of the fullest of those that are `like` it (its own kind,
    and kept to its memory as it is). `free`: the GiB and slices that nobody has of the cards that may be given.
    """
    if not asked:
        return ()
    part, *rest = asked
    others = sorted(set(like.get(part.card, ())) - {part.card}, key=lambda card: (free.get(card, (0, 0)), card))
    for card in (part.card, *others):
        memory, slices = free.get(card, (0, 0))
        if card not in cards or memory < part.mem_units or slices < part.weight:
            continue
        left = {other: room for other, room in free.items() if other != card}
        after = places_again(rest, cards, left, like)
        if after is not None:
            return (replace(part, card=card), *after)
    return None


def free_of(
    cards: Iterable[SharedCard], shares: Iterable[Share], spoken_for: Mapping[int, tuple[int, int]] = _NOTHING
) -> dict[int, tuple[int, int]]:
    """Return the GiB and slices of each card that no container has, and that are not `spoken_for`."""
    held = [part for share in shares for part in share.parts]
    return {
        card.index: (
            card.mem_units - sum(part.mem_units for part in held if part.card == card.index) - _of(spoken_for, card)[0],
            card.slices - sum(part.weight for part in held if part.card == card.index) - _of(spoken_for, card)[1],
        )
        for card in cards
    }


def _of(units: Mapping[int, tuple[int, int]], card: SharedCard) -> tuple[int, int]:
    return units.get(card.index, (0, 0))


def _units(part: CardPart, name: str) -> int:
    return part.mem_units if name == GPU_MEM else part.weight


def numbers_of(resources: Resources, name: str) -> set[int]:
    """Return the numbers of all units of that name."""
    return {number for first, last in ranges_of(resources, name) for number in range(first, last + 1)}


def _with(total: Resources, name: str, numbers: set[int]) -> Resources:
    """Return `total` with exactly these numbers of a name; new ones are as the first that there are."""
    missing = numbers - numbers_of(total, name)
    found: list[Resource] = []
    for resource in total:
        if resource.name == name and isinstance(resource.amount, tuple):
            mine = {number for first, last in resource.amount for number in range(first, last + 1)} & numbers
            amount = as_ranges(sorted(mine | missing))
            missing = set()
            if not amount:
                continue
            resource = replace(resource, amount=amount)
        found.append(resource)
    return Resources(found)
