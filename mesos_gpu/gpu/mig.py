"""The instances of a GPU in MIG mode, and the nodes that open them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.binding import INVALID_ARGUMENT, NOT_FOUND, Binding, code_of, optional, text_of
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.numbers import PROC_DEVICES, read_character_majors

MIG_MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
_CAPS_MAJOR = "nvidia-caps"
_READABLE = 0o444


class Capabilities(Struct, frozen=True):
    """Where the kernel says which node opens which instance. Only these nodes isolate instances from each other."""

    proc_devices: Path = PROC_DEVICES
    mig_minors: Path = MIG_MINORS
    folder: Path = CAPABILITIES

    def nodes(self, gpu_minor: int, gpu_instance: int, compute_instance: int) -> tuple[DeviceNode, ...]:
        """Return the nodes of a GPU instance and of a compute instance in it. Raises DeviceError for unknown ones."""
        major = read_character_majors(self.proc_devices).get(_CAPS_MAJOR)
        if major is None:
            raise DeviceError(f"{self.proc_devices} has no {_CAPS_MAJOR}, which MIG instances need")
        try:
            minors = mig_minors(self.mig_minors.read_text(encoding="ascii", errors="replace"))
        except OSError as error:
            raise DeviceError(f"cannot read {self.mig_minors}: {error.strerror}") from error
        instance = f"gi{gpu_instance}"
        return tuple(
            self._node(major, minors, gpu_minor, place) for place in (instance, f"{instance}/ci{compute_instance}")
        )

    def _node(self, major: int, minors: dict[str, int], gpu_minor: int, place: str) -> DeviceNode:
        minor = minors.get(f"gpu{gpu_minor}/{place}/access")
        if minor is None:
            raise DeviceError(f"{self.mig_minors} has no gpu{gpu_minor}/{place}/access")
        mode = self._mode(self.folder / f"gpu{gpu_minor}" / "mig" / place / "access")
        return DeviceNode(f"/dev/nvidia-caps/nvidia-cap{minor}", major, minor, mode)

    @staticmethod
    def _mode(path: Path) -> int:
        """Return the mode that the driver wants the node to have; readable by all where it does not say."""
        try:
            found = re.search(r"^DeviceFileMode:\s*(\d+)\s*$", path.read_text(errors="replace"), re.MULTILINE)
        except OSError:
            return _READABLE
        return int(found[1]) & 0o777 if found else _READABLE


REAL_CAPABILITIES = Capabilities()
"""Those of this machine's kernel."""


def mig_minors(text: str) -> dict[str, int]:
    """Return minor numbers by capability, such as `gpu0/gi1/access`, from the text of mig-minors.

    The number after `gpu` is the GPU's minor. The file lists more than there is.
    """
    words = (line.split() for line in text.splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdecimal()}


def instances(nvml: Binding, handle: Any, whole: Gpu, capabilities: Capabilities) -> Iterator[Gpu]:
    """Yield the MIG instances of `whole`. Slots may be sparse: an empty one does not end the list.

    Raises NVMLError when a slot does not answer, DeviceError when the nodes of an instance are unknown.
    """
    for slot in range(optional(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except nvml.NVMLError as error:
            if code_of(error) in (INVALID_ARGUMENT, NOT_FOUND):
                continue
            raise
        yield _instance(nvml, part, whole, capabilities)


def _instance(nvml: Binding, part: Any, whole: Gpu, capabilities: Capabilities) -> Gpu:
    gpu_instance, compute_instance = nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part)
    name = optional(nvml, nvml.nvmlDeviceGetName, part)
    memory = optional(nvml, nvml.nvmlDeviceGetMemoryInfo, part)
    nodes = capabilities.nodes(whole.minor, gpu_instance, compute_instance)
    return replace(
        whole,
        uuid=text_of(nvml.nvmlDeviceGetUUID(part)),
        name=f"{whole.name} MIG" if name is None else text_of(name),
        memory_mib=None if memory is None else int(memory.total) >> 20,
        mig=MigInstance(whole.uuid, gpu_instance, compute_instance, nodes),
    )
