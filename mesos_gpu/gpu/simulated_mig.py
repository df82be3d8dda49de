"""A simulated GPU in MIG mode: the program that plays it divides it, and keeps in a file how."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mesos_gpu.errors import Conflict, DeviceError
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.mig_layout import Instance, MigProfile, Placed
from mesos_gpu.simulated.client import Cards, CardsRefused, CardsSilent
from mesos_gpu.simulated.divided import kept
from mesos_gpu.simulated.division import Division, NvmlCode, Profile, instance_of, minors
from mesos_gpu.simulated.division import Instance as Slot

_NODES = "/dev/nvidia-caps/nvidia-cap"


def played(profiles: Sequence[MigProfile]) -> tuple[Profile, ...]:
    """Return profiles as the program that plays cards takes them; `3g.20gb` has three slices of compute."""
    return tuple(
        Profile(one.id, int(one.name.partition("g")[0]), one.size, one.starts, one.most, one.name) for one in profiles
    )


def parts_of(board: Gpu, profiles: Sequence[MigProfile], kept_in: Path, caps_major: int) -> Iterator[tuple[int, Gpu]]:
    """Yield the instances of a GPU that can be given, each with its slot, as the file says."""
    division = Division((board.memory_mib or 0) << 20, played(profiles), kept(kept_in).get(board.minor))
    for slot, one in sorted(division.instances.items()):
        if not one.computes:
            continue
        paths = (DeviceNode(f"{_NODES}{minor}", caps_major, minor, 0o444) for minor in minors(board.minor, one.number))
        part = replace(
            board,
            uuid=one.uuid,
            name=f"{board.name} MIG {division.profiles[one.profile].name}",
            memory_mib=division.bytes_of(slot) >> 20,
            mig=MigInstance(board.uuid, one.number, 0, tuple(paths)),
        )
        yield slot, part


class SimulatedMig:
    """One simulated GPU while it is divided; see `MigCard`. `control` is where the program answers."""

    def __init__(
        self, board: Gpu, profiles: Sequence[MigProfile], control: Path, holders: Mapping[str, str] | None = None
    ) -> None:
        self.uuid, self.model, self.profiles = board.uuid, board.name, tuple(profiles)
        self._card, self._control, self._holders = board.minor, control, holders or {}

    def instances(self) -> Sequence[Instance]:
        """Return the instances that are there, and by whom each is used. Raises DeviceError."""
        names = {profile.id: profile.name for profile in self.profiles}
        found = []
        for slot, one in self._slots().items():
            running = self._ask(f"processes {self._card}.{slot}") if one.computes else ""
            user = self._holders.get(one.uuid) or (f"process {running.partition(':')[0]}" if running else None)
            place = Placed(one.start, one.size, names[one.profile])
            found.append(Instance(place, one.number, user, one.uuid if one.computes else ""))
        return tuple(found)

    def create(self, place: Placed) -> None:
        """Make an instance there, with its compute instance. All or nothing. Raises DeviceError."""
        profile = next(one for one in self.profiles if one.name == place.profile)
        slot = self._ask(f"mig-create {self._card} {profile.id} {place.start} MIG-{uuid.uuid4()}")
        self._ask(f"mig-compute {self._card} {slot}")

    def destroy(self, instance: Instance) -> None:
        """End an instance. Raises Conflict when something has begun to use it, DeviceError."""
        for slot, one in self._slots().items():
            if one.number == instance.id:
                if one.computes:
                    self._ask(f"mig-end {self._card} {slot}")
                self._ask(f"mig-destroy {self._card} {slot}")

    def _slots(self) -> dict[int, Slot]:
        return dict(map(instance_of, self._ask(f"mig {self._card}").split()))

    def _ask(self, words: str) -> str:
        try:
            with Cards(self._control) as cards:
                return cards.ask(words)
        except CardsRefused as refused:
            if refused.code == NvmlCode.IN_USE:
                raise Conflict(f"an instance of {self.uuid} cannot be destroyed: it is in use by now") from None
            raise DeviceError(f"simulated GPU {self.uuid}: {refused}") from None
        except CardsSilent as error:
            raise DeviceError(f"simulated GPU {self.uuid} cannot be divided: {error}") from None
