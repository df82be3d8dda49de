"""How large an executor's container is, with and without limits of its tasks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.launching.executor_size import disk_bytes, executor_size
from mesos_gpu.container.spec.config import Size
from mesos_gpu.container.spec.linux import UNLIMITED
from tests.support.agent.documents import scalar

MIB = 1 << 20
EXECUTOR = {"resources": [scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 8.0)]}


def task(cpus: float, mem: float, /, *, gpus: int = 0, disk: float = 0.0, **limits: float) -> dict[str, Any]:
    resources = [scalar("cpus", cpus), scalar("mem", mem), scalar("gpus", float(gpus)), scalar("disk", disk)]
    return {"resources": resources, "limits": {name: {"value": value} for name, value in limits.items()}}


def test_without_limits_it_is_the_sum_of_what_they_have() -> None:
    size = executor_size(EXECUTOR, [task(1.5, 64.0, gpus=2, disk=16.0), task(0.4, 32.0)], cfs_quota=True)
    assert size == Size(cpus_milli=2000, mem_bytes=128 * MIB, gpus=2, disk_bytes=24 * MIB)


def test_limits_add_up_with_what_the_executor_and_the_others_have() -> None:
    tasks = [task(1.0, 64.0, cpus=2.0, mem=256.0), task(0.5, 32.0)]
    size = executor_size(EXECUTOR, tasks, cfs_quota=True)
    assert (size.cpus_milli, size.mem_bytes) == (1600, 128 * MIB)
    assert (size.cpus_limit_milli, size.mem_limit_bytes) == (2600, (256 + 32 + 32) * MIB)


def test_one_without_end_is_enough() -> None:
    tasks = [task(1.0, 64.0, cpus=math.inf, mem=256.0), task(0.5, 32.0, cpus=1.0, mem=math.inf)]
    size = executor_size(EXECUTOR, tasks, cfs_quota=False)
    assert (size.cpus_limit_milli, size.mem_limit_bytes) == (UNLIMITED, UNLIMITED)


def test_where_cpus_are_not_held_to_a_task_without_a_limit_leaves_all_without() -> None:
    tasks = [task(1.0, 64.0, cpus=2.0), task(0.5, 32.0)]
    assert executor_size(EXECUTOR, tasks, cfs_quota=False).cpus_limit_milli is None
    assert executor_size(EXECUTOR, tasks[:1], cfs_quota=False).cpus_limit_milli == 2100


def test_a_volume_is_no_quota_of_the_sandbox() -> None:
    volume = {**scalar("disk", 100.0), "disk": {"persistence": {"id": "v"}, "volume": {"container_path": "v"}}}
    assert disk_bytes({"resources": [scalar("disk", 4.0), volume]}) == 4 * MIB


NUMBERS = st.integers(1, 64).map(float)
TASKS = st.lists(
    st.builds(
        lambda cpus, mem, more_cpus, more_mem: task(
            cpus,
            mem,
            **({} if more_cpus is None else {"cpus": cpus + more_cpus}),
            **({} if more_mem is None else {"mem": mem + more_mem}),
        ),
        NUMBERS,
        NUMBERS,
        st.none() | NUMBERS | st.just(math.inf),
        st.none() | NUMBERS | st.just(math.inf),
    ),
    max_size=5,
)


@given(TASKS, st.booleans(), st.randoms())
def test_a_limit_is_never_below_what_they_are_sure_of_and_order_does_not_matter(
    tasks: list[dict[str, Any]], cfs_quota: bool, chance: Any
) -> None:
    size = executor_size(EXECUTOR, tasks, cfs_quota=cfs_quota)
    for limit, sure in ((size.cpus_limit_milli, size.cpus_milli), (size.mem_limit_bytes, size.mem_bytes)):
        assert limit is None or limit == UNLIMITED or limit >= sure
    assert (size.mem_limit_bytes is None) == all("mem" not in one["limits"] for one in tasks)
    shuffled = list(tasks)
    chance.shuffle(shuffled)
    assert executor_size(EXECUTOR, shuffled, cfs_quota=cfs_quota) == size


@pytest.mark.parametrize("cfs_quota", [True, False])
def test_an_executor_alone_is_as_large_as_itself(cfs_quota: bool) -> None:
    assert executor_size(EXECUTOR, [], cfs_quota=cfs_quota) == Size(100, 32 * MIB, disk_bytes=8 * MIB)
