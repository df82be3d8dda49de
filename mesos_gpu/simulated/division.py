"""A simulated card in MIG mode: which instances there are, and making and ending them. Pure.

Sources: nvml.h, "Multi Instance GPU Management" (what is asked, and the numbers of refusals); the numbers of nodes are
those that the driver lists in /proc/driver/nvidia-caps/mig-minors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from mesos_gpu.simulated.machine import Code, Machine, Refused

MOST_INSTANCES = 7
_PER_CARD, _PER_INSTANCE, _FIRST = 135, 9, 3
_PARTS_FROM, _PER_PART = 1000, 100


class NvmlCode(IntEnum):
    """Why something is refused: numbers of nvmlReturn_t."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NOT_FOUND = 6
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of instance: `id` creates it, `slices` are of compute, `size` of memory, `starts` where it may begin."""

    id: int
    slices: int
    size: int
    starts: tuple[int, ...]
    most: int
    name: str


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance in its place. `number` is what NVML calls it by, `computes` whether it has its compute instance."""

    number: int
    profile: int
    start: int
    size: int
    uuid: str
    computes: bool = False


def minors(card: int, number: int) -> tuple[int, int]:
    """Return the minor numbers of the nodes of a GPU instance, and of its first compute instance."""
    first = _FIRST + card * _PER_CARD + number * _PER_INSTANCE
    return first, first + 1


def part_of(card: int, number: int) -> int:
    """Return the number that an instance has among the cards."""
    return _PARTS_FROM + card * _PER_PART + number


class Division:
    """The instances of one card by slot, the place in which NVML lists them. `memory` is that of the card, in bytes."""

    def __init__(
        self, memory: int, profiles: Iterable[Profile], instances: Mapping[int, Instance] | None = None
    ) -> None:
        self.profiles = {profile.id: profile for profile in profiles}
        self._memory = memory
        self._whole = max(max(one.starts) + one.size for one in self.profiles.values())
        self.instances: dict[int, Instance] = dict(instances or {})

    def bytes_of(self, slot: int) -> int:
        """Return the memory of an instance."""
        return self._memory * self.get(slot).size // self._whole

    def get(self, slot: int) -> Instance:
        """Return the instance in a slot. Raises Refused."""
        try:
            return self.instances[slot]
        except KeyError:
            raise Refused(NvmlCode.NOT_FOUND) from None

    def line(self, slot: int) -> str:
        """Return an instance in words, as `instance_of` reads it."""
        one = self.get(slot)
        numbers = (slot, one.number, one.profile, one.start, one.size, int(one.computes), self.bytes_of(slot))
        return ":".join([*map(str, numbers), one.uuid, self.profiles[one.profile].name])

    def create(self, profile_id: int, start: int, uuid: str) -> int:
        """Make an instance; return its slot. Raises Refused where there is no such place, or it is taken."""
        profile = self.profiles.get(profile_id)
        if profile is None:
            raise Refused(NvmlCode.NOT_SUPPORTED)
        if start not in profile.starts:
            raise Refused(NvmlCode.INVALID_ARGUMENT)
        there = self.instances.values()
        wanted = set(range(start, start + profile.size))
        if any(wanted & set(range(one.start, one.start + one.size)) for one in there):
            raise Refused(NvmlCode.INSUFFICIENT_RESOURCES)
        if sum(one.profile == profile_id for one in there) >= profile.most or len(there) >= MOST_INSTANCES:
            raise Refused(NvmlCode.INSUFFICIENT_RESOURCES)
        slot = next(slot for slot in range(MOST_INSTANCES) if slot not in self.instances)
        number = next(number for number in range(1, 15) if all(one.number != number for one in there))
        self.instances[slot] = Instance(number, profile_id, start, profile.size, uuid)
        return slot

    def compute(self, slot: int) -> None:
        """Give an instance its compute instance, of the whole of it. Raises Refused."""
        if self.get(slot).computes:
            raise Refused(NvmlCode.INSUFFICIENT_RESOURCES)
        self.instances[slot] = replace(self.get(slot), computes=True)

    def end_compute(self, slot: int, *, used: bool) -> None:
        """End the compute instance of an instance, which nothing may run on. Raises Refused."""
        if used:
            raise Refused(NvmlCode.IN_USE)
        self.instances[slot] = replace(self.get(slot), computes=False)

    def destroy(self, slot: int) -> None:
        """End an instance. Raises Refused while it has a compute instance."""
        if self.get(slot).computes:
            raise Refused(NvmlCode.IN_USE)
        del self.instances[slot]


def instance_of(line: str) -> tuple[int, Instance]:
    """Return the slot and the instance that a line tells."""
    slot, number, profile, start, size, computes, _, uuid, _ = line.split(":")
    return int(slot), Instance(int(number), int(profile), int(start), int(size), uuid, computes == "1")


def shown(division: Division) -> dict[str, Any]:
    """Return the instances of a card as JSON, by slot."""
    return {
        str(slot): {
            "gpu_instance": one.number,
            "profile": one.profile,
            "name": division.profiles[one.profile].name,
            "start": one.start,
            "size": one.size,
            "uuid": one.uuid,
            "computes": one.computes,
            "bytes": division.bytes_of(slot),
        }
        for slot, one in sorted(division.instances.items())
    }


def read(documents: Mapping[str, Mapping[str, Any]]) -> dict[int, Instance]:
    """Return instances by slot, of what `shown` returned."""
    return {
        int(slot): Instance(
            int(one["gpu_instance"]),
            int(one["profile"]),
            int(one["start"]),
            int(one["size"]),
            str(one["uuid"]),
            bool(one["computes"]),
        )
        for slot, one in documents.items()
    }


class Divisions:
    """The cards of a machine that are in MIG mode. To whoever runs on an instance, it is a card of the machine.

    `profiles` are those of each such card, `before` the instances that it begins with.
    """

    def __init__(
        self,
        machine: Machine,
        profiles: Mapping[int, Iterable[Profile]] | None = None,
        before: Mapping[int, Mapping[int, Instance]] | None = None,
    ) -> None:
        self._machine = machine
        self.cards: dict[int, Division] = {}
        for card, kinds in (profiles or {}).items():
            division = self.cards[card] = Division(machine.sizes[card], kinds, (before or {}).get(card))
            for slot, one in division.instances.items():
                if one.computes:
                    machine.add(part_of(card, one.number), division.bytes_of(slot))

    def seen(self, card: int, may_use: Callable[[int], bool]) -> dict[int, Instance]:
        """Return the instances that somebody sees who may use these minor numbers, by slot."""
        there = self.cards[card].instances if card in self.cards else {}
        return {slot: one for slot, one in sorted(there.items()) if may_use(minors(card, one.number)[0])}

    def meant(self, card: int, slot: int | None, may_use: Callable[[int], bool]) -> int:
        """Return the card to run on: of one in MIG mode the first instance, or that in the slot. Raises Refused."""
        if card not in self.cards:
            return card
        for at, one in self.seen(card, may_use).items():
            if slot in (None, at) and one.computes:
                return part_of(card, one.number)
        raise Refused(Code.INVALID_DEVICE)

    def parts(self, card: int) -> list[int]:
        """Return the numbers of the instances of a card that something can run on."""
        there = self.cards[card].instances.values() if card in self.cards else ()
        return [part_of(card, one.number) for one in there if one.computes]

    def compute(self, card: int, slot: int) -> None:
        """Give an instance its compute instance: something can run on it from now on. Raises Refused."""
        division = self._of(card)
        division.compute(slot)
        self._machine.add(part_of(card, division.get(slot).number), division.bytes_of(slot))

    def end_compute(self, card: int, slot: int) -> None:
        """End the compute instance of an instance. Raises Refused while something runs on it."""
        division = self._of(card)
        one = division.get(slot)
        part = part_of(card, one.number)
        used = one.computes and any(part in process.contexts.values() for process in self._machine.processes.values())
        division.end_compute(slot, used=used)
        if one.computes:
            self._machine.remove(part)

    def create(self, card: int, profile: int, start: int, uuid: str) -> int:
        """Make an instance, without a compute instance; return its slot. Raises Refused."""
        return self._of(card).create(profile, start, uuid)

    def destroy(self, card: int, slot: int) -> None:
        """End an instance. Raises Refused."""
        self._of(card).destroy(slot)

    def _of(self, card: int) -> Division:
        try:
            return self.cards[card]
        except KeyError:
            raise Refused(NvmlCode.NOT_SUPPORTED) from None
