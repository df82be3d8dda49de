"""Kills: how long a task has to end, which end is told of, and who else ends tasks (limits, drains, shutdowns)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.agent.decisions.adopting import adopt_task
from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.replay import Run, replay
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.checks import CheckNews, HealthNews
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.shares.gpu_links import labelled_cards
from tests.support.agent.decided import acknowledge_all, connected, end, kinds, running, sent
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, at, framework, key, new_state, run, task
from tests.support.agent.hosting import AWARE, ECHO, hosted, says
from tests.support.golden import Golden

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


ILL = "GPU 0 (GPU-x) is unhealthy: XID 48"


def test_the_holder_of_an_ill_gpu_is_told_once() -> None:
    state = running()
    acknowledge_all(state)
    (status,) = sent(handle(state, ev.GpuIll(key(), ILL, kill=False), at(1.0)))
    assert (status["state"], status["message"]) == ("TASK_RUNNING", ILL)
    assert status["container_status"]["executor_pid"] == 42
    assert handle(state, ev.GpuIll(key(), ILL, kill=False), at(2.0)) == []
    worse = f"{ILL}; GPU 1 (GPU-y) is unhealthy: XID 79"
    assert kinds(handle(state, ev.GpuIll(key(), worse, kill=False), at(3.0))) == ["Log"], "it waits for its turn"


def test_a_task_that_has_to_end_for_its_gpu_fails_with_the_reason() -> None:
    state = running()
    acknowledge_all(state)
    actions = handle(state, ev.GpuIll(key(), ILL, kill=True), at(1.0))
    assert kinds(actions) == ["Log", "Kill"]
    assert actions[0].record["why"] == ILL  # type: ignore[union-attr]
    assert handle(state, ev.GpuIll(key(), ILL, kill=True), at(1.5)) == []
    (status,) = sent(end(state, exit_code=0))
    assert (status["state"], status["message"]) == ("TASK_FAILED", ILL)
    assert (status["source"], status["reason"]) == ("SOURCE_AGENT", "REASON_CONTAINER_LIMITATION")


def test_a_gpu_that_falls_ill_during_the_launch_ends_the_task_as_well() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.GpuIll(key(), ILL, kill=True), at())
    assert kinds(handle(state, ev.Launched(key(), 42), at())) == ["Kill"]
    end(state, signal=9)
    assert [s["state"] for s in acknowledge_all(state)] == ["TASK_STARTING", "TASK_FAILED"]


def test_after_a_restart_it_still_fails_for_its_gpu_although_nobody_saw_the_end() -> None:
    state = running()
    handle(state, ev.GpuIll(key(), ILL, kill=True), at())
    handle(state, ev.Vanished(key(), rebooted=False), at(1.0))
    assert acknowledge_all(state)[-1]["message"] == ILL


def test_nobody_is_told_of_a_gpu_when_the_task_is_over_ends_or_is_unknown() -> None:
    state = running()
    assert handle(state, ev.GpuIll(key("t2"), ILL, kill=True), at()) == []
    handle(state, ev.KillTask(key()), at())
    assert handle(state, ev.GpuIll(key(), ILL, kill=True), at()) == []
    end(state, signal=15)
    assert handle(state, ev.GpuIll(key(), ILL, kill=False), at()) == []
    assert acknowledge_all(state)[-1]["state"] == "TASK_KILLED"


def test_the_first_running_says_which_cards_and_no_other_status_does() -> None:
    state = connected()
    handle(state, run(), at())
    handle(state, ev.Launched(key(), 42, cards=(3, 1)), at())
    handle(state, ev.GpuIll(key(), "GPU 1 is unhealthy", kill=False), at())
    end(state, exit_code=0)
    told = [(status["state"], labelled_cards(status)) for status in acknowledge_all(state)]
    assert told == [("TASK_STARTING", ()), ("TASK_RUNNING", (1, 3)), ("TASK_RUNNING", ()), ("TASK_FINISHED", ())]


def test_a_task_without_gpus_has_no_such_label() -> None:
    state = connected()
    sent(handle(state, run(), at()))
    handle(state, ev.Launched(key(), 42), at())
    assert all("labels" not in status for status in acknowledge_all(state))


def test_the_first_running_of_each_task_of_an_executor_says_which_cards_they_share() -> None:
    state = connected()
    tasks = hosted("t1", gpus=1), hosted("t2", gpus=1)
    handle(state, run(*tasks, info=AWARE), at())
    handle(state, ev.Launched(ECHO, 42, cards=(0, 1)), at())
    handle(state, ev.Subscribed(ECHO), at())
    for task_id, told in (("t1", "TASK_STARTING"), ("t1", "TASK_RUNNING"), ("t2", "TASK_RUNNING")):
        handle(state, replace(says(task_id, told), cards=(0, 1)), at())
    handle(state, replace(says("t1", "TASK_RUNNING", healthy=True), cards=(0, 1)), at())
    one, two = (
        [(status["state"], labelled_cards(status)) for status in acknowledge_all(state, task_id)]
        for task_id in ("t1", "t2")
    )
    assert one == [("TASK_STARTING", ()), ("TASK_RUNNING", (0, 1)), ("TASK_RUNNING", ())]
    assert two == [("TASK_RUNNING", (0, 1))]


def test_it_is_told_too_where_an_executor_says_it_again_to_an_agent_that_was_away() -> None:
    state = connected()
    handle(state, run(hosted("t1", gpus=1), info=AWARE), at())
    handle(state, ev.Launched(ECHO, 42), at())
    said = says("t1", "TASK_RUNNING")
    handle(state, ev.Subscribed(ECHO, ("t1",), (said.status,), cards=(2,)), at())  # type: ignore[arg-type]
    assert [labelled_cards(status) for status in acknowledge_all(state)] == [(2,)]


HEALTH = {"type": "COMMAND", "command": {"value": "true"}, "delay_seconds": 2}
CHECK = {"type": "COMMAND", "command": {"command": {"value": "exit 5"}}}
EMPTY, FIVE = ({"type": "COMMAND", "command": body} for body in ({}, {"exit_code": 5}))
OF_CHECKS = ("state", "reason", "healthy", "check_status")


class Life:
    """A task from its launch on; `said` collects what checks put into its updates."""

    def __init__(self, **more: Any) -> None:
        self.state: AgentState = new_state()
        self.said: list[dict[str, Any]] = []
        self.actions: list[act.Action] = []
        self.records: list[dict[str, Any]] = []
        self.info = task(**more)
        self.handle(ev.Registered())
        self.handle(run(self.info, info=framework(*ALL_CAPABILITIES)))
        self.handle(ev.Launched(key(), 42))

    def handle(self, event: ev.Event, mono_s: float = 0.0) -> list[act.Action]:
        """Handle an event and acknowledge whatever is sent."""
        actions = handle(self.state, event, at(mono_s))
        done = list(actions)
        for action in done:  # grows meanwhile
            if isinstance(action, Forward):
                status = action.status
                self.said.append({name: status[name] for name in OF_CHECKS if name in status})
                done += handle(self.state, ev.Acknowledged(key(), status["uuid"]), at(mono_s))
        self.actions += done
        self.records += [action.record for action in done if isinstance(action, act.Log)]
        return done


def test_a_healthy_task_is_told_as_recorded() -> None:
    life = Life(health_check=HEALTH, check=CHECK)
    (begin,) = (action for action in life.actions if isinstance(action, act.BeginChecks))
    assert [course.due_s for course in begin.courses] == [15.0, 2.0]
    life.handle(ev.Checked(key(), CheckNews(FIVE)))
    life.handle(ev.Checked(key(), HealthNews(True)))
    life.handle(ev.KillTask(key()))
    life.handle(ev.Ended(key(), Termination(signal=9)))
    assert life.said == [
        {"state": "TASK_STARTING", "check_status": EMPTY},
        {"state": "TASK_RUNNING", "check_status": EMPTY},
        {"state": "TASK_RUNNING", "reason": "REASON_TASK_CHECK_STATUS_UPDATED", "check_status": FIVE},
        {
            "state": "TASK_RUNNING",
            "reason": "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED",
            "healthy": True,
            "check_status": FIVE,
        },
        {"state": "TASK_KILLING", "check_status": EMPTY},
        {"state": "TASK_KILLED", "check_status": EMPTY},
    ]


def test_a_sick_task_is_killed_and_told_as_recorded() -> None:
    life = Life(health_check=HEALTH, kill_policy={"grace_period": {"nanoseconds": 1_000_000_000}})
    life.handle(ev.Checked(key(), HealthNews(False)))
    actions = life.handle(ev.Checked(key(), HealthNews(False, kill=True)))
    assert [action.grace_s for action in actions if isinstance(action, act.Kill)] == [1.0]
    assert act.EndChecks(key()) in actions
    life.handle(ev.Ended(key(), Termination(signal=15)))
    reason = "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"
    assert life.said == [
        {"state": "TASK_STARTING"},
        {"state": "TASK_RUNNING"},
        {"state": "TASK_RUNNING", "reason": reason, "healthy": False},
        {"state": "TASK_RUNNING", "reason": reason, "healthy": False},
        {"state": "TASK_KILLING"},
        {"state": "TASK_KILLED", "healthy": False},
    ]


def test_nothing_is_said_of_a_task_that_is_to_end() -> None:
    life = Life(health_check=HEALTH)
    life.handle(ev.KillTask(key()))
    before = list(life.said)
    assert life.handle(ev.Checked(key(), HealthNews(False, kill=True))) == []
    assert life.said == before


def test_the_next_agent_process_checks_on_from_what_was_known() -> None:
    life = Life(health_check={**HEALTH, "delay_seconds": 30}, check=CHECK)
    life.handle(ev.Checked(key(), CheckNews(FIVE)), 20.0)
    life.handle(ev.Checked(key(), HealthNews(True)), 30.0)
    now = Moment(1000.0, at(40.0).wall_s)
    found, pending = replay(Run(FRAMEWORK_ID, "c0", life.info, tuple(life.records)), "/sandbox", now)
    assert (found.healthy, found.check_status) == (True, FIVE)
    next_process = new_state(100)
    info = life.state.frameworks.active[FRAMEWORK_ID]
    (begin,) = (a for a in adopt_task(next_process, info, found, pending, at()) if isinstance(a, act.BeginChecks))
    check, health = begin.courses
    assert (check.due_s, check.last) == (975.0, FIVE)  # 15 s after it began to run, 40 s ago
    assert (health.due_s, health.proven) == (990.0, True)


def test_a_check_that_cannot_be_done_fails_the_task_in_words(golden: Golden) -> None:
    state = new_state()
    handle(state, ev.Registered(), at())
    actions = handle(state, run(task(health_check={"type": "HTTP", "http": {"port": 1, "scheme": "gopher"}})), at())
    (status,) = (action.status for action in actions if isinstance(action, Forward))
    assert status["state"] == "TASK_FAILED"
    assert status["message"] == golden
