"""Memory of a GPU by process, and limits of it by cgroup, as NVML has them; the binding is passed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_char_p, c_ulonglong
from typing import Any

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.binding import code_of
from mesos_gpu.gpu.device import Gpu

UNLIMITED = 2**64 - 1
"""NVML_DEVICE_MEMORY_LIMIT_MAX."""
_NOT_THERE = frozenset({3, 12, 13})
"""Not supported, no such library, no such function in it: this driver, or this GPU, does not know."""


class NvmlMemory:
    """NVML's word, and its limits since driver 615 (nvmlDeviceSetMemoryLimits_v1: bytes, root, cgroup version 2).

    Source: nvml.h as published with nvidia-ml-py 13.615; `nameSpace` is what `nvidia-smi memory-limits -n` takes, the
    path of the cgroup's folder. A soft limit of 0 keeps nothing back for it.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def by_process(self, gpu: Gpu) -> Mapping[int, int] | None:
        """Return the sum of what a process computes and draws with."""
        nvml, found = self._nvml, dict[int, int]()
        with self._errors(f"tell who uses the memory of GPU {gpu.uuid}"):
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            try:
                running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                running += nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
            except nvml.NVMLError as error:
                if code_of(error) in _NOT_THERE:
                    return None
                raise
        seen = set[tuple[int, int]]()
        for process in running:
            if process.usedGpuMemory is None:
                return None
            mib = int(process.usedGpuMemory) >> 20
            if (process.pid, mib) not in seen:  # one that computes and draws is in both lists with the same sum
                seen.add((process.pid, mib))
                found[process.pid] = found.get(process.pid, 0) + mib
        return found

    def can_limit(self, gpu: Gpu) -> bool:
        """Ask for the limit of the root cgroup: what answers knows limits."""
        nvml = self._nvml
        if not hasattr(nvml, "nvmlDeviceGetMemoryLimits_v1"):
            return False
        asked = nvml.c_nvmlGetMemoryLimits_v1_t(c_char_p(b"/sys/fs/cgroup"), c_ulonglong(0), c_ulonglong(0))
        try:
            nvml.nvmlDeviceGetMemoryLimits_v1(nvml.nvmlDeviceGetHandleByUUID(gpu.uuid), asked)
        except nvml.NVMLError:
            return False
        return True

    def limit(self, gpu: Gpu, cgroup: str, mib: int | None) -> None:
        """Set the hard limit."""
        nvml, most = self._nvml, UNLIMITED if mib is None else mib << 20
        with self._errors(f"limit the memory of GPU {gpu.uuid} for {cgroup}"):
            limits = nvml.c_nvmlSetMemoryLimits_v1_t(c_char_p(cgroup.encode()), c_ulonglong(0), c_ulonglong(most))
            nvml.nvmlDeviceSetMemoryLimits_v1(nvml.nvmlDeviceGetHandleByUUID(gpu.uuid), limits)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            raise DeviceError(f"NVML could not {doing}: {error}") from error
