"""What every driver promises, real, simulated or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.gpu.device import NVIDIA_MAJOR, GpuDriver
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.numbers import read_character_majors
from mesos_gpu.gpu.nvml import NvmlDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from tests.gpu.fake_nvml import FakeNvml, fake_gpus

PROC_DEVICES = "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n"


def nvml_driver(tmp_path: Path) -> GpuDriver:
    proc_devices = tmp_path / "devices"
    proc_devices.write_text(PROC_DEVICES)
    return NvmlDriver(FakeNvml(fake_gpus(4)), proc_devices=proc_devices, dev=tmp_path, load_uvm=lambda: None)


MAKERS: dict[str, Callable[[Path], GpuDriver]] = {
    "nvml": nvml_driver,
    "simulated": lambda _: SimulatedDriver(4),
    "none": lambda _: NullDriver(),
}


@pytest.fixture(params=sorted(MAKERS))
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> GpuDriver:
    return MAKERS[request.param](tmp_path)


def test_kind_is_the_name_that_the_flag_uses(driver: GpuDriver) -> None:
    assert MAKERS[driver.kind] is not None


def test_gpus_are_listed_by_index(driver: GpuDriver) -> None:
    indices = [gpu.index for gpu in driver.gpus()]
    assert indices == sorted(set(indices))


def test_uuid_and_minor_number_name_one_gpu_each(driver: GpuDriver) -> None:
    gpus = driver.gpus()
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.minor for gpu in gpus}) == len(gpus)


def test_asking_twice_gives_the_same_answer(driver: GpuDriver) -> None:
    assert driver.gpus() == driver.gpus()
    assert driver.control_nodes() == driver.control_nodes()


def test_version_is_known_exactly_where_there_is_a_driver(driver: GpuDriver) -> None:
    assert (driver.version is None) == (driver.kind == "none")


def test_control_nodes_are_no_gpu_and_every_number_is_used_once(driver: GpuDriver) -> None:
    nodes = driver.control_nodes()
    numbers = [(node.major, node.minor) for node in nodes]
    assert len(set(numbers)) == len(numbers)
    assert not {(NVIDIA_MAJOR, gpu.minor) for gpu in driver.gpus()} & set(numbers)


def test_a_driver_has_nvidiactl_and_uvm(driver: GpuDriver) -> None:
    paths = [node.path for node in driver.control_nodes()]
    assert paths[:2] == ([] if driver.kind == "none" else ["/dev/nvidiactl", "/dev/nvidia-uvm"])


def test_no_gpu_is_in_mig_mode(driver: GpuDriver) -> None:
    assert not any(gpu.mig_enabled for gpu in driver.gpus())


def test_simulated_uvm_takes_a_number_that_this_kernel_does_not_use() -> None:
    uvm = SimulatedDriver(0).control_nodes()[1]
    assert uvm.major not in read_character_majors().values()
