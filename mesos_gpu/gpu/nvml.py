"""NVIDIA's GPUs through NVML; the only module that imports its binding, pynvml."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.binding import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    RECOVERY_ACTION_FIELD,
    RECOVERY_ACTIONS,
    Binding,
    code_of,
    optional,
    text_of,
)
from mesos_gpu.gpu.card_memory import NvmlMemory
from mesos_gpu.gpu.control import DEV, ControlNodes, load_uvm
from mesos_gpu.gpu.device import CardMemory, DeviceNode, Gpu, GpuDetails, GpuUsage, HealthEvent, Topology
from mesos_gpu.gpu.links import Board, read_topology
from mesos_gpu.gpu.mig import REAL_CAPABILITIES, Capabilities, instances
from mesos_gpu.gpu.mig_device import MigDevice
from mesos_gpu.gpu.mig_layout import MigCard
from mesos_gpu.gpu.numbers import PROC_DEVICES
from mesos_gpu.gpu.nvml_readings import details_of, usage_of
from mesos_gpu.gpu.watch import USUAL_PACE, HealthWatch, Pace

_log = logging.getLogger(__name__)


@contextmanager
def open_mig_device(gpu: str, holders: Mapping[str, str] | None = None) -> Iterator[MigDevice]:
    """Open NVML for as long as a GPU is divided: the one with this index or UUID. Raises DeviceError.

    `holders`: who holds instances of it, by UUID; processes on them are found beside.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(f"NVML does not answer: {error}; is the NVIDIA driver of this machine loaded?") from error
    try:
        yield MigDevice(pynvml, gpu, holders)
    finally:
        pynvml.nvmlShutdown()


OLDEST_VERSION = (340, 29)
"""The first driver that Mesos' GPU isolator supports (its documentation, and nvidia-docker 1.0)."""

OLDEST_WITH_MIG = 470
"""The first driver that finds a MIG instance by its UUID, MIG-<uuid>; before, the name held the place it had."""


class NvmlDriver:
    """The GPUs that NVML reports and that a container can be given.

    NVML is opened once and stays open until `close`: the first open of a GPU that nobody holds takes seconds. One
    dead GPU does not stop the rest: it is left out, with the reason in the log. So is a GPU in MIG mode, which cannot
    be given whole, unless `mig_instances`: then each of its instances is listed as if it were a GPU.
    That needs driver 470, the first in which instances have lasting names.
    Raises DeviceError when NVML does not answer or the driver is older than 340.29.
    """

    kind = "nvml"

    def __init__(
        self,
        nvml: Binding = pynvml,
        *,
        mig_instances: bool = False,
        proc_devices: Path = PROC_DEVICES,
        dev: Path = DEV,
        load_uvm: Callable[[], str | None] = load_uvm,
        capabilities: Capabilities = REAL_CAPABILITIES,
        pace: Pace = USUAL_PACE,
    ) -> None:
        self._nvml, self._mig_instances, self._capabilities, self._pace = nvml, mig_instances, capabilities, pace
        self._said: set[str] = set()
        self._known: dict[str, Gpu] = {}
        self._watches: set[HealthWatch] = set()
        self._control = ControlNodes(proc_devices, dev, load_uvm)
        with self._errors("start"):
            nvml.nvmlInit()
        try:
            with self._errors("tell the driver's version"):
                self.version: str | None = text_of(nvml.nvmlSystemGetDriverVersion())
            _refuse_old(self.version)
            self.cuda_version: str | None = self._find_cuda_version()
        except DeviceError:
            self.close()
            raise

    def _find_cuda_version(self) -> str | None:
        try:
            version = self._nvml.nvmlSystemGetCudaDriverVersion()
        except self._nvml.NVMLError:
            return None
        return f"{version // 1000}.{version % 1000 // 10}"

    def gpus(self) -> Sequence[Gpu]:
        """Return every usable GPU, by index. Raises DeviceError when NVML cannot even count them."""
        with self._errors("count the GPUs"):
            count = self._nvml.nvmlDeviceGetCount()
        found = tuple(gpu for index in range(count) for gpu in self._usable_gpus(index))
        self._known.update((gpu.uuid, gpu) for gpu in found)
        return found

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return nvidiactl, nvidia-uvm and, where present, nvidia-uvm-tools.

        Raises DeviceError when nvidia-uvm is not there and loading it did not help.
        """
        return self._control.find()

    def usage(self, gpu: Gpu) -> GpuUsage:
        """Return what NVML reports; of a MIG instance that is little more than its memory.

        Raises DeviceError when the GPU does not answer.
        """
        nvml = self._nvml
        with self._errors(f"ask GPU {gpu.uuid} for its usage"):
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            return usage_of(nvml, handle)

    def details(self, gpu: Gpu) -> GpuDetails:
        """Return what the GPU is, of an instance the whole GPU; nothing when it does not answer."""
        board = gpu.uuid if gpu.mig is None else gpu.mig.parent_uuid
        try:
            return details_of(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID(board), gpu.bus_id)
        except self._nvml.NVMLError as error:
            self._say_once(f"GPU {gpu.index} ({board}) does not say what it is: {error}")
            return GpuDetails()

    def memory(self) -> CardMemory | None:
        """Return NVML's word about memory by process and by cgroup."""
        return NvmlMemory(self._nvml)

    def topology(self) -> Topology:
        """Return how the GPUs that answer are connected; one that is in MIG mode is there by its own uuid."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self._say_once(f"NVML could not tell how GPUs are connected: {error}")
            return Topology()
        found = (self._board(index) for index in range(count))
        return read_topology(self._nvml, [board for board in found if board is not None])

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Call `on_event` for each error that NVML reports of the GPUs that are usable now or have been, until ended.

        Raises DeviceError when NVML cannot even count the GPUs.
        """
        self.gpus()
        watch = HealthWatch(self._nvml, tuple(self._known.values()), on_event, self._pace)
        self._watches.add(watch)

        def end() -> None:
            watch.end()
            self._watches.discard(watch)

        return end

    @contextmanager
    def divided(self, gpu: str, holders: Mapping[str, str]) -> Iterator[MigCard]:
        """Open a GPU in MIG mode for as long as it is divided. Raises DeviceError."""
        yield MigDevice(self._nvml, gpu, holders)

    def retest(self, gpu: Gpu) -> str | None:
        """Return why the GPU is not fit: it does not answer, or the driver asks for a reset or more."""
        nvml = self._nvml
        board = gpu.uuid if gpu.mig is None else gpu.mig.parent_uuid
        try:
            nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(gpu.uuid))
            handle = nvml.nvmlDeviceGetHandleByUUID(board)
            optional(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
            fields = optional(nvml, nvml.nvmlDeviceGetFieldValues, handle, (RECOVERY_ACTION_FIELD,))
        except nvml.NVMLError as error:
            return f"NVML: {error}"
        # Drivers that do not know the field say so in the value; then that the GPU answers has to do.
        if fields is None or fields[0].nvmlReturn != 0 or fields[0].value.uiVal == 0:
            return None
        action = int(fields[0].value.uiVal)
        return f"the driver says: {RECOVERY_ACTIONS.get(action, f'recovery action {action}')}"

    def close(self) -> None:
        """Stop listening and let go of NVML; while it is held, GPUs can neither be reset nor change their MIG mode."""
        while self._watches:
            self._watches.pop().end()
        with self._errors("shut down"):
            self._nvml.nvmlShutdown()

    def _usable_gpus(self, index: int) -> Sequence[Gpu]:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            gpu = self._gpu(index, handle)
            if not gpu.mig_enabled:
                return (gpu,)
            named = f"GPU {index} ({gpu.uuid})"
            if not self._mig_instances:
                self._say_once(f"{named} is left out: it is in MIG mode, and its instances are not asked for")
                return ()
            if int(str(self.version).partition(".")[0]) < OLDEST_WITH_MIG:
                self._say_once(f"{named} is left out: MIG instances need driver {OLDEST_WITH_MIG}, not {self.version}")
                return ()
            parts = tuple(sorted(instances(self._nvml, handle, gpu, self._capabilities)))
        except (self._nvml.NVMLError, DeviceError) as error:
            self._say_once(f"GPU {index} is left out: {error}")
            return ()
        if not parts:
            self._say_once(f"{named} is left out: it is in MIG mode and has no instances")
        if len({part.memory_mib for part in parts}) > 1:
            self._say_once(f"{named} has instances of different sizes; each is given as one GPU all the same")
        return parts

    def _gpu(self, index: int, handle: Any) -> Gpu:
        nvml = self._nvml
        memory = optional(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
        pci = optional(nvml, nvml.nvmlDeviceGetPciInfo, handle)
        mig = optional(nvml, nvml.nvmlDeviceGetMigMode, handle)
        name = optional(nvml, nvml.nvmlDeviceGetName, handle)
        return Gpu(
            minor=nvml.nvmlDeviceGetMinorNumber(handle),
            index=index,
            uuid=text_of(nvml.nvmlDeviceGetUUID(handle)),
            name="NVIDIA GPU" if name is None else text_of(name),
            memory_mib=None if memory is None else int(memory.total) >> 20,
            bus_id=None if pci is None else text_of(pci.busId),
            mig_enabled=None if mig is None else bool(mig[0]),
        )

    def _board(self, index: int) -> Board | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            pci = optional(nvml, nvml.nvmlDeviceGetPciInfo, handle)
            uuid = text_of(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError:
            return None
        return Board(uuid, handle, None if pci is None else text_of(pci.busId))

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _log.warning("%s", text)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Re-raise what NVML raises as our own error, saying what was being done."""
        try:
            yield
        except self._nvml.NVMLError as error:
            raise DeviceError(f"NVML could not {doing}: {error}") from error


def find_nvml(nvml: Binding = pynvml, *, mig_instances: bool = False) -> NvmlDriver | None:
    """Return the driver where NVML answers, else None with the reason in the log."""
    try:
        return NvmlDriver(nvml, mig_instances=mig_instances)
    except DeviceError as error:
        # Not having NVIDIA's library or driver is an ordinary machine; anything else somebody will want to repair.
        ordinary = error.__cause__ is not None and code_of(error.__cause__) in (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND)
        _log.log(logging.INFO if ordinary else logging.WARNING, "no GPUs are used: %s", error)
        return None


def _refuse_old(version: str) -> None:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise DeviceError(f"NVML calls the driver's version '{version}', which is not a version")
    if (int(match[1]), int(match[2])) < OLDEST_VERSION:
        oldest = ".".join(str(part) for part in OLDEST_VERSION)
        raise DeviceError(f"the NVIDIA driver is version {version}; at least {oldest} is needed")
