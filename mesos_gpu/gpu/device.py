"""What a GPU is to everyone above this room. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import total_ordering
from typing import Protocol

from mesos_gpu.gpu.mig_layout import MigCard

NVIDIA_MAJOR = 195
"""Character device major of /dev/nvidia<N> and /dev/nvidiactl, fixed by the driver."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character device node: where it lies in a container, and its number."""

    path: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A part of a GPU in MIG mode. `nodes` are what opens it, beside the node of the whole GPU: those of the GPU
    instance and of the compute instance under /dev/nvidia-caps.
    """

    parent_uuid: str
    gpu_instance: int
    compute_instance: int
    nodes: tuple[DeviceNode, ...]


@total_ordering
@dataclass(frozen=True, slots=True)
class Gpu:
    """One whole GPU, or one MIG instance that is given as if it were one. The uuid names it.

    `index` is NVML's (what `nvidia-smi` prints), which need not equal `minor`. The instances of one GPU have its
    minor, index and bus id. Ordered by minor number, as Mesos orders by (major, minor), then by instance. A field that
    the driver does not report is None.
    """

    minor: int
    index: int
    uuid: str
    name: str
    memory_mib: int | None = None
    bus_id: str | None = None
    mig_enabled: bool | None = None
    mig: MigInstance | None = None

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Gpu):
            return NotImplemented
        if self.minor != other.minor:  # Nearly always; and pools of a thousand GPUs are sorted often.
            return self.minor < other.minor
        return self._place() < other._place()

    def _place(self) -> tuple[int, int, int, str, str]:
        instance = (-1, -1) if self.mig is None else (self.mig.gpu_instance, self.mig.compute_instance)
        return (self.index, *instance, self.uuid, self.name)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU; `pid` is the host's, `memory_mib` None where the driver does not report it."""

    pid: int
    name: str
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """What a GPU does at one moment; None where the driver does not report it.

    Errors are uncorrected ones of memory with ECC since the driver was loaded: in the first cache, the second, and the
    GPU's memory. `energy_mj` and `pci_replays` count since then, too. Kilobytes a second are 1,000 bytes; `remapped_`
    are rows of memory that others stand in for, after errors that could be corrected or not.
    """

    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    utilization_percent: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    memory_busy_percent: int | None = None
    encoder_percent: int | None = None
    decoder_percent: int | None = None
    core_mhz: int | None = None
    memory_mhz: int | None = None
    memory_temperature_c: int | None = None
    energy_mj: int | None = None
    l1_errors: int | None = None
    l2_errors: int | None = None
    memory_errors: int | None = None
    bar1_used_mib: int | None = None
    pci_rx_kb_s: int | None = None
    pci_tx_kb_s: int | None = None
    pci_replays: int | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remapping_failed: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None


@dataclass(frozen=True, slots=True)
class GpuDetails:
    """What a GPU is, beside what names it: it hardly changes while the driver runs. None where nobody reports it.

    `arch` is its CUDA compute capability, such as `6.0`; `brand` as libnvidia-container calls it, such as `Tesla`.
    Clocks are the highest; bandwidths are in 1,000,000 bytes a second.
    """

    arch: str | None = None
    brand: str | None = None
    cores: int | None = None
    power_w: int | None = None
    numa_node: int | None = None
    bar1_mib: int | None = None
    pci_mb_s: int | None = None
    core_mhz: int | None = None
    memory_mhz: int | None = None
    ecc: bool | None = None
    shared_kib: int | None = None
    constant_kib: int | None = None
    l2_kib: int | None = None
    memory_mb_s: int | None = None


class Level(IntEnum):
    """Where the ways of two GPUs to each other meet; lower is nearer. NVML's numbers (nvmlGpuTopologyLevel_t)."""

    SAME_BOARD = 0
    SINGLE_SWITCH = 10
    MULTIPLE_SWITCHES = 20
    HOST_BRIDGE = 30
    NUMA_NODE = 40
    SYSTEM = 50


@dataclass(frozen=True, slots=True)
class Link:
    """How two GPUs are connected: over PCIe, and by how many NVLinks (those through a switch count for every pair)."""

    level: Level = Level.SYSTEM
    nvlinks: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """How each pair of GPUs is connected, by the two uuids. A pair that is not there is as far apart as can be."""

    links: Mapping[frozenset[str], Link] = field(default_factory=dict)

    def between(self, one: Gpu, other: Gpu) -> Link:
        """Return how two GPUs are connected; two instances of one GPU share a board."""
        first, second = _board(one), _board(other)
        if first == second:
            return Link(Level.SAME_BOARD)
        return self.links.get(frozenset((first, second)), Link())


def _board(gpu: Gpu) -> str:
    return gpu.uuid if gpu.mig is None else gpu.mig.parent_uuid


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """A GPU, or with `uuid` None perhaps every GPU, may be ill.

    `uuid` is that of a `Gpu` which the driver lists. `xid` is NVIDIA's error number where the event has one; `what`
    is a sentence for a person.
    """

    uuid: str | None
    xid: int | None
    what: str


class CardMemory(Protocol):
    """Who has how much of a card's memory. It may block: not for a loop."""

    def by_process(self, gpu: Gpu) -> Mapping[int, int] | None:
        """Return MiB by pid of the host; None where the driver does not tell. Raises DeviceError."""

    def can_limit(self, gpu: Gpu) -> bool:
        """Return whether the driver limits memory by cgroup."""

    def limit(self, gpu: Gpu, cgroup: str, mib: int | None) -> None:
        """Let the processes of a cgroup, by its path, have so much and no more; None: as they like.

        Raises DeviceError.
        """


class GpuDriver(Protocol):
    """This machine's GPUs. NVML, the simulated driver and no driver at all keep the same promises."""

    @property
    def kind(self) -> str:
        """Return `nvml`, `simulated` or `none`, as `--gpu_driver` names it."""

    @property
    def version(self) -> str | None:
        """Return the driver's version, such as `550.54.15`; None without a driver."""

    @property
    def cuda_version(self) -> str | None:
        """Return the newest CUDA that the driver runs, such as `12.4`; None where that is not known."""

    def gpus(self) -> Sequence[Gpu]:
        """Return every GPU, by index. Raises DeviceError when the driver fails."""

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return the nodes every GPU container needs: nvidiactl, nvidia-uvm and, where present, nvidia-uvm-tools."""

    def usage(self, gpu: Gpu) -> GpuUsage:
        """Return what `gpu` does now. Raises DeviceError when the GPU does not answer. It may block: not for a loop."""

    def memory(self) -> CardMemory | None:
        """Return who tells, and limits, what processes have of a GPU's memory; None where nobody can."""

    def details(self, gpu: Gpu) -> GpuDetails:
        """Return what `gpu` is, as far as it says; it never raises. It may block: not for a loop."""

    def topology(self) -> Topology:
        """Return how the GPUs are connected. A GPU that does not answer is left out of it; it never raises."""

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Call `on_event`, from a thread of the driver's, for each event from now on; return what ends that.

        The ending waits for the thread, so no event comes after it; it may be called twice.
        """

    def divided(self, gpu: str, holders: Mapping[str, str]) -> AbstractContextManager[MigCard]:
        """Open a GPU in MIG mode, by index or UUID, for as long as it is divided. It may block: not for a loop.

        `holders`: who holds instances of it, by UUID, in words; processes on them are found beside. Raises DeviceError
        for a GPU that is not here or not in MIG mode.
        """

    def retest(self, gpu: Gpu) -> str | None:
        """Return why `gpu` is not fit for use now; None when it is."""
