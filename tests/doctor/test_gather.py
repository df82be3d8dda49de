"""Facts from a made-up root, and from this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.facts import Node, Nvml, PciGpu
from mesos_gpu.doctor.gather import CNI_FOLDERS, gather
from mesos_gpu.local.bridge import PLUGINS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "proc/devices": "Character devices:\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n",
        "proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\nsnd 1 0 - Live 0x0\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\nGCC: 12\n",
        "proc/filesystems": "nodev\tsysfs\nnodev\toverlay\n\text4\n",
        "proc/sys/user/max_user_namespaces": "96365\n",
        "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "dev/nvidiactl": "no node",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for address, vendor, kind, driver in (
        ("0000:01:00.0", "0x10de", "0x030200", "nvidia"),
        ("0000:02:00.0", "0x10de", "0x030000", None),
        ("0000:01:00.1", "0x10de", "0x040300", "snd_hda_intel"),
        ("0000:00:02.0", "0x8086", "0x030000", "i915"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
        if driver:
            (tmp_path / "sys/drivers" / driver).mkdir(parents=True)
            (device / "driver").symlink_to(tmp_path / "sys/drivers" / driver)
    return tmp_path


def test_a_machine_is_read_from_its_files(root: Path) -> None:
    facts = gather(root=root, open_nvml=lambda: Nvml("550.54.15", "12.4", ((0, "H200"),)), ports=())
    assert facts.gpus == (PciGpu("0000:01:00.0", "nvidia"), PciGpu("0000:02:00.0", None))
    assert facts.modules == {"nvidia", "nvidia_uvm"}
    assert facts.module_version == "550.54.15"
    assert facts.majors["nvidia-uvm"] == 510
    node = facts.nodes["/dev/nvidiactl"]
    assert isinstance(node, Node)
    assert node.major is None
    assert facts.nodes["/dev/nvidia0"] is None
    assert facts.user_namespaces == 96365
    assert (facts.cgroup_version, facts.controllers, facts.overlay) == (2, {"cpu", "memory"}, True)


def test_hybrid_cgroups_count_as_v1(root: Path) -> None:
    with (root / "proc/mounts").open("a") as mounts:
        mounts.write("cgroup /sys/fs/cgroup/devices cgroup rw,nosuid,devices 0 0\n")
        mounts.write("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    facts = gather(root=root, open_nvml=Nvml, ports=())
    assert (facts.cgroup_version, facts.controllers) == (1, {"devices", "memory"})


def test_an_empty_root_has_nothing(tmp_path: Path) -> None:
    facts = gather(root=tmp_path, open_nvml=Nvml, ports=())
    assert (facts.gpus, facts.cgroup_version, facts.module_version, facts.overlay) == ((), None, None, False)


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert gather(open_nvml=Nvml, ports=[port]).ports == {port: False}


def test_this_machine_can_be_examined() -> None:
    findings = examine(gather(ports=()))
    assert {"root", "hardware", "cgroups", "OCI runtime"} <= {finding.check for finding in findings}


def test_plugins_of_container_networks_are_looked_for_where_a_box_looks() -> None:
    assert CNI_FOLDERS == PLUGINS
