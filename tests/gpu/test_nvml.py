from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import GpuProcess
from mesos_gpu.gpu.nvml import NvmlDriver, find_nvml
from mesos_gpu.gpu.nvml_readings import details_of
from tests.fakes.nvml import DRIVER_NOT_LOADED, GPU_IS_LOST, LIBRARY_NOT_FOUND, NOT_SUPPORTED, FakeNvml, fake_gpus
from tests.support.golden import Golden


def test_gpu_carries_what_nvml_reports() -> None:
    nvml = FakeNvml(fake_gpus(1))
    nvml.gpus[0].minor = 3
    (gpu,) = NvmlDriver(nvml).gpus()
    assert (gpu.minor, gpu.index, gpu.uuid, gpu.name) == (3, 0, "GPU-00000000", "Fake H200")
    assert (gpu.memory_mib, gpu.bus_id, gpu.mig_enabled) == (143771, "00000000:17:00.0", False)


def test_what_the_driver_does_not_report_is_none() -> None:
    nvml = FakeNvml(fake_gpus(1))
    nvml.gpus[0].errors = dict.fromkeys(("memory", "pci", "mig"), NOT_SUPPORTED)
    (gpu,) = NvmlDriver(nvml).gpus()
    assert (gpu.memory_mib, gpu.bus_id, gpu.mig_enabled) == (None, None, None)


def test_text_as_bytes_from_an_old_binding_is_understood() -> None:
    nvml = FakeNvml(fake_gpus(1))
    nvml.gpus[0].name = b"Fake K80"
    assert NvmlDriver(nvml).gpus()[0].name == "Fake K80"


@pytest.mark.parametrize("asked", ["handle", "minor", "uuid", "name", "memory", "mig"])
def test_one_dead_gpu_does_not_stop_the_rest(asked: str, caplog: pytest.LogCaptureFixture, golden: Golden) -> None:
    nvml = FakeNvml(fake_gpus(3))
    nvml.gpus[1].errors = {asked: GPU_IS_LOST}
    driver = NvmlDriver(nvml)
    assert [gpu.index for gpu in driver.gpus()] == [0, 2]
    assert caplog.messages == golden
    driver.gpus()
    assert len(caplog.messages) == 1, "the same reason is said once"


def test_gpu_in_mig_mode_is_left_out_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    nvml = FakeNvml(fake_gpus(2))
    nvml.gpus[0].mig = (1, 1)
    assert [gpu.index for gpu in NvmlDriver(nvml).gpus()] == [1]
    assert "MIG" in caplog.text
    assert "GPU 0" in caplog.text


@pytest.mark.parametrize("version", ["340.28", "331.62", "9.99"])
def test_driver_that_is_too_old_is_refused_with_its_version(version: str, golden: Golden) -> None:
    nvml = FakeNvml(version=version)
    with pytest.raises(DeviceError) as refused:
        NvmlDriver(nvml)
    assert str(refused.value) == golden
    assert nvml.opened == 0, "NVML is let go"


@pytest.mark.parametrize("version", ["340.29", "340.107", "550.54.15"])
def test_driver_that_is_new_enough_is_taken(version: str) -> None:
    assert NvmlDriver(FakeNvml(version=version)).version == version


def test_version_that_is_none_is_refused() -> None:
    with pytest.raises(DeviceError, match="'unknown'"):
        NvmlDriver(FakeNvml(version="unknown"))


def test_error_says_what_was_being_done(golden: Golden) -> None:
    with pytest.raises(DeviceError) as refused:
        NvmlDriver(FakeNvml(init_error=18))
    assert str(refused.value) == golden


def test_nvml_is_opened_once_and_closed_when_asked() -> None:
    nvml = FakeNvml(fake_gpus(2))
    driver = NvmlDriver(nvml)
    driver.gpus()
    driver.gpus()
    assert nvml.opened == 1
    driver.close()
    assert nvml.opened == 0


@pytest.mark.parametrize(
    ("code", "level"),
    [(LIBRARY_NOT_FOUND, logging.INFO), (DRIVER_NOT_LOADED, logging.INFO), (18, logging.WARNING)],
)
def test_machine_without_nvml_is_ordinary_and_a_broken_one_is_told(
    code: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert find_nvml(FakeNvml(init_error=code)) is None
    assert [record.levelno for record in caplog.records] == [level]


def test_nvml_that_answers_is_found() -> None:
    driver = find_nvml(FakeNvml(fake_gpus(2)))
    assert driver is not None
    assert len(driver.gpus()) == 2


def test_what_a_gpu_reports_is_read_and_the_rest_is_none() -> None:
    nvml = FakeNvml(fake_gpus(1))
    nvml.gpus[0].readings = {
        "nvmlDeviceGetBAR1MemoryInfo": SimpleNamespace(bar1Used=5 << 20, bar1Total=16384 << 20),
        "nvmlDeviceGetEncoderUtilization": (4, 100),
        "nvmlDeviceGetRemappedRows": (1, 2, 0, 1),
        "nvmlDeviceGetComputeRunningProcesses_v2": [SimpleNamespace(pid=7, usedGpuMemory=None)],
        "nvmlDeviceGetPowerManagementLimit": 250_000,
        "nvmlDeviceGetCudaComputeCapability": (7, 5),
        "nvmlDeviceGetBrand": 5,
    }
    driver = NvmlDriver(nvml)
    (gpu,) = driver.gpus()
    usage, details = driver.usage(gpu), driver.details(gpu)
    assert (usage.bar1_used_mib, usage.encoder_percent, usage.decoder_percent) == (5, 4, None)
    assert (usage.remapped_correctable, usage.remapped_uncorrectable, usage.remapping_failed) == (1, 2, True)
    assert usage.processes == (GpuProcess(7, "", None),)
    assert (details.arch, details.brand, details.power_w, details.bar1_mib) == ("7.5", "GeForce", 250, 16384)
    assert (details.shared_kib, details.constant_kib, details.l2_kib, details.ecc) == (64, 64, None, None)


def test_the_numa_node_is_that_of_the_bus_and_0_where_there_is_none(tmp_path: Path) -> None:
    nvml = FakeNvml(fake_gpus(1))
    place = tmp_path / "0000:17:00.0" / "numa_node"
    place.parent.mkdir()
    for text, node in (("3\n", 3), ("-1\n", 0), ("", 0)):
        place.write_text(text)
        assert details_of(nvml, nvml.gpus[0], "00000000:17:00.0", tmp_path).numa_node == node
    assert details_of(nvml, nvml.gpus[0], None, tmp_path).numa_node == 0
