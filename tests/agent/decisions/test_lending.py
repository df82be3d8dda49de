"""Which GPUs are lent, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mesos_gpu.agent.decisions.lending import Standing, choose, lendable
from mesos_gpu.agent.model.leases import LeaseRequest
from mesos_gpu.errors import BadInput, GpusTaken, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from tests.fakes.gpus import GPUS

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


def test_named_ones_are_those_or_none() -> None:
    assert choose(asking(None, "3", "GPU-1"), FREE, lowest) == {GPUS[1], GPUS[3]}
    assert choose(asking(everything=True), FREE, lowest) == set(GPUS)
    with pytest.raises(NotFound, match=r"there is no GPU 9 on this agent; there are 0 .GPU-0., "):
        choose(asking(None, "9"), FREE, lowest)


def test_a_refusal_says_who_holds_what() -> None:
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), TAKEN, lowest)
    assert str(refused.value) == (
        "asked for 2 GPUs, but only 1 of 4 can be lent: GPU 0 (GPU-0) is held by Mesos: task web.1 of framework f; "
        "GPU 1 (GPU-1) is held by docker: web, lease l; GPU 2 (GPU-2) is unhealthy: XID 79"
    )
    assert (refused.value.asked, refused.value.free) == (2, 1)
    with pytest.raises(GpusTaken, match=r"asked for GPUs 1, 3, but not all are free: GPU 1 .GPU-1. is held by docker"):
        choose(asking(None, "1", "3"), TAKEN, lowest)
    with pytest.raises(GpusTaken, match="asked for all GPUs, but not all are free: GPU 0"):
        choose(asking(everything=True), TAKEN, lowest)
    with pytest.raises(GpusTaken, match="has no GPUs to lend"):
        choose(asking(everything=True), [], lowest)


def test_gpus_of_tasks_that_are_starting_are_somebodys() -> None:
    assert lendable(FREE, promised=3, reserved=0) == 1
    with pytest.raises(GpusTaken, match="3 promised to tasks that are starting"):
        choose(asking(2), FREE, lowest, promised=3)
    with pytest.raises(GpusTaken, match="4 promised"):
        choose(asking(None, "0"), FREE, lowest, promised=4)


def test_what_is_reserved_stays_here_whether_a_task_has_it_or_not() -> None:
    assert lendable(TAKEN, promised=0, reserved=1) == 1, "the reserved one is the task's"
    assert lendable(TAKEN, promised=0, reserved=2) == 0
    with pytest.raises(GpusTaken, match="2 reserved for roles of Mesos"):
        choose(asking(1), TAKEN, lowest, reserved=2)


def test_a_gpu_that_is_shared_out_is_named_by_its_instances() -> None:
    parts = [
        Gpu(0, 0, f"MIG-{n}", "Part", mig=MigInstance("GPU-0", n, 0, (DeviceNode("/dev/nvidia-caps/x", 1, n),)))
        for n in range(2)
    ]
    standings = [Standing(gpu) for gpu in parts]
    assert choose(asking(None, "MIG-1"), standings, lowest) == {parts[1]}
    with pytest.raises(BadInput, match="name one of them: MIG-0, MIG-1"):
        choose(asking(None, "0"), standings, lowest)
