from __future__ import annotations

import pytest

from mesos_gpu.errors import Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator import NvidiaGpuAllocator
from tests.support.golden import Golden

GPUS = tuple(Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", name="Some GPU") for minor in range(3))


def test_lowest_numbers_are_allocated_first() -> None:
    allocator = NvidiaGpuAllocator(GPUS)
    assert allocator.allocate(2) == set(GPUS[:2])
    assert allocator.total == set(GPUS)


def test_allocating_is_all_or_none(golden: Golden) -> None:
    allocator = NvidiaGpuAllocator(GPUS)
    allocator.allocate(GPUS[:1])
    with pytest.raises(Conflict) as refused:
        allocator.allocate(GPUS[:2])
    assert str(refused.value) == golden
    with pytest.raises(NotEnoughGpus) as refused:
        allocator.allocate(3)
    assert str(refused.value) == golden
    assert allocator.allocate(2) == set(GPUS[1:])


def test_deallocating_is_all_or_none(golden: Golden) -> None:
    allocator = NvidiaGpuAllocator(GPUS)
    allocator.allocate(1)
    with pytest.raises(Conflict) as refused:
        allocator.deallocate(GPUS[:2])
    assert str(refused.value) == golden
    allocator.deallocate(GPUS[:1])
    assert allocator.allocate(3) == set(GPUS)
