from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.pool import GpuPool

BOGUS = Gpu(minor=999, index=999, uuid="GPU-bogus", name="Bogus")


def gpus(*minors: int) -> frozenset[Gpu]:
    return frozenset(Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", name="Some GPU") for minor in minors)


def test_allocate_takes_the_lowest_free_minors() -> None:
    pool, given = GpuPool.of(gpus(0, 1, 2, 3)).take("a", gpus(0, 2)).allocate("b", 1)
    assert given == gpus(1)
    assert pool.free == gpus(3)


def test_allocate_leaves_the_old_pool_as_it_was() -> None:
    pool = GpuPool.of(gpus(0, 1))
    pool.allocate("a", 2)
    assert pool == GpuPool.of(gpus(0, 1))


def test_allocate_more_than_free_is_refused_in_mesos_words() -> None:
    pool, _ = GpuPool.of(gpus(0, 1)).allocate("a", 1)
    with pytest.raises(NotEnoughGpus, match="Requested 2 gpus but only 1 available") as refused:
        pool.allocate("b", 2)
    assert (refused.value.asked, refused.value.free) == (2, 1)


def test_negative_count_is_refused() -> None:
    with pytest.raises(BadInput, match="-1"):
        GpuPool.of(gpus(0)).allocate("a", -1)


def test_withdrawn_gpus_are_not_given_and_stay_with_whoever_holds_them() -> None:
    pool = replace(GpuPool.of(gpus(0, 1, 2)).take("a", gpus(1)), withdrawn=frozenset({"GPU-0", "GPU-1"}))
    assert pool.available == gpus(2)
    with pytest.raises(NotEnoughGpus, match="Requested 2 gpus but only 1 available"):
        pool.allocate("b", 2)
    pool, given = pool.allocate("b", 1)
    assert given == gpus(2)
    assert pool.held["a"] == gpus(1)
    assert pool.release("a").available == frozenset()
    assert replace(pool.release("a"), withdrawn=frozenset()).available == gpus(0, 1)


def test_container_that_grows_keeps_what_it_had() -> None:
    pool, _ = GpuPool.of(gpus(0, 1, 2)).allocate("a", 1)
    pool, given = pool.allocate("a", 2)
    assert given == gpus(1, 2)
    assert pool.held["a"] == gpus(0, 1, 2)
    assert pool.release("a").free == gpus(0, 1, 2)


def test_container_without_gpus_is_known() -> None:
    pool, given = GpuPool.of(gpus(0)).allocate("a", 0)
    assert given == frozenset()
    assert dict(pool.held) == {"a": frozenset()}


def test_release_twice_equals_release_once_and_unknown_is_no_error() -> None:
    pool, _ = GpuPool.of(gpus(0, 1)).allocate("a", 2)
    released = pool.release("a")
    assert released == GpuPool.of(gpus(0, 1))
    assert released.release("a") == released


def test_two_gpus_of_one_number_are_a_mistake() -> None:
    twin = Gpu(minor=0, index=1, uuid="GPU-twin", name="Some GPU")
    with pytest.raises(ValueError, match=r"195\.0"):
        GpuPool.of([*gpus(0), twin])


# Case 7 of Mesos' GPU tests (nvidia_gpu_isolator_tests.cpp): its allocator, step by step.


def test_allocator_allocate_all_then_one_more_fails() -> None:
    pool, given = GpuPool.of(gpus(0, 1, 2)).allocate("a", 3)
    assert given == pool.total == gpus(0, 1, 2)
    with pytest.raises(NotEnoughGpus):
        pool.allocate("a", 1)


def test_allocator_free_all_and_retake_the_same_set_by_reference() -> None:
    pool, given = GpuPool.of(gpus(0, 1, 2)).allocate("a", 3)
    pool = pool.give_back("a", given).take("a", given)
    assert pool.held["a"] == given


def test_allocator_free_one_and_allocate_one_returns_that_same_one() -> None:
    pool, _ = GpuPool.of(gpus(0, 1, 2)).allocate("a", 3)
    _, given = pool.give_back("a", gpus(1)).allocate("a", 1)
    assert given == gpus(1)


def test_allocator_double_free_fails() -> None:
    pool, given = GpuPool.of(gpus(0, 1)).allocate("a", 2)
    pool = pool.give_back("a", given)
    with pytest.raises(Conflict, match=r"195\.0, 195\.1 are not allocated"):
        pool.give_back("a", given)


def test_allocator_free_is_all_or_none() -> None:
    pool, _ = GpuPool.of(gpus(0, 1)).allocate("a", 1)
    with pytest.raises(Conflict, match=r"195\.1 are not allocated"):
        pool.give_back("a", gpus(0, 1))
    assert pool.held["a"] == gpus(0)


def test_allocator_taking_what_is_held_fails_all_or_none() -> None:
    pool, _ = GpuPool.of(gpus(0, 1)).allocate("a", 1)
    with pytest.raises(Conflict, match=r"195\.0 are not available"):
        pool.take("b", gpus(0, 1))
    assert pool.free == gpus(1)


def test_allocator_freeing_a_bogus_gpu_fails() -> None:
    pool, _ = GpuPool.of(gpus(0)).allocate("a", 1)
    with pytest.raises(Conflict, match=r"195\.999 are not allocated"):
        pool.give_back("a", {BOGUS})


def test_allocator_allocating_a_bogus_gpu_fails() -> None:
    with pytest.raises(Conflict, match=r"195\.999 are not available"):
        GpuPool.of(gpus(0)).take("a", {BOGUS})


CONTAINERS = st.sampled_from(["a", "b", "c", "d"])
SOME_GPUS = st.frozensets(st.integers(0, 9), max_size=4).map(lambda minors: gpus(*minors))


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens, in whatever order: no GPU is held twice, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.total = gpus(*range(8))
        self.pool = GpuPool.of(self.total)

    @rule(container=CONTAINERS, count=st.integers(0, 9))
    def allocate(self, container: str, count: int) -> None:
        before = self.pool
        try:
            self.pool, given = before.allocate(container, count)
        except NotEnoughGpus:
            assert count > len(before.free)
            return
        assert len(given) == count
        assert given <= before.free
        assert self.pool.held[container] == before.held.get(container, frozenset()) | given

    @rule(container=CONTAINERS, some=SOME_GPUS)
    def take(self, container: str, some: frozenset[Gpu]) -> None:
        before = self.pool
        try:
            self.pool = before.take(container, some)
        except Conflict:
            assert not some <= before.free
            return
        assert some <= before.free
        assert some <= self.pool.held[container]

    @rule(container=CONTAINERS, some=SOME_GPUS)
    def give_back(self, container: str, some: frozenset[Gpu]) -> None:
        before = self.pool
        try:
            self.pool = before.give_back(container, some)
        except Conflict:
            assert not some <= before.held.get(container, frozenset())
            return
        assert some <= self.pool.free

    @precondition(lambda self: bool(self.pool.held))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        container = data.draw(st.sampled_from(sorted(self.pool.held)))
        held = self.pool.held[container]
        self.pool = self.pool.release(container)
        assert container not in self.pool.held
        assert held <= self.pool.free

    @invariant()
    def none_is_held_twice_and_none_is_lost(self) -> None:
        parts = [self.pool.free, *self.pool.held.values()]
        assert sum(len(part) for part in parts) == len(self.total)
        assert frozenset().union(*parts) == self.total == self.pool.total


TestAnyHistory = AnyHistory.TestCase
