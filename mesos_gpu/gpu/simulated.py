"""GPUs that are not there: for laptops, demonstrations and tests. Device numbers and isolation are real."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu.device import (
    NVIDIA_MAJOR,
    CardMemory,
    DeviceNode,
    Gpu,
    GpuDetails,
    GpuUsage,
    HealthEvent,
    Topology,
)
from mesos_gpu.gpu.faults import Faults
from mesos_gpu.gpu.health import affected
from mesos_gpu.gpu.make import MAX_GPUS, Make
from mesos_gpu.gpu.mig_layout import MigCard
from mesos_gpu.gpu.mig_models import profiles_of
from mesos_gpu.gpu.numbers import PROC_DEVICES, read_character_majors
from mesos_gpu.gpu.simulated_mig import SimulatedMig, parts_of
from mesos_gpu.gpu.wirings import wiring_of
from mesos_gpu.simulated.client import Cards, CardsRefused, CardsSilent
from mesos_gpu.simulated.running import DIVIDED

_log = logging.getLogger(__name__)

SIMULATED_CUDA = "12.4"
"""What images that need some CUDA are told; kernels take time on simulated GPUs and compute nothing."""

UVM_MAJORS = (*range(120, 128), *range(60, 64))
"""What the kernel sets aside for local and experimental use and never gives out by itself (Documentation/admin-guide/
devices.txt), so the choice is the same after every restart and whatever module is loaded in between."""

IDLE_W, BUSY_W, IDLE_C, BUSY_C = 25.0, 250.0, 30, 65
"""As mesos_gpu/simulated/nvml.c says, too."""
ANSWER_S = 1.0
_IDLE = GpuUsage(
    memory_used_mib=0,
    utilization_percent=0,
    power_w=IDLE_W,
    temperature_c=IDLE_C,
    memory_busy_percent=0,
    encoder_percent=0,
    decoder_percent=0,
    core_mhz=405,
    memory_mhz=715,
    energy_mj=0,
    l1_errors=0,
    l2_errors=0,
    memory_errors=0,
    bar1_used_mib=2,
    pci_rx_kb_s=0,
    pci_tx_kb_s=0,
    pci_replays=0,
    processes=(),
)
_DETAILS = GpuDetails(
    arch="8.0",
    brand="Tesla",
    cores=6912,
    power_w=300,
    numa_node=0,
    bar1_mib=16384,
    pci_mb_s=15760,
    core_mhz=1480,
    memory_mhz=715,
    ecc=True,
    shared_kib=64,
    constant_kib=64,
    l2_kib=4096,
    memory_mb_s=732160,
)
"""Those of a Tesla P100 with NVLink, but for its chip, an A100's: as in mesos_gpu/simulated, NVML and CUDA."""
_NAMESPACE = uuid.UUID("b5c65e2f-31f0-5b5b-9d0e-6f2a7c1d4e80")


class SimulatedDriver:
    """`count` GPUs with the device numbers real ones would have; the same GPUs after every restart.

    Opening their nodes gives ENXIO where the device cgroup lets it through, and EPERM where it does not.
    `faults` names a file that says which of them are unhealthy (see `Faults`), so that a whole box can be tested.
    Those of different `machine` numbers have different UUIDs, as the GPUs of several agents must. `make` says what
    they show of themselves. `cards` is where the program answers that plays them (mesos_gpu/simulated); without it
    they are idle. With `mig_instances` those of a model that has MIG are in MIG mode, and their instances are listed
    as if each were a GPU. Raises BadFlag when `count` is not 0..254 or the make cannot be, DeviceError when no major
    number is left for nvidia-uvm.
    """

    kind = "simulated"
    cuda_version: str | None = SIMULATED_CUDA

    def __init__(
        self,
        count: int,
        *,
        proc_devices: Path = PROC_DEVICES,
        faults: Path | None = None,
        machine: int = 0,
        make: Make | None = None,
        cards: Path | None = None,
        mig_instances: bool = False,
    ) -> None:
        if not 0 <= count <= MAX_GPUS:
            raise BadFlag("simulated_gpus", f"must be 0 to {MAX_GPUS}, not {count}")
        taken = set(read_character_majors(proc_devices).values())
        if NVIDIA_MAJOR in taken:
            _log.warning(
                "a real NVIDIA driver owns character major %d here: the nodes of simulated GPUs open the real ones; "
                "use --gpu_driver=nvml",
                NVIDIA_MAJOR,
            )
        free = [major for major in UVM_MAJORS if major not in taken]
        if not free:
            raise DeviceError(f"no major number is free for a simulated nvidia-uvm in {proc_devices}")
        self._uvm_major = free[0]
        self._make = (make or Make()).checked(count)
        self.wiring = wiring_of(self._make.topology, count)
        """How they are connected."""
        self.version: str | None = self._make.driver_version
        self.profiles = profiles_of(self._make.model, self._make.memory_mib) if mig_instances and cards else ()
        """What each of them can be divided into, in MIG mode; empty where they are not."""
        self.boards = tuple(_gpu(index, machine, self._make, divided=bool(self.profiles)) for index in range(count))
        """The whole GPUs, in MIG mode or not."""
        if self.profiles and len(free) < 2:
            raise DeviceError(f"no major number is free for a simulated nvidia-caps in {proc_devices}")
        self._caps_major = free[1] if self.profiles else 0
        self._faults = Faults(faults, self.boards)
        self._cards = cards

    def gpus(self) -> Sequence[Gpu]:
        """Return the simulated GPUs, of those in MIG mode the instances; minor and index are equal."""
        return tuple(gpu for _, gpu in self._slots()) if self.profiles else self.boards

    def _slots(self) -> Iterator[tuple[int, Gpu]]:
        """Yield each MIG instance with its slot."""
        assert self._cards is not None
        for board in self.boards:
            yield from parts_of(board, self.profiles, self._cards.parent / DIVIDED, self._caps_major)

    def _board(self, gpu: Gpu) -> Gpu | None:
        """Return the whole GPU of one that is here, None of another."""
        if gpu not in (self.gpus() if self.profiles else self.boards):
            return None
        return self.boards[gpu.index]

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return nvidiactl, nvidia-uvm and nvidia-uvm-tools, also when there are no GPUs."""
        return (
            DeviceNode("/dev/nvidiactl", NVIDIA_MAJOR, 255),
            DeviceNode("/dev/nvidia-uvm", self._uvm_major, 0),
            DeviceNode("/dev/nvidia-uvm-tools", self._uvm_major, 1),
        )

    def usage(self, gpu: Gpu) -> GpuUsage:
        """Return what the program that plays the cards says, idle where there is none.

        Raises DeviceError when the GPU is said to be lost or is not here.
        """
        board = self._board(gpu)
        if board is None:
            raise DeviceError(f"there is no GPU {gpu.uuid}")
        if self._faults.of(board).lost:
            raise DeviceError(f"GPU {gpu.uuid} is lost")
        busy_percent, used = self._does(gpu)
        if gpu.mig is not None:
            return GpuUsage(memory_used_mib=-(-used >> 20), memory_total_mib=gpu.memory_mib)
        return replace(
            _IDLE,
            memory_used_mib=-(-used >> 20),
            memory_total_mib=self._make.memory_mib,
            utilization_percent=busy_percent,
            power_w=IDLE_W + (BUSY_W - IDLE_W) * busy_percent / 100,
            temperature_c=IDLE_C + (BUSY_C - IDLE_C) * busy_percent // 100,
        )

    def details(self, gpu: Gpu) -> GpuDetails:
        """Return what a Tesla P100 is, of the NUMA node that `topology` says; nothing of a GPU that is not here."""
        return replace(_DETAILS, numa_node=self.wiring.numa_node(gpu.index)) if self._board(gpu) else GpuDetails()

    def memory(self) -> CardMemory | None:
        """Return that this driver cannot tell: cards that are shared are programs, which are asked themselves."""
        return None

    def _does(self, gpu: Gpu) -> tuple[int, int]:
        """Return how busy a card is, in percent, and how many bytes of it are taken."""
        if self._cards is None:
            return 0, 0
        slot = "" if gpu.mig is None else "".join(f".{slot}" for slot, part in self._slots() if part == gpu)
        try:
            with Cards(self._cards, answer_s=ANSWER_S) as cards:
                busy_percent, used, *_ = map(int, cards.ask(f"card {gpu.minor}{slot}").split())
        except (CardsSilent, CardsRefused) as error:
            _log.debug("the simulated GPUs are taken for idle: %s", error)
            return 0, 0
        return busy_percent, used

    def topology(self) -> Topology:
        """Return how the GPUs of such a machine are connected; without word of one, pairs are bridged with NVLink."""
        return Topology(
            {
                frozenset((one.uuid, other.uuid)): self.wiring.between(one.index, other.index)
                for one, other in combinations(self.boards, 2)
            }
        )

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Call `on_event` for what stands in the file of faults, now and whenever it changes."""

        def told(event: HealthEvent) -> None:
            for gpu in affected(self.gpus(), str(event.uuid)):
                on_event(replace(event, uuid=gpu.uuid))

        return self._faults.watch(told)

    @contextmanager
    def divided(self, gpu: str, holders: Mapping[str, str]) -> Iterator[MigCard]:
        """Open a GPU in MIG mode for as long as it is divided. Raises DeviceError."""
        board = next((one for one in self.boards if gpu in (str(one.index), one.uuid)), None)
        if board is None:
            raise DeviceError(f"there is no GPU {gpu} here; there are {len(self.boards)}")
        if not self.profiles or self._cards is None:
            raise DeviceError(
                f"GPU {gpu} ({board.name}) is not in MIG mode: simulated GPUs are with --mig_strategy=single and a "
                "model that has it, such as --simulated_gpu_model=NVIDIA-A100-SXM4-40GB"
            )
        yield SimulatedMig(board, self.profiles, self._cards, holders)

    def retest(self, gpu: Gpu) -> str | None:
        """Return why the GPU is not fit: what the file of faults says of it now."""
        board = self._board(gpu)
        return "there is no such GPU" if board is None else self._faults.of(board).why_not_fit()


def _gpu(index: int, machine: int, make: Make, *, divided: bool) -> Gpu:
    name = f"{machine}/{index}" if machine else str(index)
    return Gpu(
        minor=index,
        index=index,
        uuid=f"GPU-{uuid.uuid5(_NAMESPACE, name)}",
        name=make.model,
        memory_mib=make.memory_mib,
        bus_id=f"00000000:{index + 1:02X}:00.0",
        mig_enabled=True if divided else None,
    )
