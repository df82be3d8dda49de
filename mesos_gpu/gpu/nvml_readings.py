"""What NVML says of one GPU: what it is, and what it does. What a driver or a GPU does not report is None."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mesos_gpu.gpu.binding import (
    CLOCK_MEMORY,
    CLOCK_SM,
    DEVICE_MEMORY,
    L1_CACHE,
    L2_CACHE,
    MEMORY_TEMPERATURE_FIELD,
    PCIE_RX,
    PCIE_TX,
    SINCE_LOADED,
    TEMPERATURE_OF_GPU,
    UNCORRECTED,
    Binding,
    optional,
    text_of,
)
from mesos_gpu.gpu.device import GpuDetails, GpuProcess, GpuUsage

PCI_DEVICES = Path("/sys/bus/pci/devices")
BRANDS: Mapping[int, str] = {1: "Quadro", 2: "Tesla", 3: "NVS", 4: "GRID", 5: "GeForce", 6: "TITAN"}
"""Others are `Unknown`. Source: NVIDIA/libnvidia-container src/driver.c, driver_get_device_brand_1_svc."""
_LANE_MB_S: Mapping[int, int] = {1: 250, 2: 500, 3: 985, 4: 1969, 5: 3938, 6: 7563}
"""A lane of PCI Express by its generation. Source: NVIDIA/nvidia-docker 1.0.1 src/nvml/nvml.go, as far as 4."""
_CONSTANT_KIB = 64
_SHARED_KIB: Mapping[str, int] = {
    **{"2.0": 48, "2.1": 48, "3.0": 48, "3.2": 48, "3.5": 48, "3.7": 112, "5.0": 64, "5.2": 96, "5.3": 64, "6.0": 64},
    **{"6.1": 96, "6.2": 64, "7.0": 96, "7.2": 96, "7.5": 64, "8.0": 164, "8.6": 100, "8.7": 164, "8.9": 100},
    **{"9.0": 228, "10.0": 228, "12.0": 100},
}
"""Shared memory of a multiprocessor, in KiB, by compute capability; constant memory is the same in all of them.
Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""


def usage_of(nvml: Binding, handle: Any) -> GpuUsage:
    """Return what a GPU does; of a MIG instance that is little more than its memory. Raises NVMLError of a lost GPU."""
    memory = optional(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    rates = optional(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    milliwatts = optional(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    bar1 = optional(nvml, nvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    rows = optional(nvml, nvml.nvmlDeviceGetRemappedRows, handle)
    counter = nvml.nvmlDeviceGetMemoryErrorCounter
    return GpuUsage(
        memory_used_mib=None if memory is None else int(memory.used) >> 20,
        memory_total_mib=None if memory is None else int(memory.total) >> 20,
        utilization_percent=None if rates is None else int(rates.gpu),
        power_w=None if milliwatts is None else milliwatts / 1000,
        temperature_c=optional(nvml, nvml.nvmlDeviceGetTemperature, handle, TEMPERATURE_OF_GPU),
        memory_busy_percent=None if rates is None else int(rates.memory),
        encoder_percent=_first(optional(nvml, nvml.nvmlDeviceGetEncoderUtilization, handle)),
        decoder_percent=_first(optional(nvml, nvml.nvmlDeviceGetDecoderUtilization, handle)),
        core_mhz=optional(nvml, nvml.nvmlDeviceGetClockInfo, handle, CLOCK_SM),
        memory_mhz=optional(nvml, nvml.nvmlDeviceGetClockInfo, handle, CLOCK_MEMORY),
        memory_temperature_c=_memory_temperature(nvml, handle),
        energy_mj=optional(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        l1_errors=optional(nvml, counter, handle, UNCORRECTED, SINCE_LOADED, L1_CACHE),
        l2_errors=optional(nvml, counter, handle, UNCORRECTED, SINCE_LOADED, L2_CACHE),
        memory_errors=optional(nvml, counter, handle, UNCORRECTED, SINCE_LOADED, DEVICE_MEMORY),
        bar1_used_mib=None if bar1 is None else int(bar1.bar1Used) >> 20,
        pci_rx_kb_s=optional(nvml, nvml.nvmlDeviceGetPcieThroughput, handle, PCIE_RX),
        pci_tx_kb_s=optional(nvml, nvml.nvmlDeviceGetPcieThroughput, handle, PCIE_TX),
        pci_replays=optional(nvml, nvml.nvmlDeviceGetPcieReplayCounter, handle),
        remapped_correctable=None if rows is None else int(rows[0]),
        remapped_uncorrectable=None if rows is None else int(rows[1]),
        remapping_failed=None if rows is None else bool(rows[3]),
        processes=_processes(nvml, handle),
    )


def details_of(nvml: Binding, handle: Any, bus_id: str | None, pci_devices: Path = PCI_DEVICES) -> GpuDetails:
    """Return what a whole GPU is. Raises NVMLError of a lost GPU."""
    capability = optional(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    arch = None if capability is None else f"{capability[0]}.{capability[1]}"
    brand = optional(nvml, nvml.nvmlDeviceGetBrand, handle)
    milliwatts = optional(nvml, nvml.nvmlDeviceGetPowerManagementLimit, handle)
    bar1 = optional(nvml, nvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    generation = optional(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    lanes = optional(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    memory_mhz = optional(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, CLOCK_MEMORY)
    bus_bits = optional(nvml, nvml.nvmlDeviceGetMemoryBusWidth, handle)
    ecc = optional(nvml, nvml.nvmlDeviceGetEccMode, handle)
    return GpuDetails(
        arch=arch,
        brand=None if brand is None else BRANDS.get(brand, "Unknown"),
        cores=optional(nvml, nvml.nvmlDeviceGetNumGpuCores, handle),
        power_w=None if milliwatts is None else milliwatts // 1000,
        numa_node=_numa_node(bus_id, pci_devices),
        bar1_mib=None if bar1 is None else int(bar1.bar1Total) >> 20,
        pci_mb_s=None if generation is None or lanes is None else _LANE_MB_S.get(generation, 0) * lanes,
        core_mhz=optional(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, CLOCK_SM),
        memory_mhz=memory_mhz,
        ecc=None if ecc is None else bool(ecc[0]),
        shared_kib=None if arch is None else _SHARED_KIB.get(arch),
        constant_kib=None if arch is None else _CONSTANT_KIB,
        memory_mb_s=None if memory_mhz is None or bus_bits is None else 2 * memory_mhz * (bus_bits // 8),
    )


def _first(answer: Any) -> int | None:
    return None if answer is None else int(answer[0])


def _memory_temperature(nvml: Binding, handle: Any) -> int | None:
    # A driver that does not know the field says so in the value.
    fields = optional(nvml, nvml.nvmlDeviceGetFieldValues, handle, (MEMORY_TEMPERATURE_FIELD,))
    return int(fields[0].value.uiVal) if fields and fields[0].nvmlReturn == 0 else None


def _processes(nvml: Binding, handle: Any) -> tuple[GpuProcess, ...] | None:
    found = optional(nvml, nvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    older = getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v2", None)  # not in every version of the binding
    if found is None and older is not None:  # drivers before 510
        found = optional(nvml, older, handle)
    if found is None:
        return None
    return tuple(
        GpuProcess(int(one.pid), _name(nvml, one.pid), None if one.usedGpuMemory is None else one.usedGpuMemory >> 20)
        for one in found
    )


def _name(nvml: Binding, pid: int) -> str:
    name = optional(nvml, nvml.nvmlSystemGetProcessName, pid)  # it may have ended since
    return "" if name is None else text_of(name)


def _numa_node(bus_id: str | None, pci_devices: Path) -> int:
    """Return the NUMA node that a GPU is at; 0 on machines without any, as NVIDIA/nvidia-docker 1.0.1 shows it."""
    domain, _, rest = (bus_id or "").partition(":")
    with suppress(OSError, ValueError):
        return max(0, int((pci_devices / f"{domain[-4:]}:{rest}".lower() / "numa_node").read_text()))
    return 0
