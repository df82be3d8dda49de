"""What a GPU is to everyone above this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

NVIDIA_MAJOR = 195
"""Character device major of /dev/nvidia<N> and /dev/nvidiactl, fixed by the driver."""


@dataclass(frozen=True, slots=True, order=True)
class Gpu:
    """One whole GPU. Ordered by minor number, as Mesos orders by (major, minor).

    `index` is NVML's (what `nvidia-smi` prints), which need not equal `minor`. A field that the driver does not
    report is None.
    """

    minor: int
    index: int
    uuid: str
    name: str
    memory_mib: int | None = None
    bus_id: str | None = None
    mig_enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character device node: where it lies in a container, and its number."""

    path: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


class GpuDriver(Protocol):
    """This machine's GPUs. NVML, the simulated driver and no driver at all keep the same promises."""

    @property
    def kind(self) -> str:
        """Return `nvml`, `simulated` or `none`, as `--gpu_driver` names it."""

    @property
    def version(self) -> str | None:
        """Return the driver's version, such as `550.54.15`; None without a driver."""

    def gpus(self) -> Sequence[Gpu]:
        """Return every GPU, by index. Raises DeviceError when the driver fails."""

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return the nodes every GPU container needs: nvidiactl, nvidia-uvm and, where present, nvidia-uvm-tools."""
