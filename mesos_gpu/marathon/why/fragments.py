"""GPUs and memory of shared GPUs that are free and that nothing in the mix could use, with the cause. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, room_by_card

ASKED = ("gpus", "cpus", "mem")
CARDS = "cards"
CARD_CAUSES = {
    CARDS: "card remainders: no part is so small",
    GPU_SLICES: "card remainders: slices of the card",
    "cpus": "CPUs",
    "mem": "memory",
}
CAUSES = {"cpus": "CPUs", "mem": "memory", "gpus": "GPUs: no size is so small"}


_NAMES = {"gpus": "too-few", "cpus": "cpus", "mem": "mem"}


class Size(Struct, frozen=True):
    """What one instance requests, in thousandths, and how many of that size run or wait."""

    amounts: Mapping[str, int]
    count: int


class Fragment(Struct, frozen=True):
    """One machine: `free` GPUs, of which `stranded` are left when the mix fills it; `causes`: what lacks then."""

    agent_id: str
    free: int
    stranded: int
    causes: tuple[str, ...]


def sizes_of(specs: Iterable[RunSpec], jobs: Sequence[Mapping[str, Any]]) -> list[Size]:
    """Return the sizes that ask for GPUs, the largest first: of apps and pods by instances, of jobs one each."""
    counts: dict[tuple[int, ...], int] = {}
    requests = [(spec.asked, spec.instances) for spec in specs]
    requests += [({name: milli((job.get("run") or {}).get(name) or 0) for name in ASKED}, 1) for job in jobs]
    for amounts, count in requests:
        if amounts.get("gpus") and count > 0:
            key = tuple(amounts.get(name, 0) for name in ASKED)
            counts[key] = counts.get(key, 0) + count
    ordered = sorted(counts.items(), key=lambda item: tuple(-amount for amount in item[0]))
    return [Size(dict(zip(ASKED, key, strict=True)), count) for key, count in ordered]


def fragments(machines: Sequence[Machine], sizes: Sequence[Size]) -> list[Fragment]:
    """Return every machine that has free GPUs, the one with most stranded first.

    A machine is filled in thought, with as many of the largest size as fit, then of the next; what is left then no
    size fits. Where nothing asks for GPUs nothing is stranded: nobody knows what these would be too few for.
    """
    found = []
    for machine in machines:
        left = left_of(machine)
        free = left["gpus"] // 1000
        if not free or not machine.takes_tasks:
            continue
        rest = filled(left, sizes)
        stranded = rest["gpus"] // 1000 if sizes else 0
        found.append(Fragment(machine.id, free, stranded, _causes(rest, sizes) if stranded else ()))
    return sorted(found, key=lambda one: (-one.stranded, -one.free, one.agent_id))


def left_of(machine: Machine) -> dict[str, int]:
    """Return what of a machine no task uses, whatever its role, in thousandths."""
    free = machine.free.filter(lambda resource: not resource.revocable)
    return {name: free.milli(name) for name in ASKED}


def filled(left: Mapping[str, int], sizes: Sequence[Size]) -> Mapping[str, int]:
    """Return what is left of a machine that is filled with sizes, the largest first."""
    for size in sizes:
        fitting = min(left[name] // asked for name, asked in size.amounts.items() if asked)
        left = {name: left[name] - max(0, fitting) * size.amounts[name] for name in ASKED}
    return left


def _causes(left: Mapping[str, int], sizes: Sequence[Size]) -> tuple[str, ...]:
    """Return what lacks for the size that lacks least."""
    lacks = [tuple(name for name in ASKED if size.amounts[name] > left[name]) for size in sizes]
    return min(lacks, key=lambda lack: ("gpus" in lack, len(lack)))


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
            found.append(Remainder(machine.id, card, free, stranded, _card_causes(left, parts) if stranded else ()))
    return sorted(found, key=lambda one: (-one.stranded_gib, -one.free_gib, one.agent_id, one.card))


def _asked(part: Part) -> dict[str, int]:
    return {CARDS: part.mem_gib, GPU_SLICES: part.slices, "cpus": part.cpus, "mem": part.mem}


def _card_causes(left: Mapping[str, int], parts: Sequence[Part]) -> tuple[str, ...]:
    """Return what lacks for the part that lacks least."""
    lacks = [tuple(name for name, amount in _asked(part).items() if amount > left[name]) for part in parts]
    return min(lacks, key=lambda lack: (CARDS in lack, len(lack)), default=(CARDS,))


def figures(
    machines: Sequence[Machine], specs: Sequence[RunSpec], jobs: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return gauges by name, as Marathon's are named. A GPU that lacks several things counts for the first of them."""
    found = fragments(machines, sizes_of(specs, jobs))
    cards = remainders(machines, parts_of(specs))
    by_cause = dict.fromkeys(CAUSES, 0)
    for one in found:
        if one.causes:
            by_cause[one.causes[0]] += one.stranded
    return {
        "gpus.free.gauge": sum(one.free for one in found),
        "gpus.unusable.gauge": sum(one.stranded for one in found),
        **{f"gpus.unusable.{_NAMES[cause]}.gauge": count for cause, count in by_cause.items()},
        "gpu-cards.free.gauge.gibibytes": sum(one.free_gib for one in cards),
        "gpu-cards.unusable.gauge.gibibytes": sum(one.stranded_gib for one in cards),
        "gpu-cards.unusable.remainders.gauge.gibibytes": sum(one.stranded_gib for one in cards if CARDS in one.causes),
    }
