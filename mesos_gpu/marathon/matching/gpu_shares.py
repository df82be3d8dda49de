"""Which units of which shared cards of an offer a task takes: of the card chosen for it, else of the fullest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mesos_gpu.mesos.resource import Ranges, Resource, subtract_ranges
from mesos_gpu.mesos.resources import NOTHING, Resources
from mesos_gpu.mesos.shares.cgpu import ShareAsk
from mesos_gpu.mesos.shares.gpu_shares import (
    CARDS_ATTRIBUTE,
    GPU_MEM,
    GPU_SLICES,
    CardLabel,
    lowest,
    read_cards,
    room_by_card,
)


def take_shares(
    asks: Sequence[ShareAsk | None],
    usable: Resources,
    roles: Sequence[str],
    attributes: Sequence[tuple[str, str]],
    prefer: Sequence[int] = (),
) -> tuple[Resources, ...] | None:
    """Return what each ask takes of `usable`, nothing for None; None when one of them finds no room.

    `attributes` are the offer's: an agent names its shared cards there, so that an ask can name them by UUID or size.
    Cards that a policy has chosen (`prefer`) go before the fullest.
    """
    if not any(asks):
        return (NOTHING,) * len(asks)
    cards = read_cards(dict(attributes).get(CARDS_ATTRIBUTE, ""))
    found: list[Resources] = [Resources()] * len(asks)
    order = sorted(range(len(asks)), key=lambda at: -_size(asks[at]))
    for at in order:
        ask = asks[at]
        if ask is None:
            continue
        taken = _take(ask, usable, roles, cards, prefer)
        if taken is None:
            return None
        usable -= taken
        found[at] = taken
    return tuple(found)


def _size(ask: ShareAsk | None) -> int:
    return 0 if ask is None else max(ask.mem_gib)


def _take(
    ask: ShareAsk, usable: Resources, roles: Sequence[str], cards: Mapping[int, CardLabel], prefer: Sequence[int]
) -> Resources | None:
    """Return the lowest free units of as many cards as the ask names."""
    memory, slices = room_by_card(usable, GPU_MEM), room_by_card(usable, GPU_SLICES)
    fit = {card for card in memory if slices.get(card, 0) >= ask.weight and _wanted(ask, card, cards)}
    chosen: list[tuple[int, int]] = []
    for amount in sorted(ask.mem_gib, reverse=True):
        room = [card for card in fit if memory[card] >= amount]
        if not room:
            return None
        card = min(room, key=lambda card: (card not in prefer, memory[card], card))
        fit.discard(card)
        chosen.append((card, amount))
    taken = Resources()
    for card, amount in chosen:
        for name, count in ((GPU_MEM, amount), (GPU_SLICES, ask.weight)):
            taken += _resources(usable, name, lowest(usable, name, card, count), roles)
    return taken


def free_memory(asks: Sequence[ShareAsk], usable: Resources, attributes: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """Return the free GiB of each shared GPU that one of the requests could use, the most first."""
    rooms: dict[int, int] = {}
    for ask in asks:
        for card, (gib, slices) in rooms_of(ask, usable, attributes).items():
            rooms[card] = max(rooms.get(card, 0), gib if slices >= ask.weight else 0)
    return tuple(sorted(rooms.values(), reverse=True))


def rooms_of(ask: ShareAsk, resources: Resources, attributes: Sequence[tuple[str, str]]) -> dict[int, tuple[int, int]]:
    """Return the GiB and slices that an offer has of each card that an ask could use, whatever is free of it."""
    memory, slices = room_by_card(resources, GPU_MEM), room_by_card(resources, GPU_SLICES)
    return {card: (memory.get(card, 0), slices.get(card, 0)) for card in usable_cards(ask, attributes)}


def usable_cards(ask: ShareAsk, attributes: Sequence[tuple[str, str]]) -> dict[int, CardLabel]:
    """Return the cards of an agent that an ask could use, whatever is free of them."""
    cards = read_cards(dict(attributes).get(CARDS_ATTRIBUTE, ""))
    return {card: label for card, label in cards.items() if _wanted(ask, card, cards)}


def cards_taken(taken: Resources) -> tuple[int, ...]:
    """Return the cards that resources have parts of, that of the largest part first, as `take_shares` gives them."""
    memory = room_by_card(taken, GPU_MEM)
    return tuple(sorted(memory, key=lambda card: (-memory[card], card)))


def parts_of(resources: Resources, parts: Mapping[int, tuple[int, int]]) -> Resources:
    """Return so many GiB and slices of each card out of `resources`, all where there are less."""
    found = Resources()
    for card, (gib, slices) in parts.items():
        for name, count in ((GPU_MEM, gib), (GPU_SLICES, slices)):
            found += _resources(resources, name, lowest(resources, name, card, count), ())
    return found


def _wanted(ask: ShareAsk, card: int, cards: Mapping[int, CardLabel]) -> bool:
    label = cards.get(card)
    names = {str(card)} | ({label.uuid} if label is not None else set())
    if ask.devices and not names.intersection(ask.devices):
        return False
    return ask.card_gib is None or (label is not None and label.mem_units == ask.card_gib)


def _resources(usable: Resources, name: str, wanted: Ranges, roles: Sequence[str]) -> Resources:
    """Return these units, each as the resource of `usable` that has it, those of the first roles first."""
    taken: list[Resource] = []
    for resource in sorted(usable, key=lambda resource: [*roles, resource.role].index(resource.role)):
        if resource.name != name or not isinstance(resource.amount, tuple):
            continue
        missing = subtract_ranges(wanted, resource.amount)
        if missing != wanted:
            taken.append(replace(resource, amount=subtract_ranges(wanted, missing)))
            wanted = missing
    return Resources(taken)
