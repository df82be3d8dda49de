"""Kills: how long a task has to end, which end is told of, and who else ends tasks (limits, drains, shutdowns)."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.container.spec.config import Termination
from tests.support.agent.decided import acknowledge_all, connected, end, kinds, running, sent
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, at, framework, key, run, task

NANO = 1_000_000_000


def test_a_kill_asks_nicely_for_three_seconds_and_says_killing_where_that_is_known() -> None:
    state = running(framework(*ALL_CAPABILITIES))
    actions = handle(state, ev.KillTask(key()), at(5.0))
    assert [a for a in actions if isinstance(a, act.Kill)] == [act.Kill(key(), "c0", 3.0)]
    end(state, signal=15)
    assert [s["state"] for s in acknowledge_all(state)] == [
        "TASK_STARTING",
        "TASK_RUNNING",
        "TASK_KILLING",
        "TASK_KILLED",
    ]


def test_a_framework_without_the_capability_is_not_told_of_killing() -> None:
    state = running()
    handle(state, ev.KillTask(key()), at())
    end(state, exit_code=0)
    states = [s["state"] for s in acknowledge_all(state)]
    assert states == ["TASK_STARTING", "TASK_RUNNING", "TASK_KILLED"]


def test_the_grace_is_the_messages_else_the_tasks_else_three_seconds() -> None:
    policy = {"grace_period": {"nanoseconds": 20 * NANO}}
    for own, asked, expected in [(None, None, 3.0), (policy, None, 20.0), (policy, 7.0, 7.0)]:
        more: dict[str, Any] = {} if own is None else {"kill_policy": own}
        state = running(None, task(**more))
        kills = [a for a in handle(state, ev.KillTask(key(), asked), at()) if isinstance(a, act.Kill)]
        assert [kill.grace_s for kill in kills] == [expected]


def test_killing_again_can_only_shorten_the_grace() -> None:
    state = running()
    handle(state, ev.KillTask(key(), 10.0), at(0.0))
    assert [a for a in handle(state, ev.KillTask(key(), 60.0), at(1.0)) if isinstance(a, act.Kill)] == []
    kills = [a for a in handle(state, ev.KillTask(key(), 2.0), at(1.0)) if isinstance(a, act.Kill)]
    assert [kill.grace_s for kill in kills] == [2.0]


def test_a_kill_before_the_container_runs_ends_it_as_soon_as_it_does() -> None:
    state = connected()
    handle(state, run(), at())
    assert not [a for a in handle(state, ev.KillTask(key()), at()) if isinstance(a, act.Kill)]
    assert handle(state, ev.Launched(key(), 42), at()) == [act.Kill(key(), "c0", 0.0)]
    end(state, signal=9)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_KILLED", "REASON_TASK_KILLED_DURING_LAUNCH")


IN_IMAGE = {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}}}}


def test_how_far_a_pull_is_is_told_while_the_task_is_launched_and_wanted() -> None:
    state = connected()
    handle(state, run(task(container=IN_IMAGE)), at())
    handle(state, ev.Pulling(key(), "downloading"), at())
    handle(state, ev.KillTask(key()), at())
    assert handle(state, ev.Pulling(key(), "extracting"), at()) == []
    handle(state, ev.LaunchFailed(key(), "ended while its image was pulled"), at())
    said = [(update["state"], update.get("message")) for update in acknowledge_all(state)]
    assert said[:2] == [("TASK_STARTING", None), ("TASK_STARTING", "downloading")]
    assert [state for state, _ in said[2:]] == ["TASK_KILLED"]
    assert handle(state, ev.Pulling(key(), "late"), at()) == []


def test_a_kill_of_a_task_that_may_be_waiting_for_its_image_does_not_wait_for_it() -> None:
    state = connected()
    handle(state, run(task(container=IN_IMAGE)), at())
    assert act.Kill(key(), "c0", 0.0) in handle(state, ev.KillTask(key()), at())
    assert not [a for a in handle(state, ev.KillTask(key()), at()) if isinstance(a, act.Kill)]


def test_a_kill_of_a_task_whose_launch_then_fails_is_a_kill() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.KillTask(key()), at())
    handle(state, ev.LaunchFailed(key(), "no"), at())
    assert acknowledge_all(state)[-1]["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"


@pytest.mark.parametrize(("aware", "expected"), [(True, "TASK_DROPPED"), (False, "TASK_LOST")])
def test_a_kill_of_an_unknown_task_of_a_known_framework_is_answered(aware: bool, expected: str) -> None:
    state = running(framework(*(["PARTITION_AWARE"] if aware else [])))
    (status,) = sent(handle(state, ev.KillTask(key("other")), at()))
    assert status["state"] == expected


def test_a_kill_of_an_unknown_framework_or_an_ended_task_does_nothing() -> None:
    state = running()
    assert handle(state, ev.KillTask(key("t1", "unknown")), at()) == []
    end(state, exit_code=0)
    assert handle(state, ev.KillTask(key()), at()) == []


def test_a_task_that_runs_already_is_not_launched_twice() -> None:
    assert kinds(handle(running(), run(), at())) == []


@pytest.mark.parametrize("ending", [ev.ShutdownFramework(FRAMEWORK_ID), ev.ShutdownAgent("bye")])
def test_a_master_that_tells_of_a_framework_whose_tasks_end_revives_nothing(ending: ev.Event) -> None:
    # An agent that leaves while it registers again is told of its frameworks when their tasks have not ended yet.
    state = running()
    handle(state, ending, at())
    assert handle(state, ev.UpdateFramework(FRAMEWORK_ID, framework(name="renamed")), at()) == []
    actions = end(state, signal=9)
    assert not state.frameworks.active
    assert ("Stop" in kinds(actions)) == isinstance(ending, ev.ShutdownAgent)


def test_a_framework_shut_down_is_killed_and_nothing_is_said_of_it() -> None:
    state = running(None, task(), task("t2"))
    actions = handle(state, ev.ShutdownFramework(FRAMEWORK_ID), at())
    assert [a.grace_s for a in actions if isinstance(a, act.Kill)] == [3.0, 3.0]
    for task_id in ("t1", "t2"):
        actions = handle(state, ev.Ended(key(task_id), Termination(signal=15)), at())
        assert sent(actions) == []
    assert state.frameworks.active == {}
    assert state.streams.next_due_s is None


def test_a_task_may_only_run_for_so_long() -> None:
    state = running(None, task(max_completion_time={"nanoseconds": 30 * NANO}))
    assert state.next_due_s is not None
    acknowledge_all(state)
    assert state.next_due_s == 30.0
    assert handle(state, ev.Tick(), at(29.9)) == []
    kills = [a for a in handle(state, ev.Tick(), at(30.0)) if isinstance(a, act.Kill)]
    assert [kill.grace_s for kill in kills] == [0.05]
    end(state, signal=9)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_FAILED", "REASON_MAX_COMPLETION_TIME_REACHED")


def test_draining_kills_with_a_capped_grace_and_takes_no_more_tasks() -> None:
    state = running(framework(*ALL_CAPABILITIES), task(kill_policy={"grace_period": {"nanoseconds": 60 * NANO}}))
    actions = handle(state, ev.Drain(10.0, False), at())
    assert [a.grace_s for a in actions if isinstance(a, act.Kill)] == [10.0]
    (refused,) = sent(handle(state, run(task("t2"), info=framework(*ALL_CAPABILITIES)), at()))
    assert (refused["state"], refused["reason"]) == ("TASK_DROPPED", "REASON_AGENT_DRAINING")
    end(state, signal=15)
    last = acknowledge_all(state)[-1]
    assert (last["state"], last["reason"]) == ("TASK_KILLED", "REASON_AGENT_DRAINING")
    acknowledge_all(state, "t2")
    assert state.departure.drain is None


def test_sent_away_the_agent_stops_when_everything_is_killed() -> None:
    state = running()
    assert "Stop" not in kinds(handle(state, ev.ShutdownAgent("gone"), at()))
    assert kinds(end(state, signal=15)) == ["Close", "Discard", "Forget", "Discard", "Stop"]
    assert handle(state, run(task("t2")), at()) == []


def test_sent_away_with_nothing_to_kill_the_agent_stops_at_once() -> None:
    assert handle(connected(), ev.ShutdownAgent("gone"), at()) == [act.Stop("gone")]
