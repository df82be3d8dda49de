"""Parts of GPUs as Mesos resources: ranges in which unit k of card i has the number i * 1000 + k. Pure.

A card that is shared is not among an agent's `gpus`: it is offered as `gpu_mem`, units of a GiB of its memory (as
cGPU's ALIYUN_COM_GPU_MEM_DEV counts them), and `gpu_slices`, the slices of compute that weights are counted in
(cGPU's max_inst, 25 at most). A master keeps account of ranges as it does of ports, so that no unit is given
twice, and an offer shows what is free of each card: what 16 GiB fit into, no sum over cards can tell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mesos_gpu.mesos.shares.levels import Level, weakest

if TYPE_CHECKING:  # the command line reads cGPU's variables, and need not wait for these
    from mesos_gpu.mesos.resource import Ranges, Resource
    from mesos_gpu.mesos.resources import Resources

GPU_MEM, GPU_SLICES = "gpu_mem", "gpu_slices"
PER_CARD = 1000
MOST_SLICES = 25
MIB_IN_GIB = 1024
CARDS_ATTRIBUTE = "gpu_shared_cards"


@dataclass(frozen=True, slots=True)
class SharedCard:
    """One card that is shared: `index` is the driver's number of it, `mem_units` its memory in whole GiB."""

    index: int
    uuid: str
    memory_mib: int
    slices: int = MOST_SLICES
    level: Level = Level.ADVISORY
    """How tasks are kept to their part of its memory."""

    @property
    def mem_units(self) -> int:
        """Return its memory in GiB, rounded to the nearest: 15109 MiB are 15 (cGPU's ALIYUN_COM_GPU_MEM_DEV)."""
        return max(1, (2 * self.memory_mib + MIB_IN_GIB) // (2 * MIB_IN_GIB))

    def memory_of(self, units: int) -> int:
        """Return the MiB that `units` of it are, rounded down: 6 of the 15 of a card of 15109 MiB are 6043."""
        return self.memory_mib * units // self.mem_units


@dataclass(frozen=True, slots=True, order=True)
class CardPart:
    """What a task has of one card: GiB of its memory, and as many slices as its weight."""

    card: int
    mem_units: int
    weight: int


@dataclass(frozen=True, slots=True)
class CardLabel:
    """What an agent's attribute says of a shared card."""

    uuid: str
    mem_units: int
    level: str = field(default="", compare=False)
    """What keeps tasks to their memory; that may be another after a restart. Agents of before do not say it."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one container has of shared cards. With `high_priority` it is served before the others of its cards.

    `group`: the container is that of an executor whose tasks are nested in it; they take turns, and it does not.
    `booked`: what its master counts for it, where that is something else: a container that is suspended has no part,
    and one that was resumed may have those of other cards, in the same order.
    """

    parts: tuple[CardPart, ...]
    high_priority: bool = False
    group: bool = False
    booked: tuple[CardPart, ...] = ()

    @property
    def asked(self) -> tuple[CardPart, ...]:
        """Return the parts that it was given when it was launched."""
        return self.booked or self.parts

    def moved(self, parts: Sequence[CardPart]) -> Share:
        """Return it with other parts of cards, none while it is suspended; its master counts what it counted."""
        now = tuple(parts)
        return replace(self, parts=now, booked=() if now == self.asked else self.asked)


def level_of(parts: Sequence[CardPart], cards: Mapping[int, SharedCard]) -> Level:
    """Return how the container of these parts is kept to its memory: as by the weakest of its cards.

    A process has one MPS daemon, which is that of one card: parts of several are watched instead.
    """
    level = weakest([cards[part.card].level for part in parts if part.card in cards])
    return min(level, Level.WATCHER) if level is Level.MPS and len(parts) > 1 else level


def cards_text(cards: Sequence[SharedCard]) -> str:
    """Return shared cards as the attribute `gpu_shared_cards` names them: `2=GPU-.../15/watcher,3=...`.

    UUID, GiB, and the level that keeps tasks to their memory.
    """
    return ",".join(f"{card.index}={card.uuid}/{card.mem_units}/{card.level.word}" for card in cards)


@lru_cache(maxsize=4096)
def read_cards(text: str) -> Mapping[int, CardLabel]:
    """Return what `cards_text` wrote; what is not of that form is left out. An agent says the same in each offer."""
    found = re.findall(r"(\d+)=([^,/]+)/(\d+)(?:/(\w+))?", text)
    return {int(index): CardLabel(uuid, int(mem), level) for index, uuid, mem, level in found}


def offered(cards: Sequence[SharedCard]) -> str:
    """Return what these cards are in --resources; empty without cards."""
    if not cards:
        return ""
    memory = ",".join(f"{_first(card.index)}-{_first(card.index) + card.mem_units - 1}" for card in cards)
    slices = ",".join(f"{_first(card.index)}-{_first(card.index) + card.slices - 1}" for card in cards)
    return f"{GPU_MEM}:[{memory}];{GPU_SLICES}:[{slices}]"


def units(resources: Resources, name: str) -> dict[int, list[int]]:
    """Return the units of `gpu_mem` or `gpu_slices` among resources, as positions on each card, in order."""
    found: dict[int, list[int]] = {}
    for first, last in sorted(ranges_of(resources, name)):
        for unit in range(first, last + 1):
            found.setdefault(unit // PER_CARD, []).append(unit % PER_CARD)
    return found


def room_by_card(resources: Resources, name: str) -> dict[int, int]:
    """Return how many units of `gpu_mem` or `gpu_slices` there are of each card."""
    found: dict[int, int] = {}
    for first, last in ranges_of(resources, name):
        for card in range(first // PER_CARD, last // PER_CARD + 1):
            low, high = max(first, _first(card)), min(last, _first(card + 1) - 1)
            found[card] = found.get(card, 0) + high - low + 1
    return found


def lowest(resources: Resources, name: str, card: int, count: int) -> Ranges:
    """Return the lowest units of `gpu_mem` or `gpu_slices` of a card as ranges: so many, all where there are less."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges_of(resources, name)):
        low, high = max(first, _first(card)), min(last, _first(card + 1) - 1, max(first, _first(card)) + count - 1)
        if low > high:
            continue
        count -= high - low + 1
        if found and found[-1][1] == low - 1:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)


def ranges_of(resources: Resources, name: str) -> Ranges:
    """Return all ranges of that name, whatever their role."""
    return tuple(
        pair
        for resource in resources
        if resource.name == name and isinstance(resource.amount, tuple)
        for pair in resource.amount
    )


def parts(resources: Resources) -> tuple[CardPart, ...]:
    """Return what resources are of each card, by card; a part may have memory without weight, or the reverse."""
    memory, slices = units(resources, GPU_MEM), units(resources, GPU_SLICES)
    return tuple(
        CardPart(card, len(memory.get(card, ())), len(slices.get(card, ()))) for card in sorted({*memory, *slices})
    )


def problem(resources: Resources, cards: Mapping[int, SharedCard], cards_asked: int) -> str | None:
    """Return why an agent with these shared cards cannot give a task these resources; None when it can.

    `cards_asked`: how many cards the task says that it shares; units of more are a mistake of whoever took them.
    """
    if any(resource.name in (GPU_MEM, GPU_SLICES) and resource.type != "RANGES" for resource in resources):
        return f"{GPU_MEM} and {GPU_SLICES} are ranges of units, as of ports: [1003-1008] is 6 units of card 1"
    asked = parts(resources)
    if not asked:
        return None
    if not cards:
        return "A part of a GPU was asked for, and this agent shares none (--shared_gpus)"
    if resources.gpus:
        return "Whole GPUs and parts of GPUs were asked for by one task; it can have one or the other"
    for part in asked:
        words = _part_problem(part, cards)
        if words is not None:
            return words
    if len(asked) != cards_asked:
        there = ", ".join(str(part.card) for part in asked)
        return (
            f"The units are on {len(asked)} cards ({there}), and the task shares {cards_asked}: take all units of a "
            "kind from one card, or name as many in ALIYUN_COM_GPU_MEM_CONTAINER (one entry a card)"
        )
    return None


def without_cards(total: Resources, closed: Collection[int], used: Resources) -> Resources:
    """Return `total` without the units of `closed` cards, but for those that are `used`."""
    kept: dict[str, set[int]] = {}
    for name in (GPU_MEM, GPU_SLICES):
        kept[name] = {card * PER_CARD + k for card, positions in units(used, name).items() for k in positions}

    def left(resource: Resource) -> Resource | None:
        if resource.name not in kept or not isinstance(resource.amount, tuple):
            return resource
        numbers = [n for first, last in resource.amount for n in range(first, last + 1)]
        amount = as_ranges([n for n in numbers if n // PER_CARD not in closed or n in kept[resource.name]])
        return replace(resource, amount=amount) if amount else None

    return type(total)([found for found in map(left, total) if found is not None])


def as_ranges(numbers: Sequence[int]) -> Ranges:
    """Return sorted numbers as ranges."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def _part_problem(part: CardPart, cards: Mapping[int, SharedCard]) -> str | None:
    card = cards.get(part.card)
    if card is None:
        there = ", ".join(map(str, sorted(cards)))
        return f"Units of card {part.card} were asked for, and this agent shares the cards {there}"
    if not part.weight:
        return (
            f"{part.mem_units} GiB of card {part.card} were asked for without {GPU_SLICES} of it, which would be no "
            "compute at all: take at least one slice of the same card"
        )
    if not part.mem_units:
        return f"{GPU_SLICES} of card {part.card} were asked for without {GPU_MEM} of it: take at least one GiB"
    if part.mem_units > card.mem_units or part.weight > card.slices:
        return (
            f"{part.mem_units} GiB and {part.weight} slices of card {part.card} were asked for, which has "
            f"{card.mem_units} GiB and {card.slices} slices"
        )
    return None


def _first(card: int) -> int:
    return card * PER_CARD
