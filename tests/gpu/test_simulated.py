from __future__ import annotations

import logging
import os
import stat
from ctypes import Structure, c_char_p, c_ulonglong
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesos_gpu.errors import BadFlag, DeviceError
from mesos_gpu.gpu.card_memory import UNLIMITED, NvmlMemory
from mesos_gpu.gpu.control import ControlNodes, load_uvm
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.make import MAX_GPUS, Make
from mesos_gpu.gpu.numbers import character_majors
from mesos_gpu.gpu.simulated import UVM_MAJORS, SimulatedDriver
from tests.fakes.nvml import NOT_SUPPORTED, FakeGpu, FakeNvml
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


WITHOUT_UVM = "Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n510 nvidia-uvm\n"
WITH_UVM = "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n"


class Machine:
    """A /proc/devices and a /dev of our own, and a nvidia-modprobe that counts its calls."""

    def __init__(self, folder: Path, text: str) -> None:
        self.proc_devices, self.dev, self.loads = folder / "devices", folder / "dev", 0
        self.after_loading: str | None = None
        self.proc_devices.write_text(text)
        self.dev.mkdir()

    def load(self) -> str | None:
        self.loads += 1
        if self.after_loading is None:
            return "it is not installed"
        self.proc_devices.write_text(self.after_loading)
        return None

    def nodes(self) -> ControlNodes:
        return ControlNodes(self.proc_devices, self.dev, self.load)


def test_uvm_has_the_major_that_the_kernel_gave_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, WITH_UVM)
    assert machine.nodes().find() == (
        DeviceNode("/dev/nvidiactl", 195, 255),
        DeviceNode("/dev/nvidia-uvm", 510, 0),
    )
    assert machine.loads == 0


def test_missing_uvm_is_loaded_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, WITHOUT_UVM)
    machine.after_loading = WITH_UVM
    nodes = machine.nodes()
    assert nodes.find() == nodes.find()
    assert machine.loads == 1


def test_uvm_that_does_not_come_is_an_error_that_says_what_to_do(tmp_path: Path, golden: Golden) -> None:
    machine = Machine(tmp_path, WITHOUT_UVM)
    nodes = machine.nodes()
    with pytest.raises(DeviceError) as refused:
        nodes.find()
    assert str(refused.value) == golden
    with pytest.raises(DeviceError):
        nodes.find()
    assert machine.loads == 1


def test_file_that_is_no_device_gives_no_number(tmp_path: Path) -> None:
    machine = Machine(tmp_path, WITHOUT_UVM)
    (machine.dev / "nvidia-uvm").touch()
    with pytest.raises(DeviceError):
        machine.nodes().find()


def test_proc_devices_that_cannot_be_read_is_an_error_naming_it(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no-such-file"):
        ControlNodes(tmp_path / "no-such-file", tmp_path, lambda: None).find()


@pytest.mark.root
def test_number_comes_from_the_node_where_the_kernel_does_not_list_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, WITHOUT_UVM)
    make_node(machine.dev / "nvidia-uvm", 509, 0)
    make_node(machine.dev / "nvidia-uvm-tools", 509, 1)
    try:
        assert machine.nodes().find()[1:] == (
            DeviceNode("/dev/nvidia-uvm", 509, 0),
            DeviceNode("/dev/nvidia-uvm-tools", 509, 1),
        )
    finally:
        for node in machine.dev.iterdir():
            node.unlink()


@pytest.mark.root
def test_kernel_is_right_where_an_old_node_disagrees(tmp_path: Path) -> None:
    machine = Machine(tmp_path, WITH_UVM)
    make_node(machine.dev / "nvidia-uvm", 77, 0)
    make_node(machine.dev / "nvidia-uvm-tools", 77, 1)
    try:
        assert [(node.major, node.minor) for node in machine.nodes().find()] == [(195, 255), (510, 0), (510, 1)]
    finally:
        for node in machine.dev.iterdir():
            node.unlink()


def make_node(path: Path, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(major, minor))


def helper(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-modprobe"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_helper_is_called_as_mesos_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, f'echo "$@" >{tmp_path}/called', monkeypatch)
    assert load_uvm() is None
    assert (tmp_path / "called").read_text() == "-u -c 0\n"


def test_helper_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, "echo no module for you >&2; exit 1", monkeypatch)
    assert load_uvm() == "no module for you"


def test_helper_that_fails_in_silence_is_told_by_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    helper(tmp_path, "exit 3", monkeypatch)
    assert load_uvm() == golden


def test_helper_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load_uvm() == golden


def test_majors_are_read_from_the_character_part_by_whole_names() -> None:
    text = "Character devices:\n  4 tty\n  5 /dev/tty\n  4 tty\n511 nvidia-uvm-other\n\nBlock devices:\n  7 loop\n"
    assert character_majors(text) == {"tty": 4, "/dev/tty": 5, "nvidia-uvm-other": 511}
