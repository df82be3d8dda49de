"""Which GPUs are lent, and what is said when they are not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from mesos_gpu.agent.decisions.lending import Standing, choose, master_account, standings
from mesos_gpu.agent.model.leases import LeaseRequest
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.errors import BadInput, GpusTaken, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.isolator.ledger import Holding, Ledger, MasterAccount, container, handle, lease
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.suspension import Phase as SuspensionPhase
from mesos_gpu.isolator.suspension import Suspension
from mesos_gpu.mesos.ids import ContainerId, Role
from mesos_gpu.mesos.resources import Resources
from tests.fakes.gpus import GPUS
from tests.support.agent.documents import key
from tests.support.golden import Golden

FREE = [Standing(gpu) for gpu in GPUS]
NEW = Ledger(gpus=frozenset(GPUS))
HELD = Ledger(
    gpus=frozenset(GPUS),
    holdings={container("c"): Holding(frozenset(GPUS[:1])), lease("l"): Holding(frozenset(GPUS[1:2]))},
    withdrawn=frozenset({"GPU-2"}),
)
TAKEN = [
    Standing(GPUS[0], "Mesos: task web.1 of framework f"),
    Standing(GPUS[1], "docker: web, lease l"),
    Standing(GPUS[2], illness="unhealthy: XID 79"),
    Standing(GPUS[3]),
]


def after(ledger: Ledger, event: MasterAccount) -> Ledger:
    return handle(ledger, event)[0]


def lowest(gpus: Collection[Gpu], count: int) -> frozenset[Gpu]:
    return frozenset(sorted(gpus)[:count])


def asking(count: int | None = None, *names: str, everything: bool = False) -> LeaseRequest:
    return LeaseRequest("docker", "web", "", count, names, everything)


def test_a_count_is_chosen_from_the_free_ones() -> None:
    assert choose(asking(2), FREE, lowest, NEW) == set(GPUS[:2])
    assert choose(asking(1), TAKEN, lowest, HELD) == {GPUS[3]}


def test_named_ones_are_those_or_none(golden: Golden) -> None:
    assert choose(asking(None, "3", "GPU-1"), FREE, lowest, NEW) == {GPUS[1], GPUS[3]}
    assert choose(asking(everything=True), FREE, lowest, NEW) == set(GPUS)
    with pytest.raises(NotFound) as refused:
        choose(asking(None, "9"), FREE, lowest, NEW)
    assert str(refused.value) == golden


def test_a_refusal_says_who_holds_what(golden: Golden) -> None:
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), TAKEN, lowest, HELD)
    assert str(refused.value) == golden
    assert (refused.value.asked, refused.value.free) == (2, 1)
    with pytest.raises(GpusTaken) as refused:
        choose(asking(None, "1", "3"), TAKEN, lowest, HELD)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(everything=True), TAKEN, lowest, HELD)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(everything=True), [], lowest, Ledger())
    assert str(refused.value) == golden


def test_gpus_of_tasks_that_are_starting_are_somebodys(golden: Golden) -> None:
    three, four = (after(NEW, MasterAccount({container(""): count})) for count in (3, 4))
    assert three.leasable == 1
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), FREE, lowest, three)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(None, "0"), FREE, lowest, four)
    assert str(refused.value) == golden


def test_what_is_reserved_stays_here_whether_a_task_has_it_or_not(golden: Golden) -> None:
    one, two = (after(HELD, MasterAccount({container("c"): 1}, reserved=count)) for count in (1, 2))
    assert one.leasable == 1, "the reserved one is the task's"
    assert two.leasable == 0
    with pytest.raises(GpusTaken) as refused:
        choose(asking(1), TAKEN, lowest, two)
    assert str(refused.value) == golden


def test_a_gpu_that_is_shared_out_is_named_by_its_instances(golden: Golden) -> None:
    parts = [
        Gpu(0, 0, f"MIG-{n}", "Part", mig=MigInstance("GPU-0", n, 0, (DeviceNode("/dev/nvidia-caps/x", 1, n),)))
        for n in range(2)
    ]
    pieces = [Standing(gpu) for gpu in parts]
    divided = Ledger(gpus=frozenset(parts))
    assert choose(asking(None, "MIG-1"), pieces, lowest, divided) == {parts[1]}
    with pytest.raises(BadInput) as refused:
        choose(asking(None, "0"), pieces, lowest, divided)
    assert str(refused.value) == golden


def test_the_master_counts_gpus_of_tasks_that_are_not_over_by_container() -> None:
    def task(name: str, gpus: int, phase: Phase = Phase.RUNNING, *, container_id: str | None = "c") -> Task:
        resources = [{"name": "gpus", "type": "SCALAR", "scalar": {"value": float(gpus)}}]
        info: Any = {"task_id": {"value": name}, "resources": resources}
        return Task(key(name), info, name, None if container_id is None else ContainerId(container_id), "", phase=phase)

    tasks = [
        task("a", 1),
        task("b", 2),
        task("over", 4, Phase.OVER),
        task("none", 0, container_id="d"),
        task("new", 1, container_id=None),
    ]
    counted = master_account(tasks, Resources.parse("gpus(ml):2", Role("*")))
    assert counted == MasterAccount({container("c"): 3, container(""): 1}, reserved=2)


def test_gpus_of_suspended_tasks_and_in_the_place_of_vanished_ones_are_lent() -> None:
    """The master goes on counting two GPUs of one task and one of another; nobody uses the four that there are."""
    suspended = Holding(suspension=Suspension(("GPU-0", "GPU-1"), SuspensionPhase.SUSPENDED))
    vanished = Holding(lost=frozenset({HeldGpu(9, "GPU-9", closed=True)}))
    before = Ledger(gpus=frozenset(GPUS), holdings={container("s"): suspended, container("v"): vanished})
    ledger = after(before, MasterAccount({container("s"): 2, container("v"): 1}))
    assert choose(asking(4), FREE, lowest, ledger) == set(GPUS)


def test_gpus_that_are_held_withdrawn_or_accessible_to_others_are_not_free() -> None:
    held = {
        container("c"): Holding(frozenset(GPUS[:1]), lost=frozenset({HeldGpu(3, "GPU-former")})),
        lease("l"): Holding(frozenset(GPUS[1:2])),
    }
    ledger = Ledger(gpus=frozenset(GPUS), holdings=held, withdrawn=frozenset({"GPU-2"}))
    found = standings(ledger, lambda uuid: f"why {uuid}", lambda holder: f"{holder.kind.value} {holder.id}")
    assert [(one.gpu, one.holder, one.illness) for one in found[:3]] == [
        (GPUS[0], "container c", ""),
        (GPUS[1], "lease l", ""),
        (GPUS[2], "", "why GPU-2"),
    ]
    assert not any(one.free for one in found)
    assert [one.free for one in standings(NEW, str, str)] == [True] * 4
