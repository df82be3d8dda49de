"""GPUs that come to a running container and go from it, on both versions of cgroups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import Containerizer
from mesos_gpu.errors import BadInput, ContainerError, NotEnoughGpus, NotFound
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.device_access import find_device_access
from mesos_gpu.isolator.live_access import RunningAccess
from mesos_gpu.isolator.plan import DeviceRule, LaunchPlan
from tests.support import places
from tests.support.container.box import IN_PURE_V2, Box
from tests.support.golden import Golden

pytestmark = pytest.mark.root

LOOK_WHEN_TOLD = r"""
for number in 0 1 2 3; do mknod made$number c 195 $number; done
turn=0
while sleep 0.02; do
    [ -e look$turn ] || continue
    nodes=$(cd /dev && echo nvidia[0-9]*) opens=
    for number in 0 1 2 3; do
        case $( { : < made$number; } 2>&1 ) in *"No such device"*) opens="$opens $number" ;; esac
    done
    echo "$turn: $nodes may open$opens"
    turn=$((turn + 1))
done
"""
"""ENXIO comes from the kernel, which has no such driver: it was let through. Nodes of one's own do not help."""


class Looking:
    """A container that says what it can see and open, each time it is asked."""

    def __init__(self, box: Box, containerizer: Containerizer, name: str = "c") -> None:
        self._box, self.containerizer, self._name, self._turn = box, containerizer, name, 0

    async def start(self, gpus: int) -> None:
        await self.containerizer.launch(self._box.config(self._name, shell=LOOK_WHEN_TOLD, gpus=gpus))

    def look(self) -> str:
        (self._box.folder / "sandboxes" / self._name / f"look{self._turn}").touch()
        self._box.until_said(self._name, f"{self._turn}: ")
        line = self._box.said(self._name).splitlines()[self._turn].partition(": ")[2]
        self._turn += 1
        return line


def real_isolator(folder: Path) -> NvidiaGpuIsolator:
    driver = SimulatedDriver(4)
    return NvidiaGpuIsolator(driver.gpus(), driver, None, Checkpoints(folder / "gpus"))


async def grow_and_shrink(box: Box, runtime: str) -> None:
    isolator = real_isolator(box.folder)
    containerizer = await box.open(isolator=isolator, runtimes=(runtime,))
    gpus = sorted(isolator.total)
    looking = Looking(box, containerizer)
    await looking.start(1)
    assert looking.look() == "nvidia0 may open 0"

    change = await containerizer.update("c", 3)
    assert (change.added, change.removed) == ((gpus[1], gpus[2]), ())
    assert looking.look() == "nvidia0 nvidia1 nvidia2 may open 0 1 2"

    with pytest.raises(NotEnoughGpus):
        await containerizer.update("c", 5)
    assert looking.look() == "nvidia0 nvidia1 nvidia2 may open 0 1 2"

    change = await containerizer.update("c", 2, [gpus[1]])
    assert (change.added, change.removed) == ((), (gpus[1],))
    assert looking.look() == "nvidia0 nvidia2 may open 0 2"
    assert isolator.free == {gpus[1], gpus[3]}

    await containerizer.update("c", 0)
    assert looking.look() == "nvidia[0-9]* may open"
    await containerizer.update("c", 4)
    assert looking.look() == "nvidia0 nvidia1 nvidia2 nvidia3 may open 0 1 2 3"
    await containerizer.destroy("c")
    assert isolator.free == isolator.total


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_gpus_come_and_go_on_this_machines_cgroups(box: Box, runtime: str) -> None:
    await grow_and_shrink(box, runtime)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
async def test_gpus_come_to_nested_containers_and_go_from_them_with_their_parents(box: Box, runtime: str) -> None:
    isolator = real_isolator(box.folder)
    containerizer = await box.open(isolator=isolator, runtimes=(runtime,))
    both = [Looking(box, containerizer), Looking(box, containerizer, "c.nested")]
    for looking, gpus in zip(both, (1, 0), strict=True):
        await looking.start(gpus)
    assert [looking.look() for looking in both] == 2 * ["nvidia0 may open 0"]
    await containerizer.update("c", 3)
    assert [looking.look() for looking in both] == 2 * ["nvidia0 nvidia1 nvidia2 may open 0 1 2"]
    await containerizer.update("c", 2, [sorted(isolator.total)[0]])
    assert [looking.look() for looking in both] == 2 * ["nvidia1 nvidia2 may open 1 2"]
    with pytest.raises(BadInput):
        await containerizer.update("c.nested", 1)


V2 = """
import asyncio, sys
from pathlib import Path
from tests.support.container.box import Box
from tests.container.life.test_changing import change_after_restart, grow_and_shrink

async def main(folder, cgroups_root):
    box = Box(Path(folder))
    box.cgroups_root = cgroups_root
    try:
        await globals()[sys.argv[3]](box, "runc")
        print("done")
    finally:
        await box.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.parametrize("what", ["grow_and_shrink", "change_after_restart"])
def test_gpus_come_and_go_where_there_is_only_cgroup_v2(make_box: Callable[[], Box], what: str) -> None:
    # runc, because crun wants to raise its memory lock limit, which not every machine lets root do.
    box = make_box()
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            IN_PURE_V2,
            "sh",
            sys.executable,
            "-c",
            V2,
            str(box.folder),
            box.cgroups_root,
            what,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=places.ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


async def test_a_restarted_containerizer_can_change_what_it_found(box: Box) -> None:
    await change_after_restart(box, "crun")


async def change_after_restart(box: Box, runtime: str) -> None:
    with real_isolator(box.folder) as isolator:
        before = await box.open(isolator=isolator, runtimes=(runtime,))
        looking = Looking(box, before)
        await looking.start(1)
        await before.update("c", 2)
        await before.close()
    isolator = real_isolator(box.folder)
    after = await box.open(["c"], isolator=isolator, runtimes=(runtime,))
    assert len(isolator.held["c"]) == 2
    await after.update("c", 1)
    assert looking.look() == "nvidia0 may open 0"
    await after.destroy("c")


async def test_what_does_not_run_cannot_be_changed(box: Box) -> None:
    containerizer = await box.open(isolator=real_isolator(box.folder))
    with pytest.raises(NotFound):
        await containerizer.update("c", 1)
    await containerizer.launch(box.config("c", "true"))
    await containerizer.wait("c")
    with pytest.raises(NotFound):
        await containerizer.update("c", 1)


async def test_a_link_that_leads_out_of_the_container_is_not_followed(box: Box, tmp_path: Path) -> None:
    isolator = real_isolator(box.folder)
    containerizer = await box.open(isolator=isolator)
    outside = tmp_path / "outside"
    outside.write_text("the host's")
    await containerizer.launch(
        box.config("c", shell=f"ln -s {outside} /dev/nvidia0; echo linked; exec sleep 600", gpus=0)
    )
    box.until_said("c", "linked")
    await containerizer.update("c", 1)
    assert outside.read_text() == "the host's"
    assert outside.stat().st_mode & 0o777 != 0o666
    await containerizer.destroy("c")


async def test_release_that_does_not_fit_is_refused(box: Box, golden: Golden) -> None:
    isolator = real_isolator(box.folder)
    containerizer = await box.open(isolator=isolator)
    await containerizer.launch(box.config("c", "sleep", "600", gpus=2))
    for release in ([], sorted(isolator.total)[2:3], sorted(isolator.total)[:2]):
        with pytest.raises(BadInput) as refused:
            await containerizer.update("c", 1, release)
        assert str(refused.value) == golden
    await containerizer.destroy("c")


async def test_what_a_process_has_open_is_seen(box: Box) -> None:
    containerizer = await box.open()
    pid = await containerizer.launch(box.config("c", shell="exec 7</dev/full; echo up; sleep 600"))
    box.until_said("c", "up")
    full, zero = DeviceNode("/dev/full", 1, 7), DeviceNode("/dev/zero", 1, 5)
    assert RunningAccess(pid).using([full, zero]) == {full}
    await containerizer.destroy("c")


async def test_a_container_with_the_hosts_dev_is_left_alone(box: Box, golden: Golden) -> None:
    """A process in a container's cgroup, but in the host's mounts: its nodes are everybody's."""
    containerizer = await box.open()
    pid = await containerizer.launch(box.config("c", shell="echo up; sleep 600"))
    devices = find_device_access(pid).folder
    node = DeviceNode("/dev/nvidia77", 195, 77)
    with subprocess.Popen(["sleep", "600"]) as stranger:  # noqa: ASYNC220 - it returns at once
        try:
            (devices / "cgroup.procs").write_text(str(stranger.pid))
            with pytest.raises(ContainerError) as refused:
                RunningAccess(stranger.pid).change([node], opened=[node], closed=[])
            assert str(refused.value) == golden.hide(pid=stranger.pid)
            assert not Path("/dev/nvidia77").exists()
        finally:
            stranger.kill()
    await containerizer.destroy("c")


async def test_a_node_in_a_folder_comes_and_goes(box: Box) -> None:
    containerizer = await box.open()
    pid = await containerizer.launch(box.config("c", shell="echo up; sleep 600"))
    cap = DeviceNode("/dev/nvidia-caps/nvidia-cap12", 240, 12, mode=0o444)
    inside = Path(f"/proc/{pid}/root/dev/nvidia-caps/nvidia-cap12")
    RunningAccess(pid).change([cap], opened=[cap], closed=[])
    status = inside.stat()
    assert (status.st_rdev, status.st_mode & 0o777) == (os.makedev(240, 12), 0o444)
    for _ in range(2):
        RunningAccess(pid).change([], opened=[], closed=[cap])
        assert not inside.exists()
    await containerizer.destroy("c")


async def test_devices_of_plugins_stay_when_gpus_change(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2 has one program with all rules: what is not named in a change is denied by it."""
    fuse = DeviceRule("c", 10, 229, "rwm")
    isolator, seen = real_isolator(box.folder), []

    def found(pid: int, *, base_rules: Sequence[DeviceRule] = ()) -> RunningAccess:
        seen.append(fuse in base_rules)
        return RunningAccess(pid, base_rules=base_rules)

    monkeypatch.setattr(isolator, "_find_live_access", found)
    containerizer = await box.open(isolator=isolator)
    config = box.config("c", "sleep", "60", gpus=1)
    await containerizer.launch(replace(config, device_plan=LaunchPlan(rules=(fuse,))))
    await containerizer.update("c", 2)
    assert seen == [True]
