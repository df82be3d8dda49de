"""Lifecycle of a container after `prepare`: update, nested containers, usage and status."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Conflict, ContainerError, DeviceError, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu, GpuUsage, MigInstance
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, ImageManifest, NvidiaGpuIsolator, NvidiaVolume
from mesos_gpu.isolator.access import gpu_node
from mesos_gpu.isolator.reach import HeldGpu
from tests.support.golden import Golden

DRIVER = SimulatedDriver(4)
GPUS = DRIVER.gpus()
PID = 7


class FakeWalls:
    """Remembers what was changed; `busy` are nodes that a process has open."""

    def __init__(self) -> None:
        self.changes: list[tuple[list[str], list[str]]] = []
        self.busy: frozenset[DeviceNode] = frozenset()
        self.refuses = 0
        self.blind = False

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        self.changes.append(([node.path for node in opened], [node.path for node in closed]))
        if self.refuses:
            self.refuses -= 1
            raise ContainerError("the kernel refused")

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        if self.blind:
            raise ContainerError("cannot see what is open")
        return self.busy.intersection(nodes)


class Running:
    """A prepared and running container `c`."""

    def __init__(self, folder: Path, gpus: int, driver: SimulatedDriver = DRIVER) -> None:
        self.walls, self.records = FakeWalls(), Checkpoints(folder)
        self.isolator = NvidiaGpuIsolator(driver.gpus(), driver, None, self.records, live_access=lambda pid: self.walls)
        self.isolator.prepare("c", gpus)
        self.isolator.isolate("c", PID)

    def recorded(self) -> set[str]:
        return {held.uuid for held in self.records.load().get("c", ())}


def test_growing_unites(tmp_path: Path) -> None:
    c = Running(tmp_path, 1)
    change = c.isolator.update("c", 3)
    assert (change.added, change.removed) == (GPUS[1:3], ())
    assert [node.path for node in change.opened] == ["/dev/nvidia1", "/dev/nvidia2"]
    assert change.plan.gpus == GPUS[:3]
    assert change.plan.environment["NVIDIA_VISIBLE_DEVICES"] == ",".join(gpu.uuid for gpu in GPUS[:3])
    assert c.isolator.held["c"] == set(GPUS[:3])
    assert c.recorded() == {gpu.uuid for gpu in GPUS[:3]}
    assert c.walls.changes == [(["/dev/nvidia1", "/dev/nvidia2"], [])]


def test_shrinking_takes_what_is_named(tmp_path: Path) -> None:
    c = Running(tmp_path, 3)
    change = c.isolator.update("c", 2, [GPUS[1]])
    assert change.removed == (GPUS[1],)
    assert c.walls.changes == [([], ["/dev/nvidia1"])]
    assert c.isolator.status("c") == (GPUS[0], GPUS[2])


def test_shrinking_unnamed_takes_none_that_is_in_use(tmp_path: Path) -> None:
    c = Running(tmp_path, 3)
    c.walls.busy = frozenset({gpu_node(GPUS[0]), gpu_node(GPUS[2])})
    assert c.isolator.update("c", 2).removed == (GPUS[1],)
    with pytest.raises(Conflict, match="all but 0 of its 2 GPUs open"):
        c.isolator.update("c", 1)
    assert c.isolator.status("c") == (GPUS[0], GPUS[2])


def test_named_gpu_that_a_process_has_open_is_not_taken_and_can_be_opened_again(tmp_path: Path) -> None:
    c = Running(tmp_path, 2)
    c.walls.busy = frozenset({gpu_node(GPUS[1])})
    with pytest.raises(Conflict, match="has /dev/nvidia1 open"):
        c.isolator.update("c", 1, [GPUS[1]])
    assert c.walls.changes == [([], ["/dev/nvidia1"]), (["/dev/nvidia1"], [])]
    assert c.isolator.status("c") == GPUS[:2]
    assert c.recorded() == {gpu.uuid for gpu in GPUS[:2]}


def test_named_gpu_of_which_nobody_can_see_whether_it_is_open_is_not_taken(tmp_path: Path) -> None:
    c = Running(tmp_path, 2)
    c.walls.blind = True
    with pytest.raises(ContainerError, match="cannot see"):
        c.isolator.update("c", 1, [GPUS[1]])
    assert c.walls.changes == [([], ["/dev/nvidia1"]), (["/dev/nvidia1"], [])]
    assert c.isolator.status("c") == GPUS[:2]
    assert c.recorded() == {gpu.uuid for gpu in GPUS[:2]}


@pytest.mark.parametrize("release", [[], GPUS[2:3], GPUS[:2]])
def test_release_must_fit(tmp_path: Path, release: Collection[Gpu], golden: Golden) -> None:
    c = Running(tmp_path, 2)
    with pytest.raises(BadInput) as refused:
        c.isolator.update("c", 1, release)
    assert str(refused.value) == golden
    assert c.isolator.status("c") == GPUS[:2]


def test_equal_is_no_change(tmp_path: Path) -> None:
    change = Running(tmp_path, 2).isolator.update("c", 2)
    assert (change.added, change.removed, change.opened, change.closed) == ((), (), (), ())


def test_to_none_and_back_leaves_no_record_and_makes_one(tmp_path: Path) -> None:
    c = Running(tmp_path, 2)
    c.isolator.update("c", 0)
    assert (c.recorded(), c.isolator.free) == (set(), set(GPUS))
    c.isolator.update("c", 1)
    assert c.recorded() == {GPUS[0].uuid}


def test_more_than_free_is_refused_and_nothing_changes(tmp_path: Path, golden: Golden) -> None:
    c = Running(tmp_path, 2)
    with pytest.raises(NotEnoughGpus) as refused:
        c.isolator.update("c", 5)
    assert str(refused.value) == golden
    assert (c.isolator.status("c"), c.walls.changes) == (GPUS[:2], [])


def test_negative_and_unknown_are_refused(tmp_path: Path, golden: Golden) -> None:
    c = Running(tmp_path, 1)
    with pytest.raises(BadInput):
        c.isolator.update("c", -1)
    for call in (lambda: c.isolator.update("x", 1), lambda: c.isolator.status("x"), lambda: c.isolator.isolate("x", 1)):
        with pytest.raises(NotFound) as refused:
            call()
        assert str(refused.value) == golden


def test_walls_that_cannot_be_opened_give_nothing(tmp_path: Path) -> None:
    c = Running(tmp_path, 1)
    c.walls.refuses = 1
    with pytest.raises(ContainerError):
        c.isolator.update("c", 2)
    assert c.isolator.status("c") == GPUS[:1]
    assert c.recorded() == {GPUS[0].uuid}


def test_gpu_that_may_be_open_for_the_container_stays_its_own(tmp_path: Path) -> None:
    c = Running(tmp_path, 1)
    c.walls.refuses = 2  # neither opening nor closing again
    with pytest.raises(ContainerError):
        c.isolator.update("c", 2)
    assert c.isolator.status("c") == GPUS[:2]
    assert c.recorded() == {gpu.uuid for gpu in GPUS[:2]}


def test_record_of_a_shrink_that_failed_is_made_whole_by_the_next_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = Running(tmp_path, 4)
    save = c.records.save

    def written_but_not_surely(container_id: str, gpus: Collection[Gpu], lost: Collection[HeldGpu]) -> None:
        save(container_id, gpus, lost)
        raise Unavailable("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(c.records, "save", written_but_not_surely)
        with pytest.raises(Unavailable):
            c.isolator.update("c", 1)
    assert c.isolator.held["c"] == set(GPUS)
    c.isolator.update("c", 4)
    assert c.recorded() == {gpu.uuid for gpu in GPUS}


def test_first_change_after_a_restart_puts_all_walls_right(tmp_path: Path) -> None:
    before = Running(tmp_path, 1)
    walls = FakeWalls()
    before.isolator.close()
    after = NvidiaGpuIsolator(GPUS, DRIVER, None, before.records, live_access=lambda pid: walls)
    after.recover({"c"})
    after.isolate("c", PID)
    after.update("c", 1)
    after.update("c", 1)
    assert walls.changes == [(["/dev/nvidia0"], ["/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"]), ([], [])]


def test_container_that_does_not_run_yet_has_no_walls_to_change(tmp_path: Path) -> None:
    isolator = NvidiaGpuIsolator(GPUS, DRIVER, None, Checkpoints(tmp_path))
    isolator.prepare("c", 1)
    assert isolator.update("c", 2).plan.gpus == GPUS[:2]


def test_instances_of_one_gpu_share_its_node(tmp_path: Path) -> None:
    def part(number: int) -> Gpu:
        nodes = tuple(
            DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", 240, cap) for cap in (10 * number, 10 * number + 1)
        )
        return Gpu(0, 0, f"MIG-{number}", "Part", mig=MigInstance("GPU-0", number, 0, nodes))

    walls, parts = FakeWalls(), (part(1), part(2))
    isolator = NvidiaGpuIsolator(parts, DRIVER, None, Checkpoints(tmp_path), live_access=lambda pid: walls)
    plan = isolator.prepare("c", 1)
    assert [node.path for node in plan.nodes][:3] == [
        *("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap10", "/dev/nvidia-caps/nvidia-cap11"),
    ]
    isolator.isolate("c", PID)
    isolator.update("c", 2)
    isolator.update("c", 1, [parts[0]])
    caps = [f"/dev/nvidia-caps/nvidia-cap{cap}" for cap in (20, 21, 10, 11)]
    assert walls.changes == [(caps[:2], []), ([], caps[2:])]
    isolator.close()
    again = NvidiaGpuIsolator(parts, DRIVER, None, Checkpoints(tmp_path))
    again.recover({"c"})
    assert again.status("c") == (parts[1],)


def test_nested_container_shares_what_its_parent_holds(tmp_path: Path) -> None:
    isolator = Running(tmp_path, 2).isolator
    plan = isolator.prepare("c.child", 0)
    assert plan.gpus == GPUS[:2]
    assert [node.path for node in plan.nodes][:2] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert plan.environment["NVIDIA_VISIBLE_DEVICES"] == f"{GPUS[0].uuid},{GPUS[1].uuid}"
    assert isolator.status("c.child.grandchild") == GPUS[:2]
    isolator.isolate("c.child", 99)
    isolator.cleanup("c.child")
    assert isolator.held == {"c": frozenset(GPUS[:2])}


def test_nested_container_of_class_debug_gets_nothing(tmp_path: Path) -> None:
    plan = Running(tmp_path, 2).isolator.prepare("c.debug", 0, debug=True)
    assert (plan.nodes, plan.mounts, dict(plan.environment)) == ((), (), {})


def test_nested_container_cannot_ask_be_updated_or_lack_a_parent(tmp_path: Path, golden: Golden) -> None:
    isolator = Running(tmp_path, 1).isolator
    with pytest.raises(BadInput) as refused:
        isolator.prepare("c.child", 1)
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        isolator.update("c.child", 1)
    assert str(refused.value) == golden
    with pytest.raises(NotFound):
        isolator.prepare("nobody.child", 0)


def test_recovery_skips_nested_containers(tmp_path: Path) -> None:
    before = Running(tmp_path, 1)
    before.isolator.close()
    after = NvidiaGpuIsolator(GPUS, DRIVER, None, before.records)
    assert after.recover({"c", "c.child"}) == frozenset()
    assert set(after.held) == {"c"}


def test_usage_is_per_gpu_and_one_that_is_lost_does_not_hide_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = SimulatedDriver(2)
    isolator = Running(tmp_path, 2, driver).isolator
    idle = driver.usage(driver.gpus()[0])
    assert isolator.usage("c") == dict.fromkeys(driver.gpus(), idle)

    def usage(gpu: Gpu) -> GpuUsage:
        if gpu.index == 0:
            raise DeviceError("GPU is lost")
        return idle

    monkeypatch.setattr(driver, "usage", usage)
    assert isolator.usage("c.child") == {driver.gpus()[0]: GpuUsage(), driver.gpus()[1]: idle}


NEEDED = {"com.nvidia.volumes.needed": "nvidia_driver"}


def test_the_image_decides_and_the_tasks_label_asks(tmp_path: Path) -> None:
    volume = NvidiaVolume(tmp_path / "nvidia_1")
    isolator = NvidiaGpuIsolator(GPUS, DRIVER, volume, Checkpoints(tmp_path / "gpus"))
    says_yes, says_nothing = ImageManifest({"NVIDIA_VISIBLE_DEVICES": "all"}), ImageManifest()
    mounts = {
        name: [mount.destination for mount in isolator.prepare(name, 0, image=image, labels=labels).mounts]
        for name, image, labels in [
            ("yes", says_yes, {}),
            ("nothing", says_nothing, {}),
            ("asked", says_nothing, NEEDED),
            ("told", True, {}),
        ]
    }
    there = ["/usr/local/nvidia"]
    assert mounts == {"yes": there, "nothing": [], "asked": there, "told": there}


def test_without_image_the_real_drivers_files_come_only_when_the_label_asks(tmp_path: Path) -> None:
    volume = NvidiaVolume(tmp_path / "nvidia_1")
    isolator = NvidiaGpuIsolator(GPUS, DRIVER, volume, Checkpoints(tmp_path / "gpus"))
    assert isolator.prepare("a", 1).search_paths == {}
    assert isolator.prepare("b", 1, labels=NEEDED).search_paths["PATH"] == (f"{volume.host_path}/bin",)


def test_an_image_cannot_widen_what_its_container_sees(tmp_path: Path) -> None:
    isolator = NvidiaGpuIsolator(GPUS, DRIVER, None, Checkpoints(tmp_path))
    plan = isolator.prepare("a", 0, image=ImageManifest({"NVIDIA_VISIBLE_DEVICES": "all"}))
    assert plan.environment == {"NVIDIA_VISIBLE_DEVICES": "void"}
