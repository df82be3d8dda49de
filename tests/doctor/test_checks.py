"""What is wrong with a machine: each check on its own, and a machine where all is well."""

from __future__ import annotations

import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.facts import Facts, Node, Nvml, PciGpu, RunningAgent
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.doctor.fixes import fix_findings
from mesos_gpu.doctor.gather import CNI_FOLDERS, gather
from mesos_gpu.local.bridge import PLUGINS
from tests.support.golden import Golden

CHAR = stat.S_IFCHR | 0o666
NODES = {
    "/dev/nvidiactl": Node(195, 255, CHAR),
    "/dev/nvidia-uvm": Node(510, 0, CHAR),
    "/dev/nvidia0": Node(195, 0, CHAR),
}
FLAGS = {
    "isolation": "filesystem/linux,cgroups/devices,gpu/nvidia,docker/runtime",
    "image_providers": "docker",
    "same_user_peers": "true",
}
WELL = Facts(
    root=True,
    kernel="6.1.115",
    gpus=(PciGpu("0000:01:00.0", "nvidia"),),
    modules=frozenset({"nvidia", "nvidia_uvm", "overlay"}),
    module_version="550.54.15",
    nvml=Nvml("550.54.15", "12.4", ((0, "NVIDIA H200"),)),
    majors={"nvidia": 195, "nvidia-uvm": 510},
    nodes=NODES,
    programs={
        **{"crun": "/usr/bin/crun", "conmon": "/usr/bin/conmon", "init": "/usr/bin/tini", "image-init": "/x"},
        **{"portmap": "/usr/lib/cni/portmap", "iptables": "/usr/sbin/iptables", "unshare": "/usr/bin/unshare"},
    },
    runtime_versions={"crun": "crun version 1.14", "runc": None},
    cgroup_version=2,
    controllers=frozenset({"cpu", "memory"}),
    overlay=True,
    user_namespaces=60000,
    ports={5050: True, 5051: False, 8080: True},
    agents=(RunningAgent("http://127.0.0.1:5051", FLAGS, 1),),
)


def test_on_a_machine_that_is_well_everything_is_looked_at_and_fine() -> None:
    findings = examine(WELL)
    assert {finding.verdict for finding in findings} == {Verdict.OK}
    assert [finding.check for finding in findings] == [
        *("root", "hardware", "nouveau", "driver", "NVML", "device nodes", "cgroups", "OCI runtime", "conmon", "init"),
        *(
            "overlayfs",
            "fixes of the runtime",
            "fixes of the kernel",
            "user namespaces",
            "container networks",
            "ports",
            "agent http://127.0.0.1:5051",
        ),
    ]


def node(path: str, value: Node | None) -> dict[str, Any]:
    return {"nodes": {**NODES, path: value}}


@pytest.mark.parametrize(
    ("wrong", "verdict", "check"),
    [
        ({"root": False}, "warning", "root"),
        ({"gpus": (PciGpu("01:00.0", "nouveau"),)}, "problem", "nouveau"),
        ({"modules": frozenset({"nvidia", "nouveau"})}, "warning", "nouveau"),
        ({"gpus": (PciGpu("01:00.0", "vfio-pci"),)}, "warning", "passed through"),
        ({"module_version": None, "nvml": Nvml(error="x", code=9)}, "problem", "driver"),
        ({"module_version": "331.89", "nvml": Nvml("331.89")}, "problem", "driver"),
        ({"module_version": "535.1"}, "problem", "driver"),
        ({"nvml": Nvml(error="no library", code=12)}, "problem", "NVML"),
        ({"nvml": Nvml(error="mismatch", code=18)}, "problem", "NVML"),
        ({"nvml": Nvml(error="strange", code=999)}, "problem", "NVML"),
        ({"nvml": Nvml("550.54.15", None, ())}, "warning", "NVML"),
        (node("/dev/nvidiactl", None), "problem", "/dev/nvidiactl"),
        (node("/dev/nvidia-uvm", Node(None, None, 0)), "problem", "/dev/nvidia-uvm"),
        (node("/dev/nvidia-uvm", Node(234, 0, CHAR)), "problem", "/dev/nvidia-uvm"),
        (node("/dev/nvidia0", Node(195, 0, stat.S_IFCHR | 0o660)), "warning", "/dev/nvidia0"),
        ({"majors": {"nvidia": 195}}, "problem", "nvidia-uvm"),
        ({"cgroup_version": None}, "problem", "cgroups"),
        ({"kernel": "4.9.0"}, "problem", "cgroups"),
        ({"kernel": "5.4.0"}, "note", "cgroups"),
        ({"controllers": frozenset({"cpu"})}, "warning", "cgroups"),
        ({"runtime_versions": {}}, "problem", "OCI runtime"),
        ({"runtime_versions": {}, "programs": {}}, "problem", "OCI runtime"),
        ({"programs": {}}, "problem", "conmon"),
        ({"programs": {**WELL.programs, "image-init": None}}, "warning", "init"),
        ({"programs": {**WELL.programs, "portmap": None}}, "note", "container networks"),
        ({"programs": {**WELL.programs, "iptables": None}}, "note", "container networks"),
        ({"user_namespaces": 0}, "note", "user namespaces"),
        ({"user_namespaces": None}, "note", "user namespaces"),
        ({"kernel": "5.15.0-91-generic"}, "note", "user namespaces"),
        ({"programs": {**WELL.programs, "unshare": None}}, "note", "user namespaces"),
        ({"overlay": False}, "warning", "overlayfs"),
        ({"agents": ()}, "warning", "ports"),
    ],
)
def test_what_is_wrong_is_found_and_how_to_mend_it(
    wrong: dict[str, Any], verdict: str, check: str, golden: Golden
) -> None:
    found = [finding for finding in examine(replace(WELL, **wrong)) if finding.check == check]
    assert verdict in [finding.verdict.value for finding in found]
    assert " ".join(f"{finding.found} {finding.mend}" for finding in found) == golden


def test_a_machine_without_a_gpu_has_notes_and_no_problem() -> None:
    facts = replace(
        WELL,
        gpus=(),
        modules=frozenset(),
        module_version=None,
        nvml=Nvml(error="library not found", code=12),
        majors={},
        nodes={},
        agents=(),
        ports={},
    )
    findings = examine(facts)
    assert {finding.verdict for finding in findings} == {Verdict.OK, Verdict.NOTE}
    assert "simulates" in next(finding.mend for finding in findings if finding.check == "hardware")


def agent(gpus: float = 1, withdrawn: tuple[str, ...] = (), **flags: str) -> RunningAgent:
    return RunningAgent("http://a", {**FLAGS, **flags}, gpus, withdrawn)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (agent(isolation="filesystem/linux,cgroups/devices", gpus=0), "problem"),
        (agent(isolation="posix/cpu,gpu/nvidia,filesystem/linux"), "problem"),
        (agent(isolation="cgroups/all,gpu/nvidia"), "problem"),
        (agent(isolation=FLAGS["isolation"] + ",filesystem/posix"), "problem"),
        (agent(isolation=FLAGS["isolation"] + ",gpu/nvidia"), "problem"),
        (agent(isolation="cgroups/all,gpu/nvidia,filesystem/linux"), "warning"),
        (agent(same_user_peers="false"), "note"),
        (agent(userns_remap="1879048192:65536"), "ok"),
        (agent(nvidia_gpu_devices="0,1"), "problem"),
        (agent(resources="cpus:4;gpus:2"), "problem"),
        (agent(resources="gpus(ml):1;gpus:1", nvidia_gpu_devices="0"), "problem"),
        (agent(resources="gpus:2", nvidia_gpu_devices="0,1", gpus=2), "ok"),
        (agent(resources="gpus:0", gpus=0), "note"),
        (agent(gpus=0), "warning"),
        (agent(withdrawn=("GPU 0: XID 79",), gpus=0), "warning"),
    ],
)
def test_the_flags_of_an_agent_are_judged(one: RunningAgent, verdict: str, golden: Golden) -> None:
    found = [finding for finding in examine(replace(WELL, agents=(one,))) if finding.check == "agent http://a"]
    texts = [f"{f.found} {f.mend}" for f in found if f.verdict.value == verdict]
    assert texts == golden


def test_an_agent_that_offers_fewer_gpus_than_there_are_says_so(golden: Golden) -> None:
    two = replace(WELL, nvml=Nvml("550.54.15", None, ((0, "a"), (1, "a"))))
    (found,) = [f for f in examine(two) if f.check.startswith("agent")]
    assert (found.verdict, found.found) == (Verdict.NOTE, golden)


def said(kernel: str = "6.18.1", crun: str | None = None, runc: str | None = None) -> list[tuple[str, str]]:
    facts = Facts(kernel=kernel, runtime_versions={"crun": crun, "runc": runc})
    return [(finding.verdict.value, finding.found) for finding in fix_findings(facts)]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("runc version 1.0.0-rc6", ["2019-5736", "2022-29162", "2024-21626", "2025-31133"]),
        ("runc version 1.1.5+ds1", ["2024-21626", "2025-31133"]),
        ("runc version 1.1.12", ["2025-31133"]),
        ("runc version 1.2.7", ["2025-31133"]),
        ("runc version 1.2.8", []),
        ("runc version 1.3.2", ["2025-31133"]),
        ("runc version 1.3.3", []),
        ("runc version 1.4.0", []),
    ],
)
def test_runc_is_held_to_the_series_that_it_is_of(version: str, lacks: list[str]) -> None:
    verdict, found = said(runc=version)[0]
    assert verdict == (Verdict.WARNING if lacks else Verdict.OK).value
    assert [cve for cve in ("2019-5736", "2022-29162", "2024-21626", "2025-31133") if cve in found] == lacks


def test_the_runtime_that_an_agent_takes_is_looked_at(golden: Golden) -> None:
    assert said(crun="crun version 1.8.1", runc="runc version 1.1.5")[0] == ("ok", golden)
    assert "CVE-2022-27650" in said(crun="crun version 1.4.3")[0][1]
    assert len(said(crun="crun version unknown")) == 1


@pytest.mark.parametrize(
    ("release", "verdict", "lacks"),
    [
        ("6.18.44-fc-v657", "ok", []),
        ("6.1.76", "ok", []),
        ("6.1.75", "warning", ["CVE-2024-1086"]),
        ("5.16.10", "warning", ["CVE-2022-0847", "CVE-2024-1086"]),
        ("5.10.96", "warning", ["CVE-2022-0492", "CVE-2022-0847", "CVE-2024-1086"]),
        ("5.15.0-91-generic", "note", ["CVE-2022-0492", "CVE-2022-0185", "CVE-2022-0847", "CVE-2024-1086"]),
        ("4.19.320", "warning", ["openat2"]),
    ],
)
def test_a_kernel_is_held_to_its_series(release: str, verdict: str, lacks: list[str]) -> None:
    (found,) = said(release)
    assert found[0] == verdict
    names = ["CVE-2022-0492", "CVE-2022-0185", "CVE-2022-0847", "CVE-2024-1086", "openat2"]
    assert [name for name in names if name in found[1]] == lacks


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert said("") == []


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
