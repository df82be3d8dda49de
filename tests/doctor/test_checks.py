"""What is wrong with a machine: each check on its own, and a machine where all is well."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.facts import Facts, Node, Nvml, PciGpu, RunningAgent
from mesos_gpu.doctor.finding import Verdict
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
