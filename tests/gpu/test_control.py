from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.control import ControlNodes, load_uvm
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.gpu.numbers import character_majors
from tests.support.golden import Golden

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
