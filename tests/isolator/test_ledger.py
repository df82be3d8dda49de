"""The ledger: each state of a GPU, each event and refusal, what is offered and leasable, and random histories."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.isolator.ledger import (
    Action,
    Allocate,
    AllocateShare,
    Deallocate,
    DriverListing,
    Event,
    Holding,
    Ledger,
    MasterAccount,
    NoteLost,
    ReadRecords,
    ReadShares,
    ReadSuspensions,
    Release,
    RemoveRecord,
    Restore,
    Revoke,
    State,
    StepSuspension,
    Withdraw,
    WriteRecord,
    choose,
    container,
    handle,
    lease,
    violations,
)
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.suspension import Phase, Step, Suspension
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from tests.isolator.ledger_histories import play
from tests.support.histories import examples

A, B, K = container("a"), container("b"), lease("k")
GPUS = tuple(Gpu(minor=n, index=n, uuid=f"GPU-{n}", name="GPU") for n in range(4))
SHARED = Gpu(minor=9, index=9, uuid="GPU-9", name="GPU")
NEW = Ledger(
    gpus=frozenset(GPUS), shared={9: SHARED}, cards={9: SharedCard(9, SHARED.uuid, memory_mib=8 * 1024, slices=10)}
)


def some(*numbers: int) -> frozenset[Gpu]:
    return frozenset(GPUS[number] for number in numbers)


def instance(uuid: str) -> Gpu:
    nodes = (DeviceNode("/dev/nvidia-caps/nvidia-cap30", 240, 30), DeviceNode("/dev/nvidia-caps/nvidia-cap31", 240, 31))
    return Gpu(minor=5, index=5, uuid=uuid, name="MIG", mig=MigInstance("GPU-5", 3, 0, nodes))


def after(*events: Event, ledger: Ledger = NEW) -> Ledger:
    for event in events:
        ledger, _ = handle(ledger, event)
        assert list(violations(ledger)) == []
    return ledger


def counts(gpus: int) -> MasterAccount:
    return MasterAccount({A: gpus})


def actions(ledger: Ledger, event: Event) -> tuple[Action, ...]:
    return handle(ledger, event)[1]


def share(memory: int, weight: int) -> Share:
    return Share((CardPart(9, memory, weight),))


def test_a_gpu_has_one_of_six_states() -> None:
    old, new = instance("MIG-old"), instance("MIG-new")
    ledger = after(
        DriverListing(frozenset({*GPUS, old})),
        Allocate(A, some(0) | {old}),
        Allocate(K, some(1)),
        Withdraw(frozenset({"GPU-2"})),
        DriverListing(frozenset({*GPUS, new}) - some(0)),
    )
    assert {uuid: ledger.state(uuid) for uuid in ("GPU-0", "GPU-1", "GPU-2", "GPU-3", "MIG-new")} == {
        "GPU-0": (State.VANISHED, A),
        "GPU-1": (State.LEASED, K),
        "GPU-2": (State.WITHDRAWN, None),
        "GPU-3": (State.FREE, None),
        "MIG-new": (State.REACHABLE, None),
    }
    assert ledger.state("GPU-1")[0] is not after(Allocate(A, some(1))).state("GPU-1")[0] is State.HELD
    assert ledger.available == some(3)
    with pytest.raises(NotFound):
        ledger.state("MIG-old")


def test_the_lowest_device_numbers_are_chosen_or_what_a_choice_returns() -> None:
    ledger = after(Allocate(A, some(0)))
    assert choose(ledger, 2) == some(1, 2)
    assert choose(ledger, 2, lambda gpus, count: frozenset(sorted(gpus)[-count:])) == some(2, 3)
    with pytest.raises(NotEnoughGpus):
        choose(ledger, 4)
    with pytest.raises(BadInput):
        choose(ledger, -1)
    with pytest.raises(ValueError, match="choice"):
        choose(ledger, 1, lambda gpus, count: some(0))


def test_a_gpu_has_one_holder_at_most() -> None:
    ledger = after(Allocate(A, some(0, 1)))
    for holder, gpus in ((B, some(1, 2)), (A, some(0)), (K, some(0)), (B, frozenset({SHARED}))):
        with pytest.raises(Conflict):
            handle(ledger, Allocate(holder, gpus))
    with pytest.raises(Conflict):
        handle(ledger, Deallocate(B, some(0)))
    with pytest.raises(Conflict):
        handle(after(Allocate(K, some(3)), ledger=ledger), Allocate(K, some(2)))
    assert after(Allocate(B, some(2)), Deallocate(A, some(1)), Allocate(B, some(1)), ledger=ledger).of(B).gpus == some(
        1, 2
    )
    assert after(Release(A), Release(A), ledger=ledger).available == frozenset(GPUS)


def test_a_container_and_a_lease_of_one_name_are_two_holders() -> None:
    ledger = after(Allocate(container("k"), some(0)), Allocate(K, some(1)), Release(container("k")))
    assert (ledger.available, ledger.of(K).gpus) == (some(0, 2, 3), some(1))


def test_units_of_a_shared_gpu_are_allocated_once() -> None:
    ledger = after(AllocateShare(A, share(5, 6)))
    for refused in (share(4, 1), share(1, 5)):
        with pytest.raises(NotEnoughGpus):
            handle(ledger, AllocateShare(B, refused))
    with pytest.raises(BadInput):
        handle(ledger, AllocateShare(B, Share((CardPart(3, 1, 1),))))
    with pytest.raises(BadInput):
        handle(ledger, Allocate(A, some(0)))
    with pytest.raises(BadInput):
        handle(after(Allocate(B, some(0)), ledger=ledger), AllocateShare(B, share(1, 1)))
    away = after(AllocateShare(A, share(5, 6).moved(())), AllocateShare(B, share(8, 10)), ledger=ledger)
    assert away.shares[A].booked == share(5, 6).parts
    with pytest.raises(NotEnoughGpus):
        handle(away, AllocateShare(A, share(5, 6)))


def test_no_share_of_a_withdrawn_gpu_is_allocated_but_one_that_a_container_has_stays() -> None:
    ledger = after(AllocateShare(A, share(2, 2)), Withdraw(frozenset({SHARED.uuid})))
    with pytest.raises(NotEnoughGpus):
        handle(ledger, AllocateShare(B, share(1, 1)))
    assert after(AllocateShare(A, share(3, 2)), ledger=ledger).shares[A] == share(3, 2)
    assert after(Restore(frozenset({SHARED.uuid})), AllocateShare(B, share(1, 1)), ledger=ledger).shares.keys() == {
        A,
        B,
    }


def test_no_share_is_allocated_of_a_gpu_that_another_can_open() -> None:
    ledger = after(Allocate(A, some(0)), NoteLost(A, frozenset({HeldGpu(9, "GPU-former")})))
    with pytest.raises(NotEnoughGpus):
        handle(ledger, AllocateShare(B, share(1, 1)))
    assert after(Revoke(A), AllocateShare(B, share(1, 1)), ledger=ledger).shares.keys() == {B}


def test_what_can_be_opened_is_allocated_to_no_other_until_access_is_revoked() -> None:
    old, new = instance("MIG-old"), instance("MIG-new")
    ledger = after(DriverListing(frozenset({old})), Allocate(A, frozenset({old})), DriverListing(frozenset({new})))
    assert (ledger.available, ledger.of(A).gpus) == (frozenset(), frozenset())
    with pytest.raises(Conflict):
        handle(ledger, Allocate(B, frozenset({new})))
    in_use = frozenset({DeviceNode("/dev/nvidia-caps/nvidia-cap31", 240, 31)})
    assert after(Revoke(A, in_use), ledger=ledger).available == frozenset()
    assert after(Revoke(A), ledger=ledger).available == {new}


def test_a_vanished_gpu_does_not_count_against_others() -> None:
    """Of four GPUs one vanishes while a task has it; the master counts it for the task, and the others can be used."""
    here = frozenset(GPUS) - some(0)
    running = after(Allocate(A, some(0)), counts(1), DriverListing(here))
    record = running.of(A).record
    assert record is not None
    restarted = after(ReadRecords({ContainerId("a"): frozenset(record.gpus)}), ledger=Ledger(gpus=here))
    for ledger in (running, after(counts(1), ledger=restarted)):
        assert (ledger.offered, ledger.promised, ledger.leasable, ledger.available) == (4, 0, 3, here)
        ended = after(Release(A), counts(0), ledger=ledger)
        assert (ended.offered, ended.leasable, ended.total) == (3, 3, here)


def test_a_suspended_container_has_no_gpu_and_the_master_counts_it() -> None:
    ledger = after(
        Allocate(A, some(0, 1)), counts(2), StepSuspension(A, Step.SUSPEND, ("GPU-0", "GPU-1")),
        Deallocate(A, some(0, 1)), StepSuspension(A, Step.PUT_AWAY),
    )  # fmt: skip
    assert (ledger.offered, ledger.promised, ledger.leasable) == (6, 0, 4)
    resumed = after(
        StepSuspension(A, Step.RESUME), Allocate(A, some(2, 3)), StepSuspension(A, Step.BACK), ledger=ledger
    )
    assert (resumed.offered, resumed.of(A).suspension) == (4, None)
    with pytest.raises(Conflict):
        handle(ledger, StepSuspension(A, Step.SUSPEND, ("GPU-0",)))
    with pytest.raises(NotFound):
        handle(ledger, StepSuspension(B, Step.SUSPEND, ("GPU-0",)))
    for step in (Step.PUT_AWAY, Step.KEPT, Step.RESUME, Step.BACK, Step.REMAINED, Step.ENDED):
        assert after(StepSuspension(B, step), ledger=ledger) == ledger, "it has ended in the meantime"
    assert after(StepSuspension(A, Step.ENDED), ledger=ledger).offered == 4


@pytest.mark.parametrize(
    ("events", "offered", "promised", "leasable"),
    [
        ((), 4, 0, 4),
        ((counts(2),), 4, 2, 2),
        ((counts(2), Allocate(A, some(0))), 4, 1, 2),
        ((counts(2), Allocate(A, some(0, 1))), 4, 0, 2),
        ((Allocate(B, some(0)), counts(2), counts(0)), 4, 0, 3),
        ((MasterAccount({}, reserved=3),), 4, 0, 1),
        ((MasterAccount({}, reserved=3), Allocate(A, some(0, 1))), 4, 0, 1),
        ((Allocate(K, some(0)), MasterAccount({}, reserved=3)), 3, 0, 0),
        ((Withdraw(frozenset({"GPU-0"})), counts(1)), 3, 1, 2),
        ((Allocate(A, some(0)), Withdraw(frozenset({"GPU-0"}))), 4, 0, 3),
        ((counts(9),), 4, 9, 0),
    ],
)
def test_offered_and_leasable_follow_from_the_states(
    events: tuple[Event, ...], offered: int, promised: int, leasable: int
) -> None:
    ledger = after(*events)
    assert (ledger.offered, ledger.promised, ledger.leasable) == (offered, promised, leasable)


def test_records_follow_each_change_of_what_a_holder_has() -> None:
    assert actions(NEW, Allocate(A, frozenset())) == ()
    (written,) = actions(NEW, Allocate(A, some(1, 0)))
    assert isinstance(written, WriteRecord)
    assert [was.uuid for was in written.record.gpus] == ["GPU-0", "GPU-1"]
    ledger = after(Allocate(A, some(0)))
    assert actions(ledger, Deallocate(A, some(0))) == actions(ledger, Release(A)) == (RemoveRecord(A),)
    assert actions(ledger, Allocate(A, frozenset())) == ()
    assert actions(NEW, Release(B)) == ()
    (shared,) = actions(NEW, AllocateShare(A, share(1, 1)))
    assert isinstance(shared, WriteRecord)
    assert shared.record.share == share(1, 1)
    (away,) = actions(ledger, StepSuspension(A, Step.SUSPEND, ("GPU-0",)))
    assert isinstance(away, WriteRecord)
    assert away.record.suspension == Suspension(("GPU-0",), Phase.SUSPENDING)


def test_records_are_read_after_leases_which_keep_what_they_have() -> None:
    records = {ContainerId("a"): frozenset(map(HeldGpu.of, some(0, 1)))}
    other = lease("l")
    ledger = after(Allocate(K, some(0)), ReadRecords(records), ReadRecords(records, (Allocate(other, some(1)),)))
    assert (ledger.of(K).gpus, ledger.of(other).gpus, ledger.of(A).gpus) == (some(0), some(1), frozenset())
    for refused in (Allocate(K, some(2)), Allocate(lease("m"), some(0)), Allocate(lease("m"), frozenset({SHARED}))):
        with pytest.raises(Conflict):
            handle(ledger, ReadRecords(records, (refused,)))
    assert {was.uuid for was in ledger.of(A).lost} == {"GPU-0", "GPU-1"}
    taken_up = after(
        ReadRecords(records),
        ReadShares({ContainerId("b"): share(1, 1)}),
        ReadSuspensions({ContainerId("a"): Suspension(("GPU-0",), Phase.SUSPENDED), ContainerId("gone"): _any()}),
    )
    assert taken_up.holdings == {
        A: Holding(some(0, 1), suspension=Suspension(("GPU-0",), Phase.SUSPENDED)),
        B: Holding(share=share(1, 1)),
    }
    again = after(ReadRecords({}, (Allocate(K, some(0)),)), ledger=taken_up)
    assert (again.of(A).gpus, again.of(A).suspension is not None, again.shares) == (
        frozenset(),
        True,
        {B: share(1, 1)},
    )


def _any() -> Suspension:
    return Suspension(("GPU-0",), Phase.SUSPENDED)


def test_two_records_of_one_gpu_are_refused() -> None:
    records = {ContainerId(name): frozenset(map(HeldGpu.of, some(0))) for name in "ab"}
    with pytest.raises(Conflict):
        handle(NEW, ReadRecords(records))


def test_violations_are_found() -> None:
    twice = Ledger(gpus=frozenset(GPUS), holdings={A: Holding(some(0)), K: Holding(some(0))})
    both = Ledger(gpus=frozenset(GPUS), holdings={A: Holding(some(0), share=share(1, 1))})
    leased = Ledger(gpus=frozenset(GPUS), holdings={K: Holding(share=share(1, 1))})
    too_much = Ledger(cards=NEW.cards, shared=NEW.shared, holdings={A: Holding(share=share(9, 1))})
    assert [len(list(violations(one))) for one in (twice, both, leased, too_much)] == [1, 1, 1, 1]


@settings(max_examples=examples(200))
@given(st.integers(0, 1 << 32))
def test_in_any_history_no_gpu_is_with_two_and_none_is_lost(seed: int) -> None:
    play(Random(seed))
