"""A GPU in MIG mode as NVML divides it: which profiles it has, which instances are there, and making and ending them.

Sources: nvml.h, "Multi Instance GPU Management"; a profile is asked for by its number in the enumeration, and an
instance is created by the id that the answer holds. A compute instance has to be destroyed before its GPU instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_uint
from typing import Any

from mesos_gpu.errors import Conflict, DeviceError
from mesos_gpu.gpu.binding import INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, code_of, optional, text_of
from mesos_gpu.gpu.mig_layout import Instance, MigCard, MigProfile, Placed

IN_USE = 19
ENOUGH = 64


class MigDevice:
    """The GPU with this index or UUID. `nvml` is pynvml, opened. `holders`: who holds instances, by UUID, in words.

    Raises DeviceError when there is no such GPU, or it is not in MIG mode.
    """

    def __init__(self, nvml: Any, gpu: str, holders: Mapping[str, str] | None = None) -> None:
        self._nvml, self._holders = nvml, holders or {}
        try:
            by_index = gpu.isdecimal()
            self._handle = (
                nvml.nvmlDeviceGetHandleByIndex(int(gpu)) if by_index else nvml.nvmlDeviceGetHandleByUUID(gpu)
            )
            self.uuid, self.model = (
                text_of(nvml.nvmlDeviceGetUUID(self._handle)),
                text_of(nvml.nvmlDeviceGetName(self._handle)),
            )
        except nvml.NVMLError as error:
            raise DeviceError(f"NVML knows no GPU {gpu}: {error}") from error
        mode = optional(nvml, nvml.nvmlDeviceGetMigMode, self._handle)
        if mode is None:
            raise DeviceError(f"GPU {gpu} ({self.model}) cannot be divided: it knows no MIG mode")
        if not mode[0]:
            raise DeviceError(
                f"GPU {gpu} ({self.model}) is not in MIG mode; while it is idle: nvidia-smi -i {gpu} -mig 1"
            )
        self._by_name = {profile.name: (profile, slices) for profile, slices in self._profiles()}

    @property
    def profiles(self) -> Sequence[MigProfile]:
        """Return the profiles that it has, with their places."""
        return tuple(profile for profile, _ in self._by_name.values())

    def instances(self) -> Sequence[Instance]:
        """Return the instances that are there, and by whom each is used: a holder, or a process. Raises DeviceError."""
        names = {profile.id: profile.name for profile in self.profiles}
        shown = {instance: (uuid, user) for instance, uuid, user in self._devices()}
        found = []
        for handle in self._handles():
            info = self._nvml.nvmlGpuInstanceGetInfo(handle)
            place = Placed(int(info.placement.start), int(info.placement.size), names[int(info.profileId)])
            uuid, user = shown.get(int(info.id), ("", None))
            found.append(Instance(place, int(info.id), user, uuid))
        return tuple(found)

    def create(self, place: Placed) -> None:
        """Make an instance there, with one compute instance of its whole size. All or nothing. Raises DeviceError."""
        nvml = self._nvml
        profile, slices = self._by_name[place.profile]
        where = nvml.c_nvmlGpuInstancePlacement_t(place.start, place.size)
        what = f"make {place.profile} at slice {place.start}"
        try:
            instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(self._handle, profile.id, byref(where))
        except nvml.NVMLError as error:
            raise DeviceError(f"NVML could not {what}: {error}") from error
        try:
            nvml.nvmlGpuInstanceCreateComputeInstance(instance, self._whole(instance, slices))
        except (nvml.NVMLError, DeviceError) as error:
            optional(nvml, nvml.nvmlGpuInstanceDestroy, instance)
            raise DeviceError(f"NVML could not {what}: {error}") from error

    def destroy(self, instance: Instance) -> None:
        """End an instance. Raises Conflict when something has begun to use it, DeviceError."""
        nvml = self._nvml
        for handle in self._handles():
            if int(nvml.nvmlGpuInstanceGetInfo(handle).id) != instance.id:
                continue
            try:
                for part in self._parts(handle):
                    nvml.nvmlComputeInstanceDestroy(part)
                nvml.nvmlGpuInstanceDestroy(handle)
            except nvml.NVMLError as error:
                what = f"{instance.place.profile} at slice {instance.place.start}"
                if code_of(error) == IN_USE:
                    raise Conflict(f"{what} cannot be destroyed: it is in use by now; try again later") from error
                raise DeviceError(f"NVML could not destroy {what}: {error}") from error
            return

    def _profiles(self) -> Iterator[tuple[MigProfile, int]]:
        nvml = self._nvml
        for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = optional(nvml, nvml.nvmlDeviceGetGpuInstanceProfileInfo, self._handle, number)
            if info is None:
                continue
            count = c_uint(0)
            nvml.nvmlDeviceGetGpuInstancePossiblePlacements(self._handle, info.id, None, byref(count))
            places = (nvml.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
            nvml.nvmlDeviceGetGpuInstancePossiblePlacements(self._handle, info.id, places, byref(count))
            starts = tuple(sorted(int(place.start) for place in places[: count.value]))
            if starts:
                name = re.sub(r"^MIG\s+", "", text_of(info.name)).lower()
                yield (
                    MigProfile(name, int(info.id), int(places[0].size), starts, int(info.instanceCount)),
                    int(info.sliceCount),
                )

    def _handles(self) -> Iterator[Any]:
        nvml = self._nvml
        for profile in self.profiles:
            count, handles = c_uint(0), (nvml.c_nvmlGpuInstance_t * ENOUGH)()
            try:
                nvml.nvmlDeviceGetGpuInstances(self._handle, profile.id, handles, byref(count))
            except nvml.NVMLError as error:
                if code_of(error) == NOT_SUPPORTED:
                    continue
                raise DeviceError(f"NVML could not list the instances of {self.uuid}: {error}") from error
            # An array of pointers yields numbers; the functions want pointers.
            yield from (nvml.c_nvmlGpuInstance_t.from_buffer_copy(handles, at * 8) for at in range(count.value))

    def _parts(self, instance: Any) -> Iterator[Any]:
        nvml = self._nvml
        for info in self._compute_profiles(instance):
            count, handles = c_uint(0), (nvml.c_nvmlComputeInstance_t * ENOUGH)()
            nvml.nvmlGpuInstanceGetComputeInstances(instance, info.id, handles, byref(count))
            yield from (nvml.c_nvmlComputeInstance_t.from_buffer_copy(handles, at * 8) for at in range(count.value))

    def _compute_profiles(self, instance: Any) -> Iterator[Any]:
        nvml = self._nvml
        for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            info = optional(nvml, nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, number, 0)
            if info is not None:
                yield info

    def _whole(self, instance: Any, slices: int) -> int:
        for info in self._compute_profiles(instance):
            if int(info.sliceCount) == slices:
                return int(info.id)
        raise DeviceError(f"it has no compute instance of {slices} slices")

    def _devices(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield of each MIG device its GPU instance, its UUID, and who uses it: a holder, else a process, else None."""
        nvml = self._nvml
        for slot in range(optional(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, self._handle) or 0):
            try:
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, slot)
            except nvml.NVMLError as error:
                if code_of(error) in (INVALID_ARGUMENT, NOT_FOUND):
                    continue
                raise DeviceError(f"MIG device {slot} of {self.uuid} does not answer: {error}") from error
            uuid = text_of(nvml.nvmlDeviceGetUUID(part))
            running = optional(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, part)
            user = self._holders.get(uuid) or (f"process {running[0].pid}" if running else None)
            yield int(nvml.nvmlDeviceGetGpuInstanceId(part)), uuid, user


def apply(device: MigCard, destroy: Sequence[Instance], create: Sequence[Placed]) -> None:
    """Carry a plan out. When a step fails, what was done is undone as far as it goes. Raises Conflict, DeviceError."""
    ended: list[Instance] = []
    made: list[Placed] = []
    try:
        for instance in destroy:
            device.destroy(instance)
            ended.append(instance)
        for place in create:
            device.create(place)
            made.append(place)
    except (Conflict, DeviceError) as error:
        left = _undo(device, ended, made)
        if left:
            raise DeviceError(f"{error}. Not all could be undone: {'; '.join(left)}") from error
        raise


def _undo(device: MigCard, ended: Sequence[Instance], made: Sequence[Placed]) -> list[str]:
    wrong = []
    for instance in device.instances():
        if instance.place in made:
            try:
                device.destroy(instance)
            except (Conflict, DeviceError) as error:
                wrong.append(str(error))
    for instance in ended:
        try:
            device.create(instance.place)
        except DeviceError as error:
            wrong.append(str(error))
    return wrong
