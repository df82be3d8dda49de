"""Update streams: every update reaches the master, in order, once per acknowledgement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.model.updates import RETRY_MAX_S, RETRY_MIN_S, TaskKey, UpdateStreams

KEY = TaskKey("f", "t")


def update(state: str, uuid: str) -> dict[str, object]:
    return {"state": state, "uuid": uuid}


def connected() -> UpdateStreams:
    streams = UpdateStreams()
    assert streams.resume(0.0) == []
    return streams


def test_the_first_update_is_sent_at_once_and_the_second_waits_for_the_acknowledgement() -> None:
    streams = connected()
    assert [s.status["uuid"] for s in streams.add(KEY, update("TASK_STARTING", "1"), 0.0)] == ["1"]
    assert streams.add(KEY, update("TASK_RUNNING", "2"), 1.0) == []
    sends, done = streams.acknowledge(KEY, "1", 2.0)
    assert [s.status["uuid"] for s in sends] == ["2"]
    assert not done


def test_a_waiting_head_says_the_latest_state() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    streams.add(KEY, update("TASK_RUNNING", "2"), 0.0)
    streams.add(KEY, update("TASK_FINISHED", "3"), 0.0)
    (again,) = streams.retry(RETRY_MIN_S)
    assert (again.status["state"], again.latest_state) == ("TASK_STARTING", "TASK_FINISHED")


def test_an_update_without_acknowledgement_is_sent_again_after_10_s_doubling_to_10_minutes() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    waits = []
    now = 0.0
    for _ in range(9):
        due = streams.next_due_s
        assert due is not None
        assert streams.retry(due - 0.001) == []
        (again,) = streams.retry(due)
        assert again.status["uuid"] == "1"
        waits.append(due - now)
        now = due
    assert waits[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(waits[7:]) == {RETRY_MAX_S}


def test_an_acknowledgement_of_another_uuid_changes_nothing() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    assert streams.acknowledge(KEY, "other", 1.0) == ([], False)
    assert streams.acknowledge(TaskKey("f", "unknown"), "1", 1.0) == ([], False)
    assert streams.pending(KEY) == (update("TASK_STARTING", "1"),)


def test_the_stream_is_done_when_the_terminal_update_is_acknowledged() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_FINISHED", "1"), 0.0)
    assert streams.add(KEY, update("TASK_RUNNING", "2"), 0.0) == []
    assert streams.acknowledge(KEY, "1", 1.0) == ([], True)
    assert KEY not in streams
    assert streams.next_due_s is None


def test_nothing_leaves_while_there_is_no_master_and_everything_outstanding_when_it_is_back() -> None:
    streams = connected()
    streams.pause()
    assert streams.add(KEY, update("TASK_STARTING", "1"), 0.0) == []
    assert streams.next_due_s is None
    assert streams.retry(1e9) == []
    assert [s.status["uuid"] for s in streams.resume(5.0)] == ["1"]
    assert streams.next_due_s == 15.0


def test_only_one_framework_is_resent_when_its_scheduler_comes_back() -> None:
    streams = connected()
    streams.add(KEY, update("TASK_STARTING", "1"), 0.0)
    streams.add(TaskKey("g", "t"), update("TASK_STARTING", "2"), 0.0)
    assert [s.status["uuid"] for s in streams.resend("g", 1.0)] == ["2"]


STEPS = st.lists(
    st.sampled_from(["add", "ack", "stale", "retry", "lose", "pause", "resume", "die"]), min_size=1, max_size=80
)


@given(STEPS)
@pytest.mark.timeout(60)
def test_any_history_delivers_every_update_in_order_as_logged(steps: list[str]) -> None:
    """The log is what the caller keeps; `die` rebuilds the streams from it, as a killed agent's next process does."""
    streams, now = connected(), 0.0
    log: list[dict[str, object]] = []
    acknowledged: list[str] = []
    first_seen: list[str] = []

    def deliver(sends: list[object]) -> None:
        for send in sends:
            uuid = send.status["uuid"]  # type: ignore[attr-defined]
            assert uuid == log[len(acknowledged)]["uuid"], "only the oldest unacknowledged update may be sent"
            if uuid not in first_seen:
                first_seen.append(uuid)

    for step in steps:
        now += 7.0
        if step == "add":
            status = update("TASK_RUNNING", f"u{len(log)}")
            log.append(status)
            deliver(list(streams.add(KEY, status, now)))
        elif step == "ack" and len(acknowledged) < len(first_seen):
            uuid = first_seen[len(acknowledged)]
            assert streams.expects(KEY, uuid)
            acknowledged.append(uuid)
            deliver(list(streams.acknowledge(KEY, uuid, now)[0]))
        elif step == "stale" and acknowledged:
            assert streams.acknowledge(KEY, acknowledged[-1], now) == ([], False)
        elif step == "retry":
            deliver(list(streams.retry(now)))
        elif step == "pause":
            streams.pause()
        elif step == "resume":
            deliver(list(streams.resume(now)))
        elif step == "die":
            streams = UpdateStreams()
            if log:
                streams.restore(KEY, log[len(acknowledged) :], str(log[-1]["state"]))
    deliver(list(streams.resume(now)))
    while len(acknowledged) < len(log):
        uuid = first_seen[len(acknowledged)]
        acknowledged.append(uuid)
        deliver(list(streams.acknowledge(KEY, uuid, now)[0]))
    assert first_seen == [status["uuid"] for status in log]
