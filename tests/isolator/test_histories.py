"""Any history of an isolator whose process may die within any step: no GPU is with two containers, and none is lost.

What containers can open is kept outside of the isolator, as the kernel keeps it, and outlives its deaths.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesos_gpu.errors import BadInput, Conflict, ContainerError, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.access import gpu_node
from mesos_gpu.isolator.reach import HeldGpu
from tests.support.histories import examples

HISTORIES = 2000
DRIVER = SimulatedDriver(5)
GPUS = DRIVER.gpus()
BY_NODE = {gpu_node(gpu): gpu for gpu in GPUS}

CONTAINERS = st.sampled_from(["a", "b", "c", "d"])
COUNTS = st.integers(0, 6)
MISHAPS = st.none() | st.tuples(st.sampled_from(["die", "fail"]), st.integers(1, 4))
"""What goes wrong, and at which of the moments of a call: before and after each write to disk and to the kernel."""


class Death(BaseException):
    """kill -9: nothing of the process runs after it."""


class World:
    """The disk and the kernel, and when they fail the isolator."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.open: dict[str, frozenset[Gpu]] = {}
        self.mishap: tuple[str, int] | None = None
        self.dead = False

    def moment(self, error: Exception) -> None:
        """Let go wrong what is to go wrong here."""
        if self.dead:
            raise Death
        if self.mishap is not None:
            kind, moments = self.mishap
            self.mishap = (kind, moments - 1) if moments > 1 else None
            if moments == 1 and kind == "die":
                self.dead = True
                raise Death
            if moments == 1:
                raise error


class Disk(Checkpoints):
    """Real files. A death in the midst of a write leaves what a death leaves there."""

    def __init__(self, world: World) -> None:
        super().__init__(world.disk)
        self._world = world

    def save(self, container_id: str, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        (self._world.disk / f".{container_id}.json.1.tmp").write_text('{"contai')
        self._world.moment(Unavailable("the disk is full"))
        super().save(container_id, gpus, lost)
        self._world.moment(Unavailable("the disk went away"))

    def remove(self, container_id: str) -> None:
        self._world.moment(Unavailable("the disk went away"))
        super().remove(container_id)
        if self._world.mishap is not None and self._world.mishap[0] == "die":
            self._world.moment(Unavailable("never"))


class Kernel:
    """The walls of one running container."""

    def __init__(self, world: World, container: str) -> None:
        self._world, self._container = world, container

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        self._world.moment(ContainerError("the kernel refused"))
        before = self._world.open[self._container]
        after = frozenset(BY_NODE[node] for node in nodes if node in BY_NODE)
        assert after - before <= {BY_NODE[node] for node in opened} <= after
        assert before - after <= {BY_NODE[node] for node in closed} <= frozenset(GPUS) - after
        self._world.open[self._container] = after
        self._world.moment(ContainerError("the kernel refused half of it"))

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return frozenset()


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._no_sync = mock.patch.object(os, "fsync")
        self._no_sync.start()
        in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.disk: Disk | None = None
        self.world = World(Path(tempfile.mkdtemp(prefix="mesos-gpu-histories-", dir=in_memory)))
        self.start()

    def teardown(self) -> None:
        self._no_sync.stop()
        shutil.rmtree(self.world.disk)

    def start(self) -> None:
        """Start the agent: recover, then destroy what nobody knows."""
        self.world.dead, self.world.mishap = False, None
        if self.disk is not None:
            self.disk.close()  # as the kernel does when the process ends
        self.disk = Disk(self.world)
        self.isolator = NvidiaGpuIsolator(GPUS, DRIVER, None, self.disk, live_access=self._walls)
        for orphan in self.isolator.recover(self.world.open.keys()):
            assert orphan not in self.world.open
            self.isolator.cleanup(orphan)

    def _walls(self, pid: int) -> Kernel:
        return Kernel(self.world, chr(pid))

    @rule(container=CONTAINERS, count=COUNTS, mishap=MISHAPS)
    def prepare(self, container: str, count: int, mishap: tuple[str, int] | None) -> None:
        known, free = container in self.isolator.held, len(self.isolator.free)
        self.world.mishap = mishap
        try:
            plan = self.isolator.prepare(container, count)
        except Death:
            self.start()
        except NotEnoughGpus:
            assert count > free
        except Conflict:
            assert known
        except Unavailable:
            assert mishap is not None
        else:
            assert not known
            assert len(plan.gpus) == count
            self.world.open[container] = frozenset(plan.gpus)
        self.world.mishap = None

    @rule(container=CONTAINERS, count=COUNTS, named=st.booleans(), mishap=MISHAPS, data=st.data())
    def update(
        self, container: str, count: int, named: bool, mishap: tuple[str, int] | None, data: st.DataObject
    ) -> None:
        before = self.world.open.get(container)
        held = self.isolator.held.get(container, frozenset())
        leaving = max(len(held) - count, 0)
        release = sorted(before or ())[-leaving:] if named and leaving else None
        try:
            self.isolator.isolate(container, ord(container))
            self.world.mishap = mishap
            change = self.isolator.update(container, count, release)
        except Death:
            self.start()
        except NotFound:
            assert container not in self.isolator.held
        except (NotEnoughGpus, Unavailable, BadInput):
            assert mishap is not None or count > len(before or ()) + len(self.isolator.free) or release is not None
        else:
            assert before is not None
            assert self.world.open[container] == self.isolator.held[container]
            assert len(self.world.open[container]) == count
            assert set(change.added) == self.isolator.held[container] - held
            assert release is None or set(change.removed) == set(release)
        self.world.mishap = None

    @rule(container=CONTAINERS, mishap=MISHAPS)
    def container_ends(self, container: str, mishap: tuple[str, int] | None) -> None:
        self.world.open.pop(container, None)
        self.world.mishap = mishap
        try:
            self.isolator.cleanup(container)
        except Death:
            self.start()
        except Unavailable:
            assert container in self.isolator.held
            self.world.mishap = None
            self.isolator.cleanup(container)
        self.world.mishap = None

    @precondition(lambda self: bool(self.world.open))
    @rule(data=st.data())
    def agent_dies_and_so_do_some_containers(self, data: st.DataObject) -> None:
        for container in data.draw(st.sets(st.sampled_from(sorted(self.world.open)))):
            del self.world.open[container]
        self.start()

    @invariant()
    def no_gpu_can_be_opened_by_two(self) -> None:
        opened = [gpu for gpus in self.world.open.values() for gpu in gpus]
        assert len(set(opened)) == len(opened)

    @invariant()
    def what_can_be_opened_is_held(self) -> None:
        for container, gpus in self.world.open.items():
            assert gpus <= self.isolator.held[container]

    @invariant()
    def none_is_held_twice_and_none_is_lost(self) -> None:
        parts = [self.isolator.free, *self.isolator.held.values()]
        assert sum(map(len, parts)) == len(GPUS)
        assert frozenset().union(*parts) == frozenset(GPUS)

    @invariant()
    def records_can_always_be_loaded_and_say_who_holds(self) -> None:
        assert self.disk is not None
        recorded = self.disk.load()
        for container, gpus in self.world.open.items():
            assert {held.uuid for held in recorded.get(container, ())} >= {gpu.uuid for gpu in gpus}


class ManyHistories(AnyHistory):
    """The same, often enough to find a defect that needs several mishaps in a row."""


def tried(histories: int) -> settings:
    """Return settings for this many histories in the usual profile."""
    unchecked = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples(histories), stateful_step_count=12, suppress_health_check=unchecked)


AnyHistory.TestCase.settings = tried(HISTORIES // 10)
TestAnyHistory = AnyHistory.TestCase
ManyHistories.TestCase.settings = tried(HISTORIES)
TestManyHistories = pytest.mark.slow(pytest.mark.proof("mesos_gpu/isolator", "mesos_gpu/gpu")(ManyHistories.TestCase))
