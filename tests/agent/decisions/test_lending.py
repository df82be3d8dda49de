"""Which GPUs are lent, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mesos_gpu.agent.decisions.lending import Standing, choose, lendable
from mesos_gpu.agent.model.leases import LeaseRequest
from mesos_gpu.errors import BadInput, GpusTaken, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from tests.fakes.gpus import GPUS
from tests.support.golden import Golden

FREE = [Standing(gpu) for gpu in GPUS]
TAKEN = [
    Standing(GPUS[0], "Mesos: task web.1 of framework f"),
    Standing(GPUS[1], "docker: web, lease l", lent=True),
    Standing(GPUS[2], illness="unhealthy: XID 79"),
    Standing(GPUS[3]),
]


def lowest(gpus: Collection[Gpu], count: int) -> frozenset[Gpu]:
    return frozenset(sorted(gpus)[:count])


def asking(count: int | None = None, *names: str, everything: bool = False) -> LeaseRequest:
    return LeaseRequest("docker", "web", "", count, names, everything)


def test_a_count_is_chosen_from_the_free_ones() -> None:
    assert choose(asking(2), FREE, lowest) == set(GPUS[:2])
    assert choose(asking(1), TAKEN, lowest) == {GPUS[3]}


def test_named_ones_are_those_or_none(golden: Golden) -> None:
    assert choose(asking(None, "3", "GPU-1"), FREE, lowest) == {GPUS[1], GPUS[3]}
    assert choose(asking(everything=True), FREE, lowest) == set(GPUS)
    with pytest.raises(NotFound) as refused:
        choose(asking(None, "9"), FREE, lowest)
    assert str(refused.value) == golden


def test_a_refusal_says_who_holds_what(golden: Golden) -> None:
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), TAKEN, lowest)
    assert str(refused.value) == golden
    assert (refused.value.asked, refused.value.free) == (2, 1)
    with pytest.raises(GpusTaken) as refused:
        choose(asking(None, "1", "3"), TAKEN, lowest)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(everything=True), TAKEN, lowest)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(everything=True), [], lowest)
    assert str(refused.value) == golden


def test_gpus_of_tasks_that_are_starting_are_somebodys(golden: Golden) -> None:
    assert lendable(FREE, promised=3, reserved=0) == 1
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), FREE, lowest, promised=3)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(None, "0"), FREE, lowest, promised=4)
    assert str(refused.value) == golden


def test_what_is_reserved_stays_here_whether_a_task_has_it_or_not(golden: Golden) -> None:
    assert lendable(TAKEN, promised=0, reserved=1) == 1, "the reserved one is the task's"
    assert lendable(TAKEN, promised=0, reserved=2) == 0
    with pytest.raises(GpusTaken) as refused:
        choose(asking(1), TAKEN, lowest, reserved=2)
    assert str(refused.value) == golden


def test_a_gpu_that_is_shared_out_is_named_by_its_instances(golden: Golden) -> None:
    parts = [
        Gpu(0, 0, f"MIG-{n}", "Part", mig=MigInstance("GPU-0", n, 0, (DeviceNode("/dev/nvidia-caps/x", 1, n),)))
        for n in range(2)
    ]
    standings = [Standing(gpu) for gpu in parts]
    assert choose(asking(None, "MIG-1"), standings, lowest) == {parts[1]}
    with pytest.raises(BadInput) as refused:
        choose(asking(None, "0"), standings, lowest)
    assert str(refused.value) == golden
