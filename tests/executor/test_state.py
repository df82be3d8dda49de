"""The default executor's decisions, event by event."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions.handle import begin, handle
from mesos_gpu.executor.decisions.state import ExecutorState, Setting
from mesos_gpu.mesos.checks import Result
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.tasks import is_terminal
from tests.support.golden import Golden
from tests.support.histories import examples

INFO = {
    "executor_info": {"executor_id": {"value": "pod"}, "type": "DEFAULT"},
    "framework_info": {"capabilities": [{"type": "TASK_KILLING_STATE"}]},
    "container_id": {"value": "top"},
}


def task(task_id: str, **more: Any) -> dict[str, Any]:
    resources = [{"name": "cpus", "allocation_info": {"role": "ops"}}]
    return {"task_id": {"value": task_id}, "command": {"value": "sleep 1"}, "resources": resources, **more}


class Playing:
    """A state with a clock, and what it says and does by kind."""

    def __init__(self, **setting: Any) -> None:
        uuids, ids = itertools.count(), itertools.count()
        self.state = ExecutorState(
            Setting(recovery_s=900.0, **setting), new_uuid=lambda: f"u{next(uuids)}", new_id=lambda: f"c{next(ids)}"
        )
        self.now_s = 0.0
        assert begin() == [ev.Subscribe((), ())]
        self.do(ev.Subscribed(INFO))

    def do(self, event: ev.Event, after_s: float = 0.0) -> list[ev.Action]:
        self.now_s += after_s
        return handle(self.state, event, Moment(self.now_s, 1000.0 + self.now_s))

    def run(self, *tasks: dict[str, Any]) -> None:
        """Launch a group and have all its containers run."""
        launched = [a.container_id for a in self.do(ev.Launch(tasks)) if isinstance(a, ev.LaunchContainer)]
        for container_id in launched:
            self.do(ev.Launched(container_id))


@pytest.fixture
def play() -> Playing:
    return Playing()


def said(actions: list[ev.Action]) -> list[tuple[str, str]]:
    return [(a.status["task_id"]["value"], a.status["state"]) for a in actions if isinstance(a, ev.Update)]


def signals(actions: list[ev.Action]) -> list[tuple[str, int]]:
    return [(a.container_id, a.number) for a in actions if isinstance(a, ev.SignalContainer)]


def exits(actions: list[ev.Action]) -> list[int]:
    return [action.status for action in actions if isinstance(action, ev.Exit)]


def test_a_group_starts_all_its_tasks_and_each_is_told(play: Playing) -> None:
    actions = play.do(ev.Launch((task("a"), task("b"))))
    assert said(actions) == [("a", "TASK_STARTING"), ("b", "TASK_STARTING")]
    launches = [action for action in actions if isinstance(action, ev.LaunchContainer)]
    assert [launch.environment for launch in launches] == [{"MESOS_ALLOCATION_ROLE": "ops"}] * 2
    assert [a.task_id for a in actions if isinstance(a, ev.LinkSandbox)] == ["a", "b"]
    actions = play.do(ev.Launched("c0"))
    assert said(actions) == [("a", "TASK_RUNNING")]
    status = next(a.status for a in actions if isinstance(a, ev.Update))
    assert status["container_status"] == {"container_id": {"value": "c0", "parent": {"value": "top"}}}
    assert status["executor_id"] == {"value": "pod"}


def test_the_end_of_a_task_in_words_and_the_exit_once_all_is_acknowledged(play: Playing, golden: Golden) -> None:
    play.run(task("a"), task("b"))
    actions = play.do(ev.Ended("c0", {"exit_status": 0}))
    assert said(actions) == [("a", "TASK_FINISHED")]
    assert next(a.status["message"] for a in actions if isinstance(a, ev.Update)) == golden
    assert signals(actions) == []
    actions = play.do(ev.Ended("c1", {"exit_status": 3 << 8}))
    assert said(actions) == [("b", "TASK_FAILED")]
    assert exits(actions) == []
    for number in range(5):
        play.do(ev.Acknowledged("a", f"u{number}"))
    assert exits(play.do(ev.Acknowledged("b", "u5"))) == [0]


def test_without_the_last_acknowledgement_it_ends_after_a_minute(play: Playing) -> None:
    play.run(task("a"))
    play.do(ev.Ended("c0", {"exit_status": 0}))
    assert play.state.next_due_s == 60.0
    assert exits(play.do(ev.Tick(), after_s=60.0)) == [1]


def test_a_task_that_fails_takes_its_group_along_and_no_other(play: Playing) -> None:
    play.run(task("a"), task("b"))
    play.run(task("other"))
    actions = play.do(ev.Ended("c0", {"exit_status": 256}))
    assert said(actions) == [("a", "TASK_FAILED"), ("b", "TASK_KILLING")]
    assert signals(actions) == [("c1", 15)]
    assert said(play.do(ev.Ended("c1", {"exit_status": 15}))) == [("b", "TASK_KILLED")]
    assert play.state.next_due_s is None


def test_a_kill_is_term_then_kill_and_a_repeated_one_can_only_shorten_the_grace(play: Playing) -> None:
    play.run(task("a", kill_policy={"grace_period": {"nanoseconds": 7_000_000_000}}))
    assert signals(play.do(ev.Kill("a"))) == [("c0", 15)]
    assert play.state.next_due_s == 7.0
    play.do(ev.Kill("a", 30.0))
    assert play.state.next_due_s == 7.0
    play.do(ev.Kill("a", 2.0))
    assert play.state.next_due_s == 2.0
    assert signals(play.do(ev.Tick(), after_s=2.0)) == [("c0", 9)]
    assert said(play.do(ev.Ended("c0", {"exit_status": 9}))) == [("a", "TASK_KILLED")]


def test_a_task_killed_while_it_is_launched_is_signalled_as_soon_as_it_runs(play: Playing) -> None:
    play.do(ev.Launch((task("a"),)))
    assert signals(play.do(ev.Kill("a"))) == []
    actions = play.do(ev.Launched("c0"))
    assert signals(actions) == [("c0", 15)]
    assert said(actions) == []
    assert said(play.do(ev.Ended("c0", {"exit_status": 0}))) == [("a", "TASK_KILLED")]


def test_a_task_killed_while_it_is_launched_wants_no_tick_that_could_do_nothing(play: Playing) -> None:
    """Its agent may be away, or pull an image for hours: the program would look without pause all the while."""
    play.do(ev.Launch((task("a"),)))
    play.do(ev.Kill("a", 2.0))
    assert play.state.next_due_s is None
    play.do(ev.Tick(), after_s=10.0)
    assert signals(play.do(ev.Launched("c0"))) == [("c0", 9)]


def test_a_kill_while_the_image_is_pulled_gives_the_pull_up(play: Playing) -> None:
    image = {"mesos": {"image": {"docker": {"name": "large"}}}}
    play.do(ev.Launch((task("a", container=image),)))
    assert signals(play.do(ev.Kill("a"))) == [("c0", 9)]
    actions = play.do(ev.LaunchFailed("c0", "it was ended while its image was pulled"))
    assert said(actions) == [("a", "TASK_KILLED")]


def test_a_launch_that_fails_is_the_agents_words_and_the_end_of_the_group(play: Playing, golden: Golden) -> None:
    play.do(ev.Launch((task("a"), task("b"))))
    play.do(ev.Launched("c1"))
    actions = play.do(ev.LaunchFailed("c0", "no such image"))
    assert said(actions) == [("a", "TASK_FAILED"), ("b", "TASK_KILLING")]
    status = next(a.status for a in actions if isinstance(a, ev.Update))
    assert status["message"] == golden
    assert status["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"


def test_what_the_agent_says_of_a_limit_is_passed_on(play: Playing) -> None:
    play.run(task("a"))
    end = {
        "exit_status": 9,
        "reason": "REASON_CONTAINER_LIMITATION_MEMORY",
        "state": "TASK_FAILED",
        "message": "too much",
    }
    status = next(a.status for a in play.do(ev.Ended("c0", end)) if isinstance(a, ev.Update))
    assert (status["state"], status["reason"], status["message"]) == (
        "TASK_FAILED",
        "REASON_CONTAINER_LIMITATION_MEMORY",
        "too much",
    )


def test_a_task_may_only_run_for_so_long(play: Playing) -> None:
    play.run(task("a", max_completion_time={"nanoseconds": 5_000_000_000}))
    assert play.state.next_due_s == 5.0
    assert signals(play.do(ev.Tick(), after_s=5.0)) == [("c0", 9)]
    status = next(a.status for a in play.do(ev.Ended("c0", {"exit_status": 9})) if isinstance(a, ev.Update))
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_MAX_COMPLETION_TIME_REACHED")


def test_a_health_check_is_told_and_kills(play: Playing) -> None:
    check = {
        "type": "TCP",
        "tcp": {"port": 80},
        "delay_seconds": 1,
        "grace_period_seconds": 0,
        "consecutive_failures": 1,
    }
    play.run(task("a", health_check=check))
    (look,) = play.do(ev.Tick(), after_s=1.0)
    assert isinstance(look, ev.Look)
    actions = play.do(ev.Probed("c0", look.check, Result(connected=True)))
    assert next(a.status["healthy"] for a in actions if isinstance(a, ev.Update)) is True
    play.do(ev.Tick(), after_s=10.0)
    actions = play.do(ev.Probed("c0", look.check, Result(connected=False)))
    assert signals(actions) == [("c0", 15)]
    status = next(a.status for a in play.do(ev.Ended("c0", {"exit_status": 15})) if isinstance(a, ev.Update))
    assert (status["state"], status["healthy"]) == ("TASK_KILLED", False)


def check(**more: Any) -> dict[str, Any]:
    return {"type": "COMMAND", "command": {"command": {"value": "true"}}, "delay_seconds": 0.0, **more}


def test_a_check_is_told_when_it_says_something_new_and_never_kills(play: Playing) -> None:
    play.run(task("t", check=check()))
    [look] = [action for action in play.do(ev.Tick()) if isinstance(action, ev.Look)]
    [told] = play.do(ev.Probed("c0", look.check, Result(0)))
    assert isinstance(told, ev.Update)
    assert told.status["check_status"]["command"] == {"exit_code": 0}
    assert told.status["reason"] == "REASON_TASK_CHECK_STATUS_UPDATED"
    play.do(ev.Tick(), after_s=60)
    assert play.do(ev.Probed("c0", 0, Result(0))) == [], "nothing new"
    play.do(ev.Tick(), after_s=60)
    [told] = play.do(ev.Probed("c0", 0, Result(7)))
    assert isinstance(told, ev.Update)
    assert (told.status["state"], told.status["check_status"]["command"]) == ("TASK_RUNNING", {"exit_code": 7})
    [ended, *_] = play.do(ev.Ended("c0", {"exit_status": 0}))
    assert isinstance(ended, ev.Update)
    assert ended.status["check_status"]["command"] == {}, "no check looks at a task that is over"


def test_a_probe_of_what_is_gone_or_found_nothing_is_nothing(play: Playing) -> None:
    play.run(task("t", check=check()))
    for late in (ev.Probed("gone", 0, Result(0)), ev.Probed("c0", 5, Result(0)), ev.Probed("c0", 0, None)):
        assert play.do(late) == []


def test_a_task_whose_check_cannot_be_understood_is_killed_with_the_reason(play: Playing) -> None:
    [launched] = [
        a for a in play.do(ev.Launch((task("t", check={"type": "TCP"}),))) if isinstance(a, ev.LaunchContainer)
    ]
    actions = play.do(ev.Launched(launched.container_id))
    assert [a.status["state"] for a in actions if isinstance(a, ev.Update)] == ["TASK_RUNNING", "TASK_KILLING"]
    assert "message" in next(a.status for a in actions if isinstance(a, ev.Update))
    assert [a.number for a in actions if isinstance(a, ev.SignalContainer)] == [9]


def test_news_of_a_container_that_is_gone_change_nothing(play: Playing) -> None:
    play.run(task("t"))
    for stray in (
        ev.Launched("gone"),
        ev.Launched("c0"),
        ev.LaunchFailed("gone", "x"),
        ev.Ended("gone", {"exit_status": 0}),
        ev.Kill("gone"),
    ):
        assert play.do(stray) == []


def test_no_group_is_launched_while_it_shuts_down(play: Playing) -> None:
    play.run(task("t"))
    play.do(ev.Shutdown())
    assert play.do(ev.Launch((task("late"),))) == []


def test_a_task_of_no_role_is_told_none(play: Playing) -> None:
    actions = play.do(ev.Launch((task("t", resources=[{"name": "cpus"}]),)))
    assert [a.environment for a in actions if isinstance(a, ev.LaunchContainer)] == [{}]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ({"exit_status": 0}, "TASK_FINISHED"),
        ({"exit_status": 3 << 8}, "TASK_FAILED"),
        ({"exit_status": 11}, "TASK_FAILED"),
        ({"exit_status": 0, "reason": "REASON_CONTAINER_LIMITATION"}, "TASK_FAILED"),
        ({"exit_status": 9, "state": "TASK_FAILED", "message": "too much"}, "TASK_FAILED"),
        ({"exit_status": 0, "state": "TASK_FINISHED"}, "TASK_FINISHED"),
        ({"state": "TASK_LOST"}, "TASK_LOST"),
        ({}, "TASK_FAILED"),
    ],
)
def test_an_end_is_a_state_and_a_message(play: Playing, end: dict[str, Any], state: str, golden: Golden) -> None:
    play.run(task("t"))
    [told, *_] = play.do(ev.Ended("c0", end))
    assert isinstance(told, ev.Update)
    assert told.status["state"] == state
    if "exit_status" in end:
        assert told.status["message"] == golden
    else:
        assert "message" not in told.status


def test_an_agent_that_is_found_gone_too_late_is_given_up_at_once(play: Playing, golden: Golden) -> None:
    play.run(task("t"))
    play.do(ev.Disconnected())
    assert play.do(ev.Disconnected(), after_s=901) == [ev.Exit(1, golden)]


def test_without_its_agent_it_keeps_what_is_to_be_said_and_says_it_at_the_next_subscription(play: Playing) -> None:
    play.run(task("a"), task("b"))
    play.do(ev.Acknowledged("b", "u1"))
    (again,) = play.do(ev.Disconnected())
    assert isinstance(again, ev.Subscribe)
    assert [one["task_id"]["value"] for one in again.tasks] == ["a"]
    assert said(play.do(ev.Ended("c0", {"exit_status": 0}))) == []
    (again,) = play.do(ev.Disconnected(), after_s=1.0)
    assert isinstance(again, ev.Subscribe)
    assert [u["status"]["state"] for u in again.updates][-1] == "TASK_FINISHED"
    play.do(ev.Kill("b"))
    actions = play.do(ev.Subscribed(INFO))
    assert actions == [ev.WaitContainer("c1"), ev.SignalContainer("c1", 15)]


def test_an_agent_that_stays_away_is_given_up(play: Playing) -> None:
    play.run(task("a"))
    play.do(ev.Disconnected())
    assert play.state.next_due_s == 900.0
    assert exits(play.do(ev.Tick(), after_s=900.0)) == [1]


def test_without_checkpointing_it_ends_with_its_agent() -> None:
    state = ExecutorState(Setting(recovery_s=None), new_uuid=lambda: "u", new_id=lambda: "c")
    handle(state, ev.Subscribed(INFO), Moment(0.0, 0.0))
    assert exits(handle(state, ev.Disconnected(), Moment(0.0, 0.0))) == [1]


def test_a_shutdown_ends_all_tasks_within_its_own_grace_and_then_itself(play: Playing) -> None:
    play.run(task("a", kill_policy={"grace_period": {"nanoseconds": 60_000_000_000}}))
    assert signals(play.do(ev.Shutdown())) == [("c0", 15)]
    assert play.state.next_due_s == 3.0
    play.do(ev.Ended("c0", {"exit_status": 15}))
    assert exits(Playing().do(ev.Shutdown())) == [0]


class AnyHistory(RuleBasedStateMachine):
    """Groups, kills, ends, lost and found agents in any order: each task ends once, and a bad end ends its group."""

    def __init__(self) -> None:
        super().__init__()
        self.play = Playing()
        self.numbers = itertools.count()
        self.launching: set[str] = set()
        self.running: set[str] = set()
        self.done = False
        self.bad: set[int] = set()
        """Groups of which a task ended other than well."""

    def do(self, event: ev.Event, after_s: float = 0.0) -> None:
        if self.done:
            return
        for action in self.play.do(event, after_s):
            if isinstance(action, ev.LaunchContainer):
                self.launching.add(action.container_id)
            elif isinstance(action, ev.SignalContainer):
                assert action.container_id in self.running
            elif isinstance(action, ev.Exit):
                self.done = True

    @rule(size=st.integers(1, 3))
    def launch(self, size: int) -> None:
        self.do(ev.Launch(tuple(task(f"t{next(self.numbers)}") for _ in range(size))))

    @rule(data=st.data(), works=st.booleans())
    def comes_up(self, data: st.DataObject, works: bool) -> None:
        if self.launching and not self.done:
            container_id = data.draw(st.sampled_from(sorted(self.launching)))
            self.launching.discard(container_id)
            if works:
                self.running.add(container_id)
            else:
                self.bad.add(self.play.state.containers[container_id].group)
            self.do(ev.Launched(container_id) if works else ev.LaunchFailed(container_id, "no"))

    @rule(data=st.data(), status=st.sampled_from((0, 9, 256)))
    def ends(self, data: st.DataObject, status: int) -> None:
        if self.running and not self.done:
            container_id = data.draw(st.sampled_from(sorted(self.running)))
            self.running.discard(container_id)
            one = self.play.state.containers[container_id]
            if status or one.why is not None:
                self.bad.add(one.group)
            self.do(ev.Ended(container_id, {"exit_status": status}))

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        if self.play.state.containers:
            one = data.draw(st.sampled_from(list(self.play.state.containers.values())))
            self.do(ev.Kill(one.task_id))

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.do(ev.Tick(), seconds)
        due_s = self.play.state.next_due_s
        assert self.done or due_s is None or due_s > self.play.now_s

    @rule(back=st.booleans())
    def agent(self, back: bool) -> None:
        self.do(ev.Subscribed(INFO) if back else ev.Disconnected())

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if self.done:
            return
        known = set(self.play.state.containers)
        assert known == self.launching | self.running
        terminal: dict[str, int] = {}
        for update in self.play.state.unacknowledged.updates.values():
            status = update["status"]
            if is_terminal(status["state"]):
                name = status["task_id"]["value"]
                terminal[name] = terminal.get(name, 0) + 1
        assert all(count == 1 for count in terminal.values())
        rest = [one for one in self.play.state.containers.values() if one.group in self.bad]
        assert all(one.why is not None for one in rest)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=examples(60), stateful_step_count=40)
