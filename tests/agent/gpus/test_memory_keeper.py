"""The level that a card has, and how a container is kept to its part by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mesos_gpu.agent.gpus.memory_keeper import Keeper, find_level, with_levels
from mesos_gpu.agent.gpus.memory_watcher import DriverReader
from mesos_gpu.errors import DeviceError, Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard, level_of
from mesos_gpu.mesos.shares.levels import Level
from tests.support.golden import Golden

GPUS = [Gpu(index, index, f"GPU-{index}", "Fake", 15109) for index in range(2)]
CARDS = [SharedCard(gpu.index, gpu.uuid, 15109) for gpu in GPUS]
A = ContainerId("a")
SIX = Share((CardPart(0, 6, 1),))
BOTH = Share((CardPart(0, 6, 1), CardPart(1, 3, 1)))


class Memory:
    """A driver that tells processes, and may limit."""

    def __init__(self, processes: Mapping[int, int] | None = None, *, limits: bool = False) -> None:
        self.processes, self.limits, self.error = processes, limits, ""
        self.set: list[tuple[int, str, int | None]] = []

    def by_process(self, gpu: Gpu) -> Mapping[int, int] | None:
        if self.error:
            raise DeviceError(self.error)
        return self.processes

    def can_limit(self, gpu: Gpu) -> bool:
        return self.limits

    def limit(self, gpu: Gpu, cgroup: str, mib: int | None) -> None:
        if self.error:
            raise DeviceError(self.error)
        self.set.append((gpu.index, cgroup, mib))


def daemon(folder: Path, index: int) -> None:
    (folder / str(index) / "pipe").mkdir(parents=True)
    (folder / str(index) / "pipe" / "nvidia-cuda-mps-control.pid").write_text("1")


def level(memory: Memory | None, *, simulated: bool = False, limits: bool = True, mps: Path | None = None) -> Level:
    return find_level(GPUS[0], memory, simulated=simulated, limits=limits, mps=mps)


def test_the_strongest_level_of_a_machine_is_found(tmp_path: Path) -> None:
    assert level(None) is Level.ADVISORY
    assert level(None, simulated=True) is Level.WATCHER
    assert level(Memory(None)) is Level.ADVISORY
    assert level(Memory({})) is Level.WATCHER
    assert level(Memory({}), mps=tmp_path) is Level.WATCHER
    daemon(tmp_path, 0)
    assert level(Memory({}), mps=tmp_path) is Level.MPS
    assert level(Memory({}, limits=True), mps=tmp_path) is Level.CGROUP
    assert level(Memory({}, limits=True), limits=False) is Level.WATCHER
    broken = Memory({})
    broken.error = "lost"
    assert level(broken) is Level.ADVISORY


def test_a_container_on_several_cards_is_kept_as_by_the_weakest() -> None:
    cards = {card.index: card for card in with_levels(CARDS, {0: Level.CGROUP, 1: Level.WATCHER})}
    assert [level_of(share.parts, cards) for share in (SIX, BOTH)] == [Level.CGROUP, Level.WATCHER]
    cards = {card.index: card for card in with_levels(CARDS, {0: Level.MPS, 1: Level.MPS})}
    assert [level_of(share.parts, cards) for share in (SIX, BOTH)] == [Level.MPS, Level.WATCHER]


def test_the_driver_limits_the_cgroup_before_the_container_is_there(tmp_path: Path, golden: Golden) -> None:
    memory = Memory({}, limits=True)
    cards = [replace(card, level=Level.CGROUP) for card in CARDS]
    keeper = Keeper(GPUS, cards, memory, cgroup_of=lambda one: tmp_path / "mesos" / one)
    keeper.limit(A, BOTH)
    assert (tmp_path / "mesos" / "a").is_dir()
    assert memory.set == [(0, str(tmp_path / "mesos" / "a"), 6043), (1, str(tmp_path / "mesos" / "a"), 3021)]
    assert keeper.plan(BOTH) == LaunchPlan()
    memory.error = "no"
    with pytest.raises(DeviceError):
        keeper.limit(ContainerId("b"), SIX)
    assert not (tmp_path / "mesos" / "b").exists()
    with pytest.raises(Unavailable) as refused:
        Keeper(GPUS, cards, memory, cgroup_of=lambda one: None).limit(A, SIX)
    assert str(refused.value) == golden


def test_a_container_is_led_to_the_mps_daemon_of_its_card(tmp_path: Path) -> None:
    daemon(tmp_path, 0)
    (tmp_path / "0" / "shm").mkdir()
    cards = [replace(card, level=Level.MPS) for card in CARDS]
    keeper = Keeper(GPUS, cards, Memory({}), cgroup_of=lambda one: None, mps=tmp_path)
    plan = keeper.plan(SIX)
    assert plan.environment == {
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "0" / "pipe"),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "GPU-0=6043M",
    }
    assert [mount.destination for mount in plan.mounts] == [str(tmp_path / "0" / "pipe"), "/dev/shm"]
    assert keeper.plan(BOTH) == LaunchPlan()
    keeper.limit(A, SIX)


def test_processes_are_told_by_container() -> None:
    reader = DriverReader(Memory({1: 100}), {0: GPUS[0]}, "no-such-root")
    assert reader.read(0) == {}
    assert DriverReader(Memory(None), {0: GPUS[0]}, "mesos").read(0) is None
