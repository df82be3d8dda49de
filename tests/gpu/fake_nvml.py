"""A pynvml in memory: the functions that NvmlDriver calls, over a list of GPUs that a test describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

NOT_SUPPORTED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST = 3, 9, 12, 15


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
    errors: dict[str, int] = field(default_factory=dict)
    """Error codes by what is asked: handle, minor, uuid, name, memory, pci, mig."""


class FakeNvml:
    NVMLError = FakeNvmlError

    def __init__(self, gpus: Sequence[FakeGpu] = (), *, version: str = "550.54.15", init_error: int = 0) -> None:
        self.gpus, self.version, self.init_error = list(gpus), version, init_error
        self.opened = 0

    def nvmlInit(self) -> None:
        if self.init_error:
            raise FakeNvmlError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.version

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
        return SimpleNamespace(total=self._answers("memory", handle).memory)

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=self._answers("pci", handle).bus_id)

    def nvmlDeviceGetMigMode(self, handle: FakeGpu) -> Sequence[int]:
        mode = self._answers("mig", handle).mig
        if mode is None:
            raise FakeNvmlError(NOT_SUPPORTED)
        return mode

    def _answers(self, what: str, gpu: FakeGpu) -> FakeGpu:
        if what in gpu.errors:
            raise FakeNvmlError(gpu.errors[what])
        return gpu


def fake_gpus(count: int) -> list[FakeGpu]:
    return [FakeGpu(minor=index, uuid=f"GPU-{index:08d}") for index in range(count)]
