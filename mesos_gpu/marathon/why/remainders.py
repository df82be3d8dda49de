"""What is left of GPUs that tasks share and that nothing asked for could use: where, and for want of what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.why.fragments import left_of
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, room_by_card

CARDS = "cards"
CAUSES = {
    CARDS: "card remainders: no part is so small",
    GPU_SLICES: "card remainders: slices of the card",
    "cpus": "CPUs",
    "mem": "memory",
}


class Part(Struct, frozen=True, order=True):
    """What a task requests of one shared card: GiB of its memory, slices, and thousandths of CPUs and MiB."""

    mem_gib: int
    slices: int
    cpus: int
    mem: int


class Remainder(Struct, frozen=True):
    """One shared card: GiB that are free, and how many are left when parts fill it; `causes`: what lacks then."""

    agent_id: str
    card: int
    free_gib: int
    stranded_gib: int
    causes: tuple[str, ...]


def parts_of(specs: Iterable[RunSpec]) -> list[Part]:
    """Return the parts of cards that apps and pods ask for, the largest first; of several cards each by itself."""
    found = {
        Part(amount, ask.weight, spec.asked.get("cpus", 0), spec.asked.get("mem", 0))
        for spec in specs
        if spec.instances > 0
        for ask in spec.shares
        if ask is not None
        for amount in ask.mem_gib
        if amount > 0
    }
    return sorted(found, reverse=True)


def remainders(machines: Sequence[Machine], parts: Sequence[Part]) -> list[Remainder]:
    """Return every shared card that has memory free; the one with most stranded first.

    Cards are filled in thought, one after another, with as many of the largest part as fit, then of the next.
    """
    found = []
    for machine in machines:
        if not machine.takes_tasks:
            continue
        memory, slices = room_by_card(machine.free, GPU_MEM), room_by_card(machine.free, GPU_SLICES)
        beside = {name: amount for name, amount in left_of(machine).items() if name in ("cpus", "mem")}
        for card, free in sorted(memory.items()):
            left = {CARDS: free, GPU_SLICES: slices.get(card, 0), **beside}
            for part in parts:
                asked = _asked(part)
                fitting = min(left[name] // amount for name, amount in asked.items() if amount)
                left = {name: left[name] - max(0, fitting) * asked[name] for name in left}
            beside = {name: left[name] for name in beside}
            stranded = left[CARDS]
            found.append(Remainder(machine.id, card, free, stranded, _causes(left, parts) if stranded else ()))
    return sorted(found, key=lambda one: (-one.stranded_gib, -one.free_gib, one.agent_id, one.card))


def _asked(part: Part) -> dict[str, int]:
    return {CARDS: part.mem_gib, GPU_SLICES: part.slices, "cpus": part.cpus, "mem": part.mem}


def _causes(left: Mapping[str, int], parts: Sequence[Part]) -> tuple[str, ...]:
    """Return what lacks for the part that lacks least."""
    lacks = [tuple(name for name, amount in _asked(part).items() if amount > left[name]) for part in parts]
    return min(lacks, key=lambda lack: (CARDS in lack, len(lack)), default=(CARDS,))
