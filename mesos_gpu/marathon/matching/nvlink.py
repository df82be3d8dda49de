"""Which of an offer's GPUs share NVLink, as far as a scheduler can know. Pure.

An offer tells how many GPUs are free, and by an attribute which of the machine's share NVLink, but not which are free.
Which our own tasks have, their agents tell. Of the rest it is assumed that agents choose as ours does
(`placement.card_sets`): that they took first what was broken already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.mesos.shares.gpu_links import LINKS_ATTRIBUTE, Sets, read_links
from mesos_gpu.placement.card_sets import best_set
from mesos_gpu.placement.demand import WHOLE, Machine


def sets_of(attributes: Iterable[tuple[str, str]]) -> Sets:
    """Return which GPUs of an agent share NVLink, by index; none where it does not say."""
    return next((read_links(text) for name, text in attributes if name == LINKS_ATTRIBUTE), ())


def with_links(machine: Machine, offer: Offer, tasks: Mapping[str, Sequence[Task]]) -> Machine:
    """Return what is left of an offer with the sets that its free GPUs are of. `tasks`: our own, by agent.

    They are those whose GPUs are not in the offer, as far as they have any.
    """
    sets = sets_of(offer.attributes)
    places = [place for place, free in enumerate(machine.cards) if free == WHOLE]
    if not sets or len(places) < 2:
        return machine
    free = free_cards(sets, tasks.get(str(offer.agent_id), ()), len(places))
    place_of = dict(zip(free, places, strict=False))
    there = (frozenset(place_of[card] for card in some if card in place_of) for some in sets)
    return replace(machine, linked=tuple(dict.fromkeys(some for some in there if len(some) > 1)))


def free_cards(sets: Sets, tasks: Iterable[Task], count: int) -> list[int]:
    """Return `count` cards, by index, which are free where these are our own tasks; fewer where others are unlinked."""
    free = sorted({card for some in sets for card in some})
    unknown = []
    for task in tasks:
        if task.whole_cards:
            free = [card for card in free if card not in task.whole_cards]
        elif task.held is not None and task.held.gpus:
            unknown.append(task.held.gpus // 1000)
    others = [1] * (len(free) - count - sum(unknown))
    for taken in [*unknown, *others]:
        if len(free) <= count:
            break
        gone = chosen(sets, free, min(taken, len(free) - count))
        free = [card for card in free if card not in gone]
    return free


def given_cards(sets: Sets, tasks: Iterable[Task], free: int, count: int) -> tuple[int, ...]:
    """Return which cards, by index, an agent with so many free ones would give to one more task beside our own.

    None where that cannot be known: the links of some are not told.
    """
    known = free_cards(sets, tasks, free)
    return tuple(sorted(chosen(sets, known, count))) if 0 < count <= free == len(known) else ()


def share_links(sets: Sets, cards: Sequence[int]) -> bool:
    """Return whether every two of these cards share NVLink."""
    return any(some.issuperset(cards) for some in sets)


def cards_shown(task: Task) -> dict[str, Any] | None:
    """Return which whole GPUs a task has, by index, and whether they share NVLink, as `plan` shows it.

    None where its agent has not told; `nvlink` is None for fewer than two, and where links are not told.
    """
    if not task.whole_cards:
        return None
    sets = sets_of(task.attributes)
    linked = share_links(sets, task.whole_cards) if sets and len(task.whole_cards) > 1 else None
    return {"indices": list(task.whole_cards), "nvlink": linked}


def chosen(sets: Sets, free: Sequence[int], count: int) -> frozenset[int]:
    """Return which of the free cards an agent gives to a task with so many."""
    ties = [[(int(any({one, other} <= some for some in sets)), 0) for other in free] for one in free]
    return frozenset(free[position] for position in best_set(ties, count))
