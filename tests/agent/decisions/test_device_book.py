"""The book of plugins' devices: what is offered, who holds what, and that no order of events gives one to two."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.agent.decisions.device_book import Device, DeviceBook, UnitsShort, own_choice, preferred
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.lending import Standing, choose, master_account, standings
from mesos_gpu.agent.decisions.offered_units import lingering_parts, with_offered
from mesos_gpu.agent.model.leases import LeaseRequest
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.errors import BadInput, Conflict, GpusTaken, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.isolator.ledger import Holding, Ledger, MasterAccount, lease
from mesos_gpu.isolator.ledger import container as holder_of
from mesos_gpu.isolator.ledger import handle as ledger_handle
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.suspension import Phase as SuspensionPhase
from mesos_gpu.isolator.suspension import Suspension
from mesos_gpu.mesos.ids import ContainerId, Role
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.fakes.gpus import GPUS
from tests.support.agent.documents import IDENTITY, at, key, new_state, run, scalar
from tests.support.agent.hosting import AWARE, hosted
from tests.support.golden import Golden
from tests.support.sharing.parts import part

R = "example.com/x"
A, B = ContainerId("a"), ContainerId("b")


def devices(*healthy: bool) -> list[Device]:
    return [Device(f"d{n}", well) for n, well in enumerate(healthy)]


def give(book: DeviceBook, container: ContainerId, count: int, resource: str = R) -> frozenset[str]:
    held, free = book.choose(container, resource, count)
    chosen = own_choice(held, free, count)
    book.take(container, resource, chosen)
    return chosen


def test_healthy_devices_and_held_ones_may_be_offered() -> None:
    book = DeviceBook()
    book.list(R, devices(True, True, False))
    assert book.totals() == {R: 2}
    assert give(book, A, 1) == {"d0"}
    book.list(R, devices(False, True, True))
    assert book.totals() == {R: 3}, "one that is ill is held, and offered no more once it is free"
    assert [device.id for device in book.free(R)] == ["d1", "d2"]
    assert book.release(A)
    assert not book.release(A)
    assert book.totals() == {R: 2}


def test_a_plugin_that_is_gone_is_forgotten_after_its_grace(golden: Golden) -> None:
    book = DeviceBook(grace_s=300)
    book.list(R, devices(True, True))
    give(book, A, 1)
    book.gone(R, 100.0)
    book.gone(R, 200.0)
    book.gone("example.com/never-was", 200.0)
    assert (book.totals(), book.next_due_s()) == ({R: 1}, 400.0)
    with pytest.raises(Conflict) as refused:
        book.choose(B, R, 1)
    assert str(refused.value) == golden
    book.expire(399.0)
    assert R in book.resources
    book.expire(400.0)
    assert (R in book.resources, book.totals(), book.next_due_s()) == (False, {R: 1}, None)
    with pytest.raises(NotFound) as refused:
        book.choose(B, R, 1)
    assert str(refused.value) == golden
    book.list(R, devices(True, True))
    assert [device.id for device in book.free(R)] == ["d1"]


def test_what_cannot_be_given_is_refused_in_a_kubelet_s_words(golden: Golden) -> None:
    book = DeviceBook()
    book.list(R, devices(True, True))
    give(book, A, 1)
    with pytest.raises(UnitsShort) as refused:
        book.choose(B, R, 2)
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        book.take(B, R, ["d0"])
    assert str(refused.value) == golden
    book.list(R, devices(False, True))
    with pytest.raises(Conflict) as refused:
        book.choose(A, R, 1)
    assert str(refused.value) == golden
    assert book.held == {A: {R: frozenset({"d0"})}}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, {"c"}), (2, {"a", "b"}), (3, {"a", "b", "c"}), (4, {"a", "b", "c", "n"}), (0, set())],
)
def test_devices_of_one_numa_node_go_together(count: int, expected: set[str]) -> None:
    free = [Device("a", True, 0), Device("b", True, 0), Device("c", True, 1), Device("n", True)]
    assert own_choice((), free, count) == expected


def test_a_preference_counts_only_where_it_is_a_choice() -> None:
    free = [Device(name, True) for name in "abc"]
    assert preferred({"h"}, free, 2, ["h", "c"]) == {"h", "c"}
    for answer in (["a", "b"], ["h"], ["h", "z"], ["h", "h"], ["h", "a", "b"]):
        assert preferred({"h"}, free, 2, answer) is None


def test_no_order_of_events_gives_a_device_to_two_or_loses_one() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        book, now_s = DeviceBook(grace_s=5), 0.0
        containers = [ContainerId(f"c{n}") for n in range(6)]
        for _ in range(60):
            now_s += dice.random()
            match dice.randrange(5):
                case 0:
                    book.list(R, devices(*(dice.random() < 0.8 for _ in range(5))))
                case 1:
                    book.gone(R, now_s)
                case 2:
                    book.expire(now_s)
                case 3:
                    book.release(dice.choice(containers))
                case _:
                    try:
                        give(book, dice.choice(containers), dice.randrange(1, 4))
                    except (Conflict, NotFound):
                        pass
            taken = [name for held in book.held.values() for name in held[R]]
            assert len(taken) == len(set(taken))
        for container in containers:
            book.release(container)
        book.list(R, devices(*[True] * 5))
        assert book.totals() == {R: 5}


X = "example.com/x"
OWN = Resources.parse("cpus:4")


def with_unit(task: dict[str, Any]) -> dict[str, Any]:
    return {**task, "resources": [*task["resources"], scalar(X, 1.0)]}


def test_what_a_task_left_in_its_executor_is_not_offered_until_that_gives_it_back() -> None:
    state = new_state()
    handle(state, run(with_unit(hosted("t1")), info=AWARE), at())
    handle(state, run(hosted("t2"), info=AWARE, launch_executor=False), at())
    (executor,) = state.frameworks.executors()
    assert executor.container_id is not None
    held = {executor.container_id: {X: ["a"]}}

    def offered(units: int) -> float:
        return with_offered(OWN, {X: units}, held, state, Resources(())).value(X)

    assert offered(3) == 3
    (first,) = [task for task in state.frameworks.tasks() if task.key.task == "t1"]
    first.phase = Phase.OVER
    assert offered(3) == 2
    assert offered(1) == 0
    held.clear()
    assert offered(3) == 3


def test_a_container_that_nobody_knows_any_more_pays_for_nothing() -> None:
    held = {ContainerId("gone"): {X: ["a", "b"]}}
    total = with_offered(OWN, {X: 3}, held, new_state(), Resources(()))
    assert (total.value(X), total.value("cpus")) == (1, 4)


def test_a_part_that_a_pod_holds_for_a_task_that_has_ended_is_not_offered_while_others_of_it_run() -> None:
    cards = {1: SharedCard(1, "GPU-1", 15109, 25)}
    state = new_state(identity=replace(IDENTITY, shared_cards=cards, default_executor=("x",)))
    tasks = [
        hosted(f"t{number}", kind="DEFAULT") | {"resources": part(1, number, number, first=4 * number)}
        for number in (1, 2)
    ]
    handle(state, run(*tasks, info=AWARE, group=True), at())
    (executor,) = state.frameworks.executors()
    whole = Share((CardPart(1, 3, 3),), group=True)
    shares = {executor.container_id: whole}
    assert lingering_parts(state, shares) == [CardPart(1, 0, 0)]
    assert lingering_parts(state, {}) == []
    first, second = sorted(state.frameworks.tasks(), key=lambda task: task.key.task)
    first.phase = Phase.OVER
    assert lingering_parts(state, shares) == [CardPart(1, 1, 1)]
    assert lingering_parts(state, {executor.container_id: whole.moved(())}) == [], "it holds nothing just now"
    second.phase = Phase.OVER
    assert lingering_parts(state, shares) == [], "it is about to end"


FREE = [Standing(gpu) for gpu in GPUS]
NEW = Ledger(gpus=frozenset(GPUS))
HELD = Ledger(
    gpus=frozenset(GPUS),
    holdings={holder_of("c"): Holding(frozenset(GPUS[:1])), lease("l"): Holding(frozenset(GPUS[1:2]))},
    withdrawn=frozenset({"GPU-2"}),
)
TAKEN = [
    Standing(GPUS[0], "Mesos: task web.1 of framework f"),
    Standing(GPUS[1], "docker: web, lease l"),
    Standing(GPUS[2], illness="unhealthy: XID 79"),
    Standing(GPUS[3]),
]


def after(ledger: Ledger, event: MasterAccount) -> Ledger:
    return ledger_handle(ledger, event)[0]


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
    three, four = (after(NEW, MasterAccount({holder_of(""): count})) for count in (3, 4))
    assert three.leasable == 1
    with pytest.raises(GpusTaken) as refused:
        choose(asking(2), FREE, lowest, three)
    assert str(refused.value) == golden
    with pytest.raises(GpusTaken) as refused:
        choose(asking(None, "0"), FREE, lowest, four)
    assert str(refused.value) == golden


def test_what_is_reserved_stays_here_whether_a_task_has_it_or_not(golden: Golden) -> None:
    one, two = (after(HELD, MasterAccount({holder_of("c"): 1}, reserved=count)) for count in (1, 2))
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
    assert counted == MasterAccount({holder_of("c"): 3, holder_of(""): 1}, reserved=2)


def test_gpus_of_suspended_tasks_and_in_the_place_of_vanished_ones_are_lent() -> None:
    """The master goes on counting two GPUs of one task and one of another; nobody uses the four that there are."""
    suspended = Holding(suspension=Suspension(("GPU-0", "GPU-1"), SuspensionPhase.SUSPENDED))
    vanished = Holding(lost=frozenset({HeldGpu(9, "GPU-9", closed=True)}))
    before = Ledger(gpus=frozenset(GPUS), holdings={holder_of("s"): suspended, holder_of("v"): vanished})
    ledger = after(before, MasterAccount({holder_of("s"): 2, holder_of("v"): 1}))
    assert choose(asking(4), FREE, lowest, ledger) == set(GPUS)


def test_gpus_that_are_held_withdrawn_or_accessible_to_others_are_not_free() -> None:
    held = {
        holder_of("c"): Holding(frozenset(GPUS[:1]), lost=frozenset({HeldGpu(3, "GPU-former")})),
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
