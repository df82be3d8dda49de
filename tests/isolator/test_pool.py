from __future__ import annotations

from collections.abc import Collection
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.topology import best
from mesos_gpu.isolator.pool import GpuPool
from tests.support.golden import Golden


def gpus(*minors: int) -> frozenset[Gpu]:
    return frozenset(Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", name="Some GPU") for minor in minors)


def instance(minor: int, number: int) -> Gpu:
    nodes = tuple(DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", 240, cap) for cap in (9 * number, 9 * number + 1))
    mig = MigInstance(f"GPU-{minor}", number, 0, nodes)
    return Gpu(minor=minor, index=minor, uuid=f"MIG-{minor}-{number}", name="Some GPU", mig_enabled=True, mig=mig)


def test_allocate_takes_the_lowest_free_minors() -> None:
    pool = GpuPool(gpus(0, 1, 2, 3))
    pool.take("a", gpus(0, 2))
    assert pool.allocate("b", 1) == gpus(1)
    assert pool.free == gpus(3)


def test_choosing_changes_nothing() -> None:
    pool = GpuPool(gpus(0, 1))
    assert pool.choose(1) == pool.choose(1) == gpus(0)
    assert (pool.free, dict(pool.held)) == (gpus(0, 1), {})


def test_allocate_more_than_free_is_refused_in_mesos_words(golden: Golden) -> None:
    pool = GpuPool(gpus(0, 1))
    pool.allocate("a", 1)
    with pytest.raises(NotEnoughGpus) as refused:
        pool.allocate("b", 2)
    assert str(refused.value) == golden
    assert (refused.value.asked, refused.value.free) == (2, 1)
    assert "b" not in pool.held


def test_negative_count_is_refused() -> None:
    with pytest.raises(BadInput, match="-1"):
        GpuPool(gpus(0)).allocate("a", -1)


def test_container_that_grows_keeps_what_it_had() -> None:
    pool = GpuPool(gpus(0, 1, 2))
    pool.allocate("a", 1)
    assert pool.allocate("a", 2) == gpus(1, 2)
    assert pool.held_by("a") == gpus(0, 1, 2)
    pool.release("a")
    assert pool.free == gpus(0, 1, 2)


def test_container_without_gpus_is_known() -> None:
    pool = GpuPool(gpus(0))
    assert pool.allocate("a", 0) == frozenset()
    assert (pool.held_by("a"), pool.held_by("b")) == (frozenset(), None)


def test_release_twice_equals_release_once_and_unknown_is_no_error() -> None:
    pool = GpuPool(gpus(0, 1))
    pool.allocate("a", 2)
    for _ in range(2):
        pool.release("a")
        assert (pool.free, dict(pool.held)) == (gpus(0, 1), {})


def test_two_gpus_of_one_number_are_a_mistake() -> None:
    twin = Gpu(minor=0, index=1, uuid="GPU-twin", name="Some GPU")
    with pytest.raises(ValueError, match=r"195\.0"):
        GpuPool([*gpus(0), twin])


def test_two_gpus_of_one_uuid_are_a_mistake() -> None:
    twin = Gpu(minor=1, index=1, uuid="GPU-0", name="Some GPU")
    with pytest.raises(ValueError, match=r"195\.0, 195\.1"):
        GpuPool([*gpus(0), twin])


def test_instances_of_one_gpu_share_its_number_but_not_with_the_whole_gpu() -> None:
    parts = [instance(0, 1), instance(0, 2)]
    pool = GpuPool([*parts, *gpus(1)])
    assert pool.allocate("a", 2) == frozenset(parts)
    with pytest.raises(ValueError, match=r"195\.0"):
        GpuPool([*parts, *gpus(0)])


def test_withdrawn_gpu_is_not_given_until_it_is_restored(golden: Golden) -> None:
    pool = GpuPool(gpus(0, 1, 2))
    pool.withdrawn = frozenset({"GPU-0"})
    assert pool.choose(1) == gpus(1)
    with pytest.raises(NotEnoughGpus) as refused:
        pool.choose(3)
    assert str(refused.value) == golden
    assert pool.available == gpus(1, 2)
    pool.withdrawn = frozenset()
    assert pool.choose(3) == gpus(0, 1, 2)


def test_withdrawn_gpu_stays_with_its_holder_and_a_recovery_may_take_it() -> None:
    pool = GpuPool(gpus(0, 1))
    pool.withdrawn = frozenset({"GPU-0"})
    pool.take("a", gpus(0))
    assert pool.held_by("a") == gpus(0)
    assert pool.fresh().withdrawn == {"GPU-0"}


def test_choice_decides_among_those_that_may_be_given() -> None:
    asked: list[frozenset[Gpu]] = []

    def highest(free: Collection[Gpu], count: int) -> frozenset[Gpu]:
        asked.append(frozenset(free))
        return frozenset(sorted(free)[-count:])

    pool = GpuPool(gpus(0, 1, 2, 3), choice=highest)
    pool.withdrawn = frozenset({"GPU-3"})
    assert pool.allocate("a", 2) == gpus(1, 2)
    assert asked == [gpus(0, 1, 2)]
    with pytest.raises(NotEnoughGpus):
        pool.allocate("b", 2)
    assert len(asked) == 1, "it is asked only when there are enough"


def test_best_connected_gpus_by_the_topology_of_the_driver() -> None:
    driver = SimulatedDriver(4)  # 0-1 and 2-3 are bridged with NVLink
    pool = GpuPool(driver.gpus(), choice=partial(best, topology=driver.topology()))
    pool.take("a", driver.gpus()[:1])
    assert pool.allocate("b", 2) == frozenset(driver.gpus()[2:])


CONTAINERS = st.sampled_from(["a", "b", "c", "d"])
SOME_GPUS = st.frozensets(st.integers(0, 9), max_size=4).map(lambda minors: gpus(*minors))


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens, in whatever order: no GPU is held twice, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.total = gpus(*range(8))
        self.pool = GpuPool(self.total)

    @rule(container=CONTAINERS, count=st.integers(0, 9))
    def allocate(self, container: str, count: int) -> None:
        available, held = self.pool.available, self.pool.held_by(container) or frozenset()
        try:
            given = self.pool.allocate(container, count)
        except NotEnoughGpus:
            assert count > len(available)
            return
        assert len(given) == count
        assert given == frozenset(sorted(available)[:count])
        assert self.pool.held_by(container) == held | given

    @rule(container=CONTAINERS, some=SOME_GPUS)
    def take(self, container: str, some: frozenset[Gpu]) -> None:
        free = self.pool.free
        try:
            self.pool.take(container, some)
        except Conflict:
            assert not some <= free
            assert self.pool.free == free
            return
        assert some <= free
        assert some <= (self.pool.held_by(container) or frozenset())

    @rule(container=CONTAINERS, some=SOME_GPUS)
    def give_back(self, container: str, some: frozenset[Gpu]) -> None:
        free, held = self.pool.free, self.pool.held_by(container) or frozenset()
        try:
            self.pool.give_back(container, some)
        except Conflict:
            assert not some <= held
            assert self.pool.free == free
            return
        assert self.pool.free == free | some

    @rule(some=SOME_GPUS)
    def withdraw(self, some: frozenset[Gpu]) -> None:
        self.pool.withdrawn = frozenset(gpu.uuid for gpu in some)

    @precondition(lambda self: bool(self.pool.held))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        container = data.draw(st.sampled_from(sorted(self.pool.held)))
        held = self.pool.held[container]
        self.pool.release(container)
        assert self.pool.held_by(container) is None
        assert held <= self.pool.free

    @invariant()
    def none_is_held_twice_and_none_is_lost(self) -> None:
        parts = [self.pool.free, *self.pool.held.values()]
        assert sum(len(part) for part in parts) == len(self.total)
        assert frozenset().union(*parts) == self.total == self.pool.total


TestAnyHistory = AnyHistory.TestCase
