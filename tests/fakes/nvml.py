"""A pynvml in memory: the functions that NvmlDriver calls, over a list of GPUs that a test describes."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, GPU_IS_LOST = 3, 6, 9, 10, 12, 15


READINGS = frozenset(
    f"nvml{name}"
    for name in (
        *("DeviceGetPowerManagementLimit", "DeviceGetBrand", "DeviceGetCudaComputeCapability", "DeviceGetNumGpuCores"),
        *("DeviceGetMemoryBusWidth", "DeviceGetEccMode", "DeviceGetBAR1MemoryInfo", "DeviceGetMaxPcieLinkGeneration"),
        *("DeviceGetMaxPcieLinkWidth", "DeviceGetMaxClockInfo", "DeviceGetClockInfo", "DeviceGetEncoderUtilization"),
        *("DeviceGetDecoderUtilization", "DeviceGetMemoryErrorCounter", "DeviceGetPcieThroughput"),
        *("DeviceGetPcieReplayCounter", "DeviceGetTotalEnergyConsumption", "DeviceGetRemappedRows"),
        *("DeviceGetComputeRunningProcesses_v2", "DeviceGetComputeRunningProcesses_v3", "SystemGetProcessName"),
    )
)
"""What a test answers by `FakeGpu.readings`."""


class FakeNvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return f"error {self.value}"


@dataclass
class FakeGpu:
    minor: int
    uuid: str
    name: str | bytes = "Fake H200"
    memory: int = 143771 << 20
    bus_id: bytes = b"00000000:17:00.0"
    mig: Sequence[int] | None = (0, 0)
    utilization: int = 0
    recovery: int = 0
    readings: dict[str, object] = field(default_factory=dict)
    """Answers by the function of NVML and, after a colon, its further arguments; what is not here is not supported."""
    errors: dict[str, int] = field(default_factory=dict)
    """Error codes by what is asked: handle, minor, uuid, name, memory, pci, mig, rates, power, temperature, fields,
    events."""


class FakeNvml:
    NVMLError = FakeNvmlError

    def __init__(self, gpus: Sequence[FakeGpu] = (), *, version: str = "550.54.15", init_error: int = 0) -> None:
        self.gpus, self.version, self.init_error = list(gpus), version, init_error
        self.opened = 0
        self.xids: queue.Queue[tuple[int, int]] = queue.Queue()
        """Put an index and an XID, and whoever listens is told."""

    def nvmlInit(self) -> None:
        if self.init_error:
            raise FakeNvmlError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.version

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12040

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self._answers("handle", self.gpus[index])

    def nvmlDeviceGetMinorNumber(self, handle: FakeGpu) -> int:
        return self._answers("minor", handle).minor

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return self._answers("uuid", handle).uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str | bytes:
        return self._answers("name", handle).name

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(total=self._answers("memory", handle).memory, used=0)

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=self._answers("pci", handle).bus_id)

    def nvmlDeviceGetMigMode(self, handle: FakeGpu) -> Sequence[int]:
        mode = self._answers("mig", handle).mig
        if mode is None:
            raise FakeNvmlError(NOT_SUPPORTED)
        return mode

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return self._answers("handle", gpu)
        raise FakeNvmlError(NOT_FOUND)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: FakeGpu) -> int:
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: FakeGpu, slot: int) -> FakeGpu:
        raise FakeNvmlError(NOT_FOUND)

    def nvmlDeviceGetGpuInstanceId(self, handle: FakeGpu) -> int:
        raise FakeNvmlError(NOT_FOUND)

    def nvmlDeviceGetComputeInstanceId(self, handle: FakeGpu) -> int:
        raise FakeNvmlError(NOT_FOUND)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._answers("rates", handle).utilization, memory=0)

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        self._answers("power", handle)
        return 75_250

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:
        self._answers("temperature", handle)
        return 33

    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, fields: Sequence[int]) -> list[SimpleNamespace]:
        self._answers("fields", handle)
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=handle.recovery)) for _ in fields]

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name not in READINGS:
            raise AttributeError(name)

        def answer(handle: FakeGpu | int, *arguments: object) -> object:
            if isinstance(handle, int):
                handle, arguments = self.gpus[0], (handle,)
            asked = ":".join(map(str, (name, *arguments)))
            if asked not in handle.readings:
                raise FakeNvmlError(NOT_SUPPORTED)
            return handle.readings[asked]

        return answer

    def nvmlDeviceGetTopologyCommonAncestor(self, one: FakeGpu, other: FakeGpu) -> int:
        return 20

    def nvmlDeviceGetNvLinkState(self, handle: FakeGpu, link: int) -> int:
        raise FakeNvmlError(NOT_SUPPORTED)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: FakeGpu, link: int) -> int:
        raise FakeNvmlError(NOT_SUPPORTED)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: FakeGpu, link: int) -> SimpleNamespace:
        raise FakeNvmlError(NOT_SUPPORTED)

    def nvmlDeviceGetSupportedEventTypes(self, handle: FakeGpu) -> int:
        self._answers("events", handle)
        return 0xFB

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlDeviceRegisterEvents(self, handle: FakeGpu, types: int, events: object) -> None:
        self._answers("events", handle)

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> SimpleNamespace:
        try:
            gpu, xid = self.xids.get(timeout=timeout_ms / 1000)
        except queue.Empty:
            raise FakeNvmlError(TIMEOUT) from None
        whole = 0xFFFFFFFF
        return SimpleNamespace(
            device=self.gpus[gpu], eventType=8, eventData=xid, gpuInstanceId=whole, computeInstanceId=whole
        )

    def nvmlEventSetFree(self, events: object) -> None:
        pass

    def _answers(self, what: str, gpu: FakeGpu) -> FakeGpu:
        if what in gpu.errors:
            raise FakeNvmlError(gpu.errors[what])
        return gpu


def fake_gpus(count: int) -> list[FakeGpu]:
    return [FakeGpu(minor=index, uuid=f"GPU-{index:08d}") for index in range(count)]
