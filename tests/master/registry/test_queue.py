"""The order in which changes of the registry are written and followed, whatever comes when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.master.model.model import Drain, KnownAgent
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.model.record import MAX_MASTERS, Record
from mesos_gpu.master.registry.operations import (
    Admit,
    Deactivate,
    Lead,
    MarkDrained,
    MarkGone,
    MarkUnreachable,
    Nothing,
    Operation,
    Prune,
    Reactivate,
    Remove,
    SetQuotas,
    SetSchedule,
    SetWeights,
    StartMaintenance,
    StopMaintenance,
)
from mesos_gpu.master.registry.queue import RegistryQueue

DRAIN = Drain({"mark_gone": False}, 5.0)
ids = st.sampled_from(["a", "b", "c"])
schedules = st.sampled_from(
    [
        {},
        {"windows": [{"machine_ids": [{"hostname": "h"}], "unavailability": {"start": {"nanoseconds": 1}}}]},
        {"windows": [{"machine_ids": [{"hostname": "h"}, {"ip": "1.2.3.4"}], "unavailability": {}}]},
    ]
)
machines = st.frozensets(st.sampled_from([("h", ""), ("", "1.2.3.4")]))
operations: st.SearchStrategy[Operation] = st.one_of(
    st.just(Nothing()),
    st.builds(
        lambda id, port, others: Admit(id, known(id, port), tuple(others - {id})), ids, st.integers(1, 2), st.sets(ids)
    ),
    st.builds(MarkUnreachable, ids, st.just(7.0)),
    st.builds(lambda gone: Remove(tuple(gone)), st.sets(ids)),
    st.builds(MarkGone, ids, st.just(8.0)),
    st.builds(lambda one, two: Prune(tuple(one), tuple(two)), st.sets(ids), st.sets(ids)),
    st.builds(Deactivate, ids, st.sampled_from([None, DRAIN])),
    st.builds(MarkDrained, ids, st.just(Drain({"mark_gone": False}, 5.0, done=True))),
    st.builds(Reactivate, ids),
    st.builds(SetWeights, st.dictionaries(ids, st.sampled_from([0.5, 2.0]))),
    st.builds(SetQuotas, st.dictionaries(ids, st.sampled_from([Quota(), Quota({}, {"gpus": 1000})]))),
    st.builds(SetSchedule, schedules),
    st.builds(StartMaintenance, machines),
    st.builds(StopMaintenance, machines),
)


def known(agent_id: str, port: int = 1) -> KnownAgent:
    return KnownAgent({"id": {"value": agent_id}, "hostname": "h"}, f"slave(1)@1.2.3.4:{port}")


@given(st.lists(st.one_of(operations, st.just("take"), st.just("done")), max_size=40))
def test_what_follows_a_change_comes_once_in_order_and_after_the_write_that_holds_it(
    steps: list[Operation | str],
) -> None:
    queue: RegistryQueue[int] = RegistryQueue(Record())
    asked: list[Operation] = []
    followed: list[int] = []
    out = None
    for step in [*steps, "done", "take", "done"]:
        if step == "take":
            batch = queue.take()
            assert batch is None or out is None, "one write at a time"
            out = batch or out
        elif step == "done":
            if out is None:
                with pytest.raises(ValueError):
                    queue.done()
                continue
            before = queue.durable
            followed += queue.done()
            assert queue.durable is (before if out.record is None else out.record)
            assert queue.durable == one_by_one(asked[: len(followed)]), "all that is followed is written, and no more"
            out = None
        else:
            assert not isinstance(step, str)
            queue.ask(step, len(asked))
            asked.append(step)
        assert len(queue) == len(asked) - len(followed)
    assert followed == list(range(len(asked)))


def one_by_one(changes: list[Operation]) -> Record:
    record = Record()
    for change in changes:
        before = record.copy()
        assert change.apply(record) == (record != before), f"{change} says whether it changed anything"
    return record


@given(st.lists(operations, max_size=30))
def test_what_is_kept_is_read_again_and_says_each_thing_once(changes: list[Operation]) -> None:
    record = one_by_one([Lead("m"), *changes])
    assert Record.from_document(record.to_document()) == record
    assert not set(record.agents) & set(record.unreachable)
    assert not set(record.gone) & {*record.agents, *record.unreachable, *record.deactivated}
    assert set(record.deactivated) <= {*record.agents, *record.unreachable}


def test_changes_asked_for_during_a_write_go_into_the_next_one_together() -> None:
    queue: RegistryQueue[str] = RegistryQueue(Record())
    queue.ask(Admit("a", known("a")), "a")
    first = queue.take()
    queue.ask(Admit("b", known("b")), "b")
    queue.ask(Admit("c", known("c")), "c")
    assert queue.take() is None
    assert first is not None
    assert first.record is not None
    assert (list(first.record.agents), list(queue.done())) == (["a"], ["a"])
    second = queue.take()
    assert second is not None
    assert second.record is not None
    assert (list(second.record.agents), list(queue.done())) == (["a", "b", "c"], ["b", "c"])
    assert queue.take() is None


def test_changes_that_change_nothing_need_no_write_and_keep_their_place() -> None:
    queue: RegistryQueue[str] = RegistryQueue(Record())
    queue.ask(MarkUnreachable("a", 1.0), "nobody")
    batch = queue.take()
    assert batch is not None
    assert batch.record is None
    assert list(queue.done()) == ["nobody"]


def test_only_the_last_masters_are_remembered() -> None:
    record = Record()
    for number in range(MAX_MASTERS + 1):
        Lead(f"m{number}").apply(record)
    assert record.masters[0] == "m1"
    assert record.masters[-1] == f"m{MAX_MASTERS}"
