"""What is left of GPUs that tasks share and that nothing asked for could use: where, and for want of what. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.why.wish import wish_of
from mesos_gpu.mesos.clients.agents import read_agent
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, units

CARDS = "cards"
CAUSES = {
    CARDS: "card remainders: no part is so small",
    GPU_SLICES: "card remainders: slices of the card",
    "cpus": "CPUs",
    "mem": "memory",
}


class Part(Struct, frozen=True, order=True):
    """What a task asks for of one shared card: GiB of its memory, slices, and CPUs and MiB beside it."""

    mem_gib: int
    slices: int
    cpus: float
    mem: float


class Remainder(Struct, frozen=True):
    """One shared card: GiB that are free, and how many are left when parts fill it; `causes`: what lacks then."""

    agent_id: str
    card: int
    free_gib: int
    stranded_gib: int
    causes: tuple[str, ...]


def parts_of(apps: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the parts of cards that apps and pods ask for, the largest first; of several cards each by itself."""
    found = {
        Part(amount, ask.weight, float(wish.amounts.get("cpus", 0)), float(wish.amounts.get("mem", 0)))
        for wish in map(wish_of, apps)
        if wish.instances > 0
        for ask in wish.shares
        for amount in ask.mem_gib
        if amount > 0
    }
    return sorted(found, reverse=True)


def remainders(documents: Sequence[Mapping[str, Any]], parts: Sequence[Part]) -> list[Remainder]:
    """Return every shared card that has memory free, of a master's `slaves`; the one with most stranded first.

    Cards are filled in thought, one after another, with as many of the largest part as fit, then of the next.
    """
    found = []
    for document in documents:
        agent = read_agent(document)
        if not agent.takes_tasks:
            continue
        memory, slices = _free(document, GPU_MEM), _free(document, GPU_SLICES)
        beside = {name: agent.amount("free", name) + agent.amount("offered", name) for name in ("cpus", "mem")}
        for card, free in sorted(memory.items()):
            left = {CARDS: float(free), GPU_SLICES: float(slices.get(card, 0)), **beside}
            for part in parts:
                asked = _asked(part)
                fitting = min(int((left[name] + 1e-9) // amount) for name, amount in asked.items() if amount)
                left = {name: left[name] - max(0, fitting) * asked[name] for name in left}
            beside = {name: left[name] for name in beside}
            stranded = round(left[CARDS])
            found.append(Remainder(agent.id, card, free, stranded, _causes(left, parts) if stranded else ()))
    return sorted(found, key=lambda one: (-one.stranded_gib, -one.free_gib, one.agent_id, one.card))


def _asked(part: Part) -> dict[str, float]:
    return {CARDS: part.mem_gib, GPU_SLICES: part.slices, "cpus": part.cpus, "mem": part.mem}


def _causes(left: Mapping[str, float], parts: Sequence[Part]) -> tuple[str, ...]:
    """Return what lacks for the part that lacks least."""
    lacks = [tuple(name for name, amount in _asked(part).items() if amount > left[name] + 1e-9) for part in parts]
    return min(lacks, key=lambda lack: (CARDS in lack, len(lack)), default=(CARDS,))


def _free(document: Mapping[str, Any], name: str) -> dict[int, int]:
    """Return how many units of each card are not used; what is in an offer is free."""
    used = _units((document.get("used_resources") or {}).get(name), name)
    total = _units((document.get("resources") or {}).get(name), name)
    free = {card: len(set(positions) - set(used.get(card, ()))) for card, positions in total.items()}
    return {card: count for card, count in free.items() if count}


def _units(text: Any, name: str) -> dict[int, list[int]]:
    try:
        return units(Resources.parse(f"{name}:{text}"), name) if text else {}
    except BadResources:
        return {}
