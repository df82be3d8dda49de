from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu.make import MAX_GPUS, Make
from mesos_gpu.gpu.simulated import UVM_MAJORS, SimulatedDriver
from tests.support.golden import Golden


def devices(tmp_path: Path, *majors: int) -> Path:
    path = tmp_path / "devices"
    path.write_text("Character devices:\n" + "".join(f"{major:3d} driver{major}\n" for major in majors))
    return path


def test_gpus_are_the_same_after_every_restart() -> None:
    assert SimulatedDriver(4).gpus() == SimulatedDriver(4).gpus()
    assert SimulatedDriver(8).gpus()[:4] == SimulatedDriver(4).gpus()


def test_name_says_that_it_is_simulated() -> None:
    assert all("Simulated" in gpu.name for gpu in SimulatedDriver(4).gpus())


def test_another_machines_gpus_are_others() -> None:
    here, there = ({gpu.uuid for gpu in SimulatedDriver(4, machine=n).gpus()} for n in (0, 1))
    assert here.isdisjoint(there)


def test_uuids_are_pinned() -> None:
    # Written into checkpoints and seen by users: they must not change between releases.
    assert SimulatedDriver(1).gpus()[0].uuid == "GPU-993032c2-8766-59af-8621-51aaf2273cd2"


@pytest.mark.parametrize("count", [-1, MAX_GPUS + 1])
def test_impossible_count_is_refused(count: int) -> None:
    with pytest.raises(BadFlag, match=str(count)):
        SimulatedDriver(count)


def test_most_gpus_keep_clear_of_modeset_and_control() -> None:
    assert max(gpu.minor for gpu in SimulatedDriver(MAX_GPUS).gpus()) == 253


def test_taken_major_is_avoided(tmp_path: Path) -> None:
    driver = SimulatedDriver(1, proc_devices=devices(tmp_path, UVM_MAJORS[0], UVM_MAJORS[1]))
    assert {node.major for node in driver.control_nodes()} == {195, UVM_MAJORS[2]}


def test_no_free_major_is_an_error(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(DeviceError) as refused:
        SimulatedDriver(1, proc_devices=devices(tmp_path, *UVM_MAJORS))
    assert str(refused.value) == golden


def test_block_devices_do_not_take_character_majors(tmp_path: Path) -> None:
    path = tmp_path / "devices"
    path.write_text(f"Character devices:\n  1 mem\n\nBlock devices:\n{UVM_MAJORS[0]} disk\n")
    assert SimulatedDriver(0, proc_devices=path).control_nodes()[1].major == UVM_MAJORS[0]


def test_real_driver_beside_simulated_gpus_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    with caplog.at_level(logging.WARNING):
        SimulatedDriver(1, proc_devices=devices(tmp_path, 195))
    assert caplog.messages == golden


def test_gpus_say_of_themselves_what_they_were_told() -> None:
    make = Make(model="Tesla T4", memory_mib=15109, driver_version="535.104.05")
    driver = SimulatedDriver(2, make=make)
    assert [(gpu.name, gpu.memory_mib) for gpu in driver.gpus()] == [("Tesla T4", 15109)] * 2
    assert driver.version == "535.104.05"
    assert driver.usage(driver.gpus()[0]).memory_total_mib == 15109
    assert driver.gpus()[0].uuid == SimulatedDriver(1).gpus()[0].uuid


@pytest.mark.parametrize(
    "make",
    [
        Make(model=" "),
        Make(model="a\tb"),
        Make(model="x" * 65),
        Make(memory_mib=0),
        Make(memory_mib=1 << 40),
        Make(driver_version="../etc"),
        Make(driver_version="1/2"),
        Make(driver_version=""),
    ],
)
def test_what_no_gpu_can_say_is_refused(make: Make) -> None:
    with pytest.raises(BadFlag):
        SimulatedDriver(1, make=make)
