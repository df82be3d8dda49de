"""Checks in a task's status updates, compared with what a real Mesos said (recorded: tasks `hc` and `sick`)."""

from __future__ import annotations

from typing import Any

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
from tests.support.agent.documents import ALL_CAPABILITIES, FRAMEWORK_ID, at, framework, key, new_state, run, task
from tests.support.golden import Golden

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
