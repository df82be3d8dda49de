"""Memory by process, and limits by cgroup, as NVML tells and takes them."""

from __future__ import annotations

from ctypes import Structure, c_char_p, c_ulonglong
from types import SimpleNamespace

import pytest

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.card_memory import UNLIMITED, NvmlMemory
from mesos_gpu.gpu.device import Gpu
from tests.fakes.nvml import NOT_SUPPORTED, FakeGpu, FakeNvml
from tests.support.golden import Golden

UUID = "GPU-6b5c"
GPU = Gpu(0, 0, UUID, "Fake H200")
MIB = 1 << 20


class Limits(Structure):
    _fields_ = (("nameSpace", c_char_p), ("softLimit", c_ulonglong), ("hardLimit", c_ulonglong))


class Memory(FakeNvml):
    """A driver that tells processes."""

    def __init__(self, computing: list[tuple[int, int | None]], drawing: list[tuple[int, int | None]] | None = None):
        super().__init__([FakeGpu(0, UUID)])
        self.lists = computing, drawing or []

    def _listed(self, handle: FakeGpu, which: int) -> list[SimpleNamespace]:
        self._answers("processes", handle)
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB) for pid, mib in self.lists[which]
        ]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        return self._listed(handle, 0)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        return self._listed(handle, 1)


class Limiting(Memory):
    """One of release 615, which limits cgroups."""

    c_nvmlSetMemoryLimits_v1_t = c_nvmlGetMemoryLimits_v1_t = Limits

    def __init__(self) -> None:
        super().__init__([])
        self.limits: dict[bytes, int] = {}

    def nvmlDeviceGetMemoryLimits_v1(self, handle: FakeGpu, limits: Limits) -> None:
        self._answers("limits", handle)

    def nvmlDeviceSetMemoryLimits_v1(self, handle: FakeGpu, limits: Limits) -> None:
        self._answers("limits", handle)
        assert limits.softLimit == 0
        self.limits[limits.nameSpace] = limits.hardLimit


def test_memory_is_told_by_process_and_counted_once() -> None:
    both = Memory([(7, 100), (8, 50)], [(7, 100), (9, 25)])
    assert NvmlMemory(both).by_process(GPU) == {7: 100, 8: 50, 9: 25}
    assert NvmlMemory(Memory([])).by_process(GPU) == {}


def test_a_driver_that_does_not_tell_is_no_error_and_a_lost_gpu_is(golden: Golden) -> None:
    assert NvmlMemory(Memory([(7, None)])).by_process(GPU) is None
    silent = Memory([])
    silent.gpus[0].errors["processes"] = NOT_SUPPORTED
    assert NvmlMemory(silent).by_process(GPU) is None
    silent.gpus[0].errors["processes"] = 15
    with pytest.raises(DeviceError) as refused:
        NvmlMemory(silent).by_process(GPU)
    assert str(refused.value) == golden


def test_limits_are_set_in_bytes_for_the_folder_of_a_cgroup() -> None:
    driver = Limiting()
    memory = NvmlMemory(driver)
    assert memory.can_limit(GPU)
    memory.limit(GPU, "/sys/fs/cgroup/mesos/a", 6043)
    memory.limit(GPU, "/sys/fs/cgroup/mesos/b", None)
    assert driver.limits == {b"/sys/fs/cgroup/mesos/a": 6043 * MIB, b"/sys/fs/cgroup/mesos/b": UNLIMITED}


def test_older_drivers_and_bindings_cannot_limit(golden: Golden) -> None:
    assert not NvmlMemory(Memory([])).can_limit(GPU)
    driver = Limiting()
    driver.gpus[0].errors["limits"] = NOT_SUPPORTED
    assert not NvmlMemory(driver).can_limit(GPU)
    with pytest.raises(DeviceError) as refused:
        NvmlMemory(driver).limit(GPU, "/sys/fs/cgroup/mesos/a", 1)
    assert str(refused.value) == golden
