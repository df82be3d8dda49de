"""GPUs that are free and that nothing in the mix of what is asked for could use: where, and for want of what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.mesos.resource import milli

ASKED = ("gpus", "cpus", "mem")
CAUSES = {"cpus": "CPUs", "mem": "memory", "gpus": "GPUs: no size is so small"}


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
