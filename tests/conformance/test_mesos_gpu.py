"""Twins of Mesos' own GPU tests (nvidia_gpu_isolator_tests.cpp): each name has the case's name in it.

The second half has a test for each bug of Mesos' GPU code that ours is not to have.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.agent.model.resources import gpus_asked
from mesos_gpu.errors import BadFlag, Conflict, NotEnoughGpus
from mesos_gpu.gpu.control import ControlNodes
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import (
    Checkpoints,
    ImageManifest,
    NvidiaGpuAllocator,
    NvidiaGpuIsolator,
    NvidiaVolume,
    discover_gpus,
    should_inject,
)
from mesos_gpu.master.allocation.eligibility import dominant_share, quantities
from mesos_gpu.master.decisions import offering
from mesos_gpu.mesos.resources import Resources
from tests.support.agent.live import LiveAgent, live_agent
from tests.support.driver_machine import VERSION, usual_machine
from tests.support.master import build

DRIVER = SimulatedDriver(4)
GPUS = DRIVER.gpus()
BOGUS = Gpu(minor=999, index=999, uuid="GPU-bogus", name="Bogus")

OPEN_ALL = r"""
for number in 0 1 2 3; do
    mknod node$number c 195 $number
    case $( { : <node$number; } 2>&1 ) in *"Operation not permitted"*) ;; *) echo "may open $number" ;; esac
done
echo looked; exec sleep 600
"""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    """The agent program with four simulated GPUs and real containers."""
    async with live_agent(tmp_path) as live:
        yield live


def isolator(folder: Path, gpus: Sequence[Gpu] = GPUS, volume: NvidiaVolume | None = None) -> NvidiaGpuIsolator:
    return NvidiaGpuIsolator(gpus, DRIVER, volume, Checkpoints(folder / "gpus"))


# 1. NvidiaGpuTest.ROOT_CGROUPS_NVIDIA_GPU_VerifyDeviceAccess


@pytest.mark.root
async def test_VerifyDeviceAccess(agent: LiveAgent) -> None:
    agent.run("none", "nvidia-smi")
    assert await agent.ends("none") == "TASK_FAILED"
    assert agent.master.states("none") == ["TASK_STARTING", "TASK_RUNNING", "TASK_FAILED"]
    agent.run("one", "test $(nvidia-smi --list-gpus | wc -l) = 1", gpus=1)
    assert await agent.ends("one") == "TASK_FINISHED"


# 2. NvidiaGpuTest.ROOT_INTERNET_CURL_CGROUPS_NVIDIA_GPU_NvidiaDockerImage
# 3. NvidiaGpuTest.ROOT_INTERNET_CURL_CGROUPS_NVIDIA_GPU_TensorflowGpuImage
# What their images decide, at the isolator's height: an image of the label alone, one of the variable alone.


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(ImageManifest(labels={"com.nvidia.volumes.needed": "nvidia_driver"}), id="NvidiaDockerImage"),
        pytest.param(ImageManifest({"NVIDIA_VISIBLE_DEVICES": "all"}), id="TensorflowGpuImage"),
    ],
)
def test_NvidiaDockerImage_and_TensorflowGpuImage(tmp_path: Path, image: ImageManifest) -> None:
    volume = NvidiaVolume.create(tmp_path / "volumes", DRIVER)
    isolation = isolator(tmp_path, volume=volume)
    with_gpu = isolation.prepare("one", 1, image=image)
    assert [(mount.destination, mount.read_only) for mount in with_gpu.mounts] == [("/usr/local/nvidia", True)]
    assert with_gpu.search_paths["LD_LIBRARY_PATH"][-2:] == ("/usr/local/nvidia/lib", "/usr/local/nvidia/lib64")
    assert with_gpu.environment == {"NVIDIA_VISIBLE_DEVICES": GPUS[0].uuid}
    without = isolation.prepare("none", 0, image=image)
    assert without.mounts == with_gpu.mounts, "the files come whether or not it has GPUs"
    assert (without.gpus, dict(without.environment)) == ((), {"NVIDIA_VISIBLE_DEVICES": "void"})


# 4. NvidiaGpuTest.ROOT_CGROUPS_NVIDIA_GPU_FractionalResources


def test_FractionalResources() -> None:
    state = build.new_state()
    agent, _ = build.add_agent(state), build.add_framework(state)
    [offer] = build.offers(state)
    tenth = build.task_info(agent, "t", "cpus:0.1;mem:32;gpus:0.1")
    [status] = build.statuses(build.launch(state, offer, tenth))
    assert (status["state"], status["reason"]) == ("TASK_ERROR", "REASON_TASK_INVALID")
    assert "The 'gpus' resource must be an unsigned integer" in status["message"]


# 5. NvidiaGpuTest.NVIDIA_GPU_Discovery


@pytest.mark.root
async def test_Discovery(agent: LiveAgent) -> None:
    assert (await agent.get("/state"))["resources"]["gpus"] == 4


# 6. NvidiaGpuTest.ROOT_CGROUPS_NVIDIA_GPU_FlagValidation

FLAGS: list[tuple[str, str | None, list[str] | None, bool, int | None]] = [
    ("a_nothing_is_asked_and_nothing_isolates", "cpus:1", None, False, 0),
    ("b_devices_without_isolation", None, ["0"], False, None),
    ("c_gpus_without_isolation_are_not_ours", "gpus:100", None, False, 0),
    ("d_isolation_alone_finds_all", "cpus:1", None, True, 4),
    ("e_no_gpus_wanted", "gpus:0", None, True, 0),
    ("f_devices_and_gpus_agree", "gpus:1", ["0"], True, 1),
    ("g_devices_without_gpus", "cpus:1", ["0", "1"], True, None),
    ("h_gpus_without_devices", "gpus:1", None, True, None),
    ("i_counts_differ", "gpus:3", ["0", "1"], True, None),
    ("j_devices_and_no_gpus_wanted", "gpus:0", ["0"], True, None),
    ("k_twice_the_machine", "gpus:8", [str(index) for index in range(8)], True, None),
    ("l_one_twice", "gpus:2", ["0", "0"], True, None),
]


@pytest.mark.parametrize(
    ("resources", "devices", "isolating", "count"), [row[1:] for row in FLAGS], ids=[row[0] for row in FLAGS]
)
def test_FlagValidation(resources: str | None, devices: list[str] | None, isolating: bool, count: int | None) -> None:
    def discover() -> int:
        asked = gpus_asked(resources)
        return len(discover_gpus(gpus_asked=asked, devices=devices, isolating=isolating, found=GPUS))

    if count is not None:
        assert discover() == count
    else:
        with pytest.raises(BadFlag):
            discover()


# 7. NvidiaGpuTest.NVIDIA_GPU_Allocator, step by step


def test_Allocator() -> None:
    allocator = NvidiaGpuAllocator(GPUS)
    assert allocator.total == set(GPUS)
    gpus = allocator.allocate(len(GPUS))
    with pytest.raises(NotEnoughGpus, match="Requested 1 gpus but only 0 available"):
        allocator.allocate(1)
    allocator.deallocate(gpus)
    assert allocator.allocate(gpus) == gpus, "all of them again, by reference"
    one = frozenset(GPUS[2:3])
    allocator.deallocate(one)
    assert allocator.allocate(1) == one
    allocator.deallocate(one)
    with pytest.raises(Conflict, match=r"195\."):
        allocator.deallocate(one)
    assert allocator.allocate(one) == one
    with pytest.raises(Conflict, match=r"195\.999"):
        allocator.deallocate({BOGUS})
    allocator.deallocate(gpus)
    with pytest.raises(Conflict, match=r"195\.999"):
        allocator.allocate({BOGUS})


# 8. NvidiaGpuTest.ROOT_NVIDIA_GPU_VolumeCreation


class RealDriver(NullDriver):
    kind, version = "nvml", VERSION


def test_VolumeCreation(tmp_path: Path) -> None:
    usual_machine(tmp_path / "host")
    volume = NvidiaVolume.create(tmp_path / "volumes", RealDriver(), root=tmp_path / "host")
    assert volume is not None
    assert {path.name for path in volume.host_path.iterdir()} == {"bin", "lib", "lib64"}
    assert (volume.host_path / "bin" / "nvidia-smi").is_file()
    assert (volume.host_path / "lib64" / "libnvidia-ml.so.1").is_file()


# 9. NvidiaGpuTest.ROOT_NVIDIA_GPU_VolumeShouldInject


def test_VolumeShouldInject() -> None:
    assert should_inject({}, {"com.nvidia.volumes.needed": "nvidia_driver"})
    assert not should_inject({}, {"com.ati.volumes.needed": "ati_driver"})


# 10. NvidiaGpuTest.ROOT_CGROUPS_NVIDIA_GPU_DefaultExecutorVerifyDeviceAccess: a task nested in its executor


def test_DefaultExecutorVerifyDeviceAccess(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    executor = isolation.prepare("executor", 1)
    task = isolation.prepare("executor.task", 0)
    assert (task.gpus, task.nodes, task.rules) == (executor.gpus, executor.nodes, executor.rules)
    assert len(task.gpus) == 1
    isolation.cleanup("executor.task")
    assert isolation.status("executor") == GPUS[:1], "they are its parent's"


# Not tested in Mesos: what section 8 of its GPU tests leaves out, and bugs of the original.


def test_bug_growing_forgets_what_was_held(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare("c", 1)
    isolation.update("c", 3)
    assert isolation.status("c") == GPUS[:3]
    isolation.update("c", 4)
    isolation.cleanup("c")
    assert isolation.free == set(GPUS), "Mesos loses the first GPU until the agent restarts"


def test_bug_shrinking_takes_a_live_siblings_gpu(tmp_path: Path) -> None:
    isolation = isolator(tmp_path)
    isolation.prepare("pod", 2)  # its first task works on GPU 0, its second, on GPU 1, ends
    change = isolation.update("pod", 1, [GPUS[1]])
    assert change.removed == (GPUS[1],), "Mesos takes the lowest, whoever works on it"
    assert isolation.status("pod") == (GPUS[0],)


@pytest.mark.root
async def test_bug_gpus_are_offered_before_they_are_free(agent: LiveAgent) -> None:
    for number in range(5):
        agent.run(f"t{number}", "nvidia-smi -L", gpus=4)
        assert await agent.ends(f"t{number}") == "TASK_FINISHED", "MESOS-8038: only 0 available"


def test_bug_orphans_gpus_count_as_available(tmp_path: Path) -> None:
    isolator(tmp_path).prepare("orphan", 3)
    after = isolator(tmp_path)
    assert after.recover([]) == {"orphan"}
    with pytest.raises(NotEnoughGpus, match="only 1 available"):
        after.prepare("new", 2)
    after.cleanup("orphan")
    assert len(after.prepare("new", 4).gpus) == 4


@pytest.mark.parametrize("gpus", [1.001, 8.001, 0.1, 0.5])
def test_bug_some_fractions_pass_as_whole(gpus: float) -> None:
    text = f"cpus:1;gpus:{gpus}"
    with pytest.raises(BadFlag, match="must be an unsigned integer"):
        gpus_asked(text)
    state = build.new_state()
    agent, _ = build.add_agent(state, "cpus:2;mem:1024;gpus:16"), build.add_framework(state)
    [offer] = build.offers(state)
    [status] = build.statuses(build.launch(state, offer, build.task_info(agent, "t", f"cpus:0.1;mem:32;gpus:{gpus}")))
    assert "must be an unsigned integer" in status["message"]


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_bug_a_directory_named_like_a_gpu_breaks_containers(tmp_path: Path, kind: str) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("nvidia-caps-imex-channels", "nvidia-uvm-tools", "nvidia-modeset", "nvidia7", "nvidiactl"):
        if kind == "directory":
            (dev / name).mkdir()
        elif kind == "file":
            (dev / name).touch()
        else:
            (dev / name).symlink_to("nowhere")
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n510 nvidia-uvm\n")
    nodes = ControlNodes(tmp_path / "devices", dev, lambda: None).find()
    assert [node.path for node in nodes] == ["/dev/nvidiactl", "/dev/nvidia-uvm"]


@pytest.mark.root
def test_nvidia_modeset_is_given_where_the_driver_has_it(tmp_path: Path) -> None:
    os.mknod(tmp_path / "nvidia-modeset", 0o20600, os.makedev(195, 254))
    (tmp_path / "devices").write_text("Character devices:\n195 nvidia\n510 nvidia-uvm\n")
    try:
        nodes = ControlNodes(tmp_path / "devices", tmp_path, lambda: None).find()
    finally:
        (tmp_path / "nvidia-modeset").unlink()
    assert [(node.path, node.major, node.minor) for node in nodes][-1] == ("/dev/nvidia-modeset", 195, 254)


@pytest.mark.root
async def test_bug_a_vanished_gpu_keeps_the_agent_from_restarting(agent: LiveAgent) -> None:
    agent.run("t", OPEN_ALL, gpus=1)
    before = await agent.until_said("t", "looked")
    await agent.signal(signal.SIGKILL)
    await agent.start("--simulated_gpus=3")
    assert (await agent.get("/state"))["resources"]["gpus"] == 3
    agent.run("other", OPEN_ALL, gpus=2)
    other = await agent.until_said("other", "looked")
    assert set(before.splitlines()) & set(other.splitlines()) == {"looked"}


@pytest.mark.root
async def test_siblings_cannot_open_each_others_gpus(agent: LiveAgent) -> None:
    for name in ("a", "b"):
        agent.run(name, OPEN_ALL, gpus=1)
    seen = await asyncio.gather(*(agent.until_said(name, "looked") for name in ("a", "b")))
    opened = [[line for line in text.splitlines() if line.startswith("may open")] for text in seen]
    assert [len(lines) for lines in opened] == [1, 1]
    assert opened[0] != opened[1]


@pytest.mark.root
async def test_the_containers_variable_names_its_own_gpus_or_void(agent: LiveAgent) -> None:
    show = {
        "value": 'echo "[$NVIDIA_VISIBLE_DEVICES]"',
        "environment": {"variables": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
    }
    agent.run("none", "", command=show)
    agent.run("one", "", command=show, gpus=1)
    for name in ("none", "one"):
        assert await agent.ends(name) == "TASK_FINISHED"
    assert await agent.said("none") == "[void]\n"
    assert (await agent.said("one")).strip("[]\n") in {gpu.uuid for gpu in GPUS}


# Elsewhere in Mesos' tree: GPUs in the allocator, the endpoints and the metrics.


@pytest.mark.parametrize(
    ("filtering", "capabilities", "offered"), [(True, "", 0), (True, "GPU_RESOURCES", 1), (False, "", 1)]
)
def test_gpu_machines_are_for_frameworks_that_take_gpus_unless_the_filter_is_off(
    filtering: bool, capabilities: str, offered: int
) -> None:
    state = build.new_state(replace(build.RULES, filter_gpu_resources=filtering))
    build.add_agent(state)
    build.add_framework(state, capabilities=capabilities)
    assert len(build.offers(state)) == offered


def test_bug_an_agent_with_only_gpus_left_is_not_offered() -> None:
    state = build.new_state()
    agent, _ = build.add_agent(state, "cpus:1;mem:64;gpus:2"), build.add_framework(state)
    [offer] = build.offers(state)
    build.launch(state, offer, build.task_info(agent, "t", "cpus:1;mem:64;gpus:1"))
    offering.tick(state, build.later(5.0))
    [rest] = agent.offers.values()
    assert rest.resources.gpus == 1


def test_gpus_do_not_count_for_a_roles_dominant_share() -> None:
    total = quantities(Resources.parse("cpus:4;mem:4096;gpus:1"))
    held = quantities(Resources.parse("cpus:1;mem:1024;gpus:1"))
    assert dominant_share(held, total, frozenset({"gpus"})) == 0.25
    assert dominant_share(held, total, frozenset()) == 1.0


def test_every_resource_object_has_gpus() -> None:
    assert Resources.parse("cpus:1").summary()["gpus"] == 0


def test_ROOT_DOCKER_NVIDIA_GPU_InspectDevices_access_is_read_back(tmp_path: Path) -> None:
    plan = isolator(tmp_path).prepare("c", 1)
    rules = {str(rule) for rule in plan.rules}
    assert {"c 195:0 rwm", "c 195:255 rwm"} <= rules
    assert not any("195:1 " in rule for rule in rules)
