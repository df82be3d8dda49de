"""NVIDIA's GPUs through NVML; the only module that imports its binding, pynvml."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pynvml

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.control import DEV, ControlNodes, load_uvm
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.numbers import PROC_DEVICES

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

OLDEST_VERSION = (340, 29)
"""The first driver that Mesos' GPU isolator supports (its documentation, and nvidia-docker 1.0)."""

DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 9, 12
_UNUSABLE = frozenset({8, 11, 15, 16, 17})
"""NVML's word that the device itself is lost: power, interrupts, off the bus, needs a reset, blocked by the system."""


class _Binding(Protocol):
    """The part of pynvml that is used; names and meaning are NVML's own."""

    @property
    def NVMLError(self) -> type[Exception]: ...
    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any: ...
    def nvmlDeviceGetMinorNumber(self, handle: Any, /) -> int: ...
    def nvmlDeviceGetUUID(self, handle: Any, /) -> str | bytes: ...
    def nvmlDeviceGetName(self, handle: Any, /) -> str | bytes: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetPciInfo(self, handle: Any, /) -> Any: ...
    def nvmlDeviceGetMigMode(self, handle: Any, /) -> Sequence[int]: ...


class NvmlDriver:
    """The GPUs that NVML reports and that a container can be given whole.

    NVML is opened once and stays open until `close`: the first open of a GPU that nobody holds takes seconds. One
    dead GPU does not stop the rest: it is left out, with the reason in the log. So is a GPU in MIG mode, which cannot
    be given whole. Raises DeviceError when NVML does not answer or the driver is older than 340.29.
    """

    kind = "nvml"

    def __init__(
        self,
        nvml: _Binding = pynvml,
        *,
        proc_devices: Path = PROC_DEVICES,
        dev: Path = DEV,
        load_uvm: Callable[[], str | None] = load_uvm,
    ) -> None:
        self._nvml = nvml
        self._said: set[str] = set()
        self._control = ControlNodes(proc_devices, dev, load_uvm)
        with self._errors("start"):
            nvml.nvmlInit()
        try:
            with self._errors("tell the driver's version"):
                self.version: str | None = _text(nvml.nvmlSystemGetDriverVersion())
            _refuse_old(self.version)
        except DeviceError:
            self.close()
            raise

    def gpus(self) -> Sequence[Gpu]:
        """Return every usable GPU, by index. Raises DeviceError when NVML cannot even count them."""
        with self._errors("count the GPUs"):
            count = self._nvml.nvmlDeviceGetCount()
        found = (self._usable_gpu(index) for index in range(count))
        return tuple(gpu for gpu in found if gpu is not None)

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return nvidiactl, nvidia-uvm and, where present, nvidia-uvm-tools.

        Raises DeviceError when nvidia-uvm is not there and loading it did not help.
        """
        return self._control.find()

    def close(self) -> None:
        """Let go of NVML; while it is held open, GPUs can neither be reset nor change their MIG mode."""
        with self._errors("shut down"):
            self._nvml.nvmlShutdown()

    def _usable_gpu(self, index: int) -> Gpu | None:
        try:
            gpu = self._gpu(index)
        except self._nvml.NVMLError as error:
            self._say_once(f"GPU {index} is left out: {error}")
            return None
        if gpu.mig_enabled:
            self._say_once(f"GPU {index} ({gpu.uuid}) is left out: it is in MIG mode, and only whole GPUs are given")
            return None
        return gpu

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = self._optional(nvml.nvmlDeviceGetMemoryInfo, handle)
        pci = self._optional(nvml.nvmlDeviceGetPciInfo, handle)
        mig = self._optional(nvml.nvmlDeviceGetMigMode, handle)
        name = self._optional(nvml.nvmlDeviceGetName, handle)
        return Gpu(
            minor=nvml.nvmlDeviceGetMinorNumber(handle),
            index=index,
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            name="NVIDIA GPU" if name is None else _text(name),
            memory_mib=None if memory is None else int(memory.total) >> 20,
            bus_id=None if pci is None else _text(pci.busId),
            mig_enabled=None if mig is None else bool(mig[0]),
        )

    def _optional(self, ask: Callable[[Any], _T], handle: Any) -> _T | None:
        """Return the answer, or None where this driver or this GPU does not report it."""
        try:
            return ask(handle)
        except self._nvml.NVMLError as error:
            if _code(error) in _UNUSABLE:
                raise
            return None

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


def find_nvml(nvml: _Binding = pynvml) -> NvmlDriver | None:
    """Return the driver where NVML answers, else None with the reason in the log."""
    try:
        return NvmlDriver(nvml)
    except DeviceError as error:
        # Not having NVIDIA's library or driver is an ordinary machine; anything else somebody will want to repair.
        ordinary = error.__cause__ is not None and _code(error.__cause__) in (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND)
        _log.log(logging.INFO if ordinary else logging.WARNING, "no GPUs are used: %s", error)
        return None


def _refuse_old(version: str) -> None:
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise DeviceError(f"NVML calls the driver's version '{version}', which is not a version")
    if (int(match[1]), int(match[2])) < OLDEST_VERSION:
        oldest = ".".join(str(part) for part in OLDEST_VERSION)
        raise DeviceError(f"the NVIDIA driver is version {version}; at least {oldest} is needed")


def _code(error: BaseException) -> int | None:
    code = getattr(error, "value", None)
    return code if isinstance(code, int) else None


def _text(value: str | bytes) -> str:
    """Return text from any version of the binding; older ones answer bytes."""
    return value.decode() if isinstance(value, bytes) else value
