"""Waiting for a deployment, with a clock of its own."""

from __future__ import annotations

from typing import Any

import pytest

from marathon_cli.changes.rollout import app_standing, failure_text, pod_standing, reasons_of, targets_of
from marathon_cli.changes.wait import LOOKS_AFTERWARDS, PAUSE_S, SILENCE_S, KeepsFailing, Wait
from marathon_cli.clients.marathon import Change, ChangeTarget
from marathon_cli.screen.progress import Lines
from mesos_gpu.errors import Conflict, NotFound, TimeIsUp, Unavailable
from tests.support.golden import Golden

PLAN = {"id": "d", "currentStep": 1, "totalSteps": 2, "currentActions": [{"action": "ScaleApplication", "app": "/a"}]}
FAILURE = {"taskId": "a.1", "host": "h", "state": "TASK_FAILED", "message": "exit status 1"}
OLD, NEW, LATER = (f"2026-01-0{day}T00:00:00.000Z" for day in (1, 2, 3))
Moment = tuple[list[dict[str, Any]], dict[str, Any] | None]


class Screen(Lines):
    """Keeps what would be said."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self.say = said.append  # type: ignore[method-assign]


class World:
    """A Marathon that goes through moments, one per sleep; time passes while sleeping. None of an app: not there."""

    def __init__(self, *moments: Moment | Exception, queue: list[dict[str, Any]] | None = None) -> None:
        self.moments, self.waiting = list(moments), queue or []
        self.said: list[str] = []
        self.time_s = 0.0
        self.version: str | None = None

    def _now(self) -> Moment:
        moment = self.moments[0]
        if isinstance(moment, Exception):
            raise moment
        return moment

    def deployments(self, *, blockers: bool) -> list[dict[str, Any]]:
        assert blockers
        return self._now()[0]

    def app(self, app_id: str) -> dict[str, Any]:
        app = self._now()[1]
        if app is None:
            raise NotFound(app_id)
        return app

    def queue(self) -> list[dict[str, Any]]:
        return self.waiting

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        if len(self.moments) > 1:
            self.moments.pop(0)

    def wait(self, timeout_s: float = 0, *, removing: bool = False, give_up: bool = False) -> None:
        targets, change = [ChangeTarget("app", "/a", removing)], Change("d", self.version)
        wait = Wait(self, change, targets, Screen(self.said), lambda: self.time_s, self.sleep, None, give_up)  # type: ignore[arg-type]
        wait.until_done(timeout_s)


def app(running: int = 0, *states: str, **fields: Any) -> dict[str, Any]:
    return {"instances": 1, "tasksRunning": running, "tasks": [{"state": state} for state in states], **fields}


def test_progress_is_told_once_per_change(golden: Golden) -> None:
    world = World(([PLAN], app()), ([PLAN], app()), ([PLAN], app(0, "TASK_STAGING")), ([], app(1, "TASK_RUNNING")))
    world.wait()
    assert world.said == golden


def test_an_upgrade_that_waits_for_its_own_gpus_is_told_once(golden: Golden) -> None:
    plan = {**PLAN, "blockers": [{"app": "/a", "message": "2 new instances wait."}]}
    world = World(([plan], app()), ([plan], app()), ([], app(1)))
    world.wait()
    assert [text for text in world.said if "mesos-gpu why /a" in text] == golden


def test_each_failure_is_told_as_it_comes(golden: Golden) -> None:
    again = {**FAILURE, "taskId": "a.2"}
    world = World(([PLAN], app(lastTaskFailure=FAILURE)), ([PLAN], app(lastTaskFailure=again)), ([], app(1)))
    world.wait()
    assert [text for text in world.said if text.startswith("task")] == golden


def failing(task: int, *, version: str = NEW, **fields: Any) -> Moment:
    failure = {**FAILURE, "taskId": f"a.{task}", "timestamp": LATER, "version": version}
    return [PLAN], app(lastTaskFailure=failure, **fields)


def test_who_wants_to_lead_back_does_not_wait_for_a_third_failure_in_vain(golden: Golden) -> None:
    world = World(failing(1), failing(1), failing(2), failing(2), failing(3), failing(4))
    world.version = NEW
    with pytest.raises(KeepsFailing) as caught:
        world.wait(100, give_up=True)
    assert str(caught.value).splitlines() == golden


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param([failing(1), failing(2)], id="two may be an accident"),
        pytest.param([failing(n, version=OLD) for n in range(9)], id="tasks of the version before"),
        pytest.param([failing(1)] * 9, id="one failure, seen again and again"),
    ],
)
def test_what_does_not_show_that_a_deployment_fails_is_waited_for(moments: list[Moment]) -> None:
    world = World(*moments)
    world.version = NEW
    with pytest.raises(TimeIsUp):
        world.wait(100, give_up=True)


def test_a_task_that_is_ready_for_a_moment_only_is_no_success() -> None:
    flash = {"running": 1}
    world = World(failing(1, **flash), failing(1), failing(2, **flash), failing(2), failing(3, **flash))
    world.version = NEW
    with pytest.raises(KeepsFailing):
        world.wait(100, give_up=True)


def test_failures_beside_something_that_is_ready_do_not_count() -> None:
    ready = {"running": 1, "instances": 2}
    world = World(failing(1), failing(2), failing(2, **ready), failing(3, **ready), failing(4), failing(5))
    world.version = NEW
    with pytest.raises(TimeIsUp):
        world.wait(100, give_up=True)


def test_who_does_not_want_to_lead_back_waits_on() -> None:
    with pytest.raises(TimeIsUp):
        World(*map(failing, range(9))).wait(100)


def test_the_last_failed_instance_of_a_pod_is_its_failure(golden: Golden) -> None:
    def ended(name: str, second: int, state: str) -> dict[str, Any]:
        container = {"containerId": f"p.{name}.c", "lastKnownState": state, "termination": {"message": "exit status 1"}}
        return {
            "instanceID": f"p.{name}",
            "terminatedAt": f"2026-01-01T00:00:0{second}.000Z",
            "containers": [container],
        }

    history = [ended("i1", 3, "TASK_FINISHED"), ended("i2", 2, "TASK_FAILED"), ended("i3", 1, "TASK_FAILED")]
    failure = pod_standing({"id": "/p", "terminationHistory": history}).failure
    assert failure is not None
    assert failure_text(failure) == golden
    assert pod_standing({"id": "/p", "terminationHistory": history[:1]}).failure is None


def test_when_time_is_up_the_last_failure_and_the_reasons_are_given(golden: Golden) -> None:
    summary = {
        "rejectSummaryLastOffers": [
            {"reason": "InsufficientGpus", "declined": 2, "processed": 2},
            {"reason": "InsufficientCpus", "declined": 0},
        ]
    }
    item = {"app": {"id": "/a"}, "delay": {"timeLeftSeconds": 3}, "processedOffersSummary": summary}
    world = World(([PLAN], app(lastTaskFailure=FAILURE)), queue=[item])
    with pytest.raises(TimeIsUp) as caught:
        world.wait(10)
    assert str(caught.value).splitlines() == golden


def test_an_app_that_no_offer_reached_says_so(golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        World(([PLAN], app()), queue=[{"app": {"id": "/a"}}]).wait(1)
    assert str(refused.value) == golden


def test_a_reason_without_words_is_given_as_it_is() -> None:
    summary = {"rejectSummaryLastOffers": [{"reason": "NewReason", "declined": 1}]}
    assert reasons_of({"processedOffersSummary": summary}) == ["NewReason"]


@pytest.mark.parametrize(
    ("reason", "app", "named"),
    [
        ("InsufficientPorts", {"portDefinitions": [{"port": 88}], "requirePorts": True}, "88"),
        ("InsufficientGpus", {"gpuShare": {"memGiB": 40}}, "40 GiB"),
    ],
)
def test_a_reason_names_the_ports_and_the_share_that_were_requested(
    reason: str, app: dict[str, Any], named: str
) -> None:
    summary = {"rejectSummaryLastOffers": [{"reason": reason, "declined": 1}]}
    (words,) = reasons_of({"app": {"id": "/a", **app}, "processedOffersSummary": summary})
    assert named in words


def test_a_deployment_that_left_no_app_was_given_up(golden: Golden) -> None:
    with pytest.raises(Conflict) as refused:
        World(([PLAN], app()), ([], None)).wait()
    assert str(refused.value) == golden


def test_a_deployment_that_another_one_replaced_is_no_success(golden: Golden) -> None:
    with pytest.raises(Conflict) as refused:
        World(([{"id": "e"}], app(deployments=[{"id": "e"}]))).wait()
    assert str(refused.value) == golden


def test_a_removal_is_done_when_the_app_is_gone() -> None:
    World(([PLAN], app(1)), ([], None)).wait(removing=True)


def test_a_removal_that_left_the_app_was_given_up(golden: Golden) -> None:
    with pytest.raises(Conflict) as refused:
        World(([], app(1))).wait(removing=True)
    assert str(refused.value) == golden


def test_a_marathon_that_restarts_is_waited_for(golden: Golden) -> None:
    world = World(([PLAN], app()), Unavailable("down"), Unavailable("down"), ([], app(1)))
    world.wait()
    assert world.said[1:] == golden


def test_a_marathon_that_stays_away_ends_the_wait() -> None:
    world = World(Unavailable("down"))
    with pytest.raises(Unavailable, match="down"):
        world.wait()
    assert world.time_s > SILENCE_S


def test_a_deployment_that_was_stopped_is_no_success(golden: Golden) -> None:
    with pytest.raises(Conflict) as refused:
        World(([PLAN], app()), ([], app()), queue=[{"app": {"id": "/a"}, "delay": {"timeLeftSeconds": 0}}]).wait()
    assert str(refused.value) == golden


def test_tasks_of_the_old_version_that_are_left_are_no_success(golden: Golden) -> None:
    tasks = [{"state": "TASK_RUNNING", "version": "2026-01-01"}, {"state": "TASK_RUNNING", "version": "2026-01-02"}]
    mixed = {"instances": 1, "tasksRunning": 2, "tasks": tasks, "versionInfo": {"lastConfigChangeAt": "2026-01-02"}}
    with pytest.raises(Conflict) as refused:
        World(([PLAN], mixed), ([], mixed)).wait()
    assert str(refused.value) == golden


def test_a_task_that_has_finished_by_now_is_success_all_the_same(golden: Golden) -> None:
    world = World(([PLAN], app(0, "TASK_STARTING")), ([], app(0, "TASK_FINISHED")), queue=[{"app": {"id": "/a"}}])
    world.wait()
    assert world.said[-1] == golden


def test_a_deployment_that_marathon_takes_for_done_while_its_tasks_fail_is_no_success(golden: Golden) -> None:
    world = World(([PLAN], app()), ([], failing(1)[1]), queue=[{"app": {"id": "/a"}}])
    with pytest.raises(KeepsFailing) as refused:
        world.wait()
    assert str(refused.value) == golden


def test_after_a_failure_it_is_looked_on_whether_the_next_task_stays(golden: Golden) -> None:
    good, bad = ([], failing(1, running=1)[1]), ([], failing(2)[1])
    with pytest.raises(KeepsFailing) as refused:
        World(failing(1), good, good, bad).wait()
    assert str(refused.value) == golden
    world = World(failing(1), good)
    world.wait()
    assert world.said[-1] == golden
    assert world.time_s == PAUSE_S * (1 + LOOKS_AFTERWARDS)


def test_who_wants_to_lead_back_looks_on_in_any_case(golden: Golden) -> None:
    good, bad = ([], app(1, "TASK_RUNNING")), ([], failing(1)[1])
    with pytest.raises(KeepsFailing) as refused:
        World(([PLAN], app()), good, good, bad).wait(give_up=True)
    assert str(refused.value) == golden
    world = World(([PLAN], app()), good, good, bad)
    world.wait()
    assert world.said[-1] == golden


def test_the_apps_of_a_deployment_are_those_it_names_and_removed_ones_are_to_be_gone() -> None:
    steps = [
        {"actions": [{"action": "StopApplication", "app": "/b"}]},
        {"actions": [{"action": "StartPod", "pod": "/p"}]},
    ]
    found = targets_of({"affectedApps": ["/a", "/b"], "affectedPods": ["/p"], "steps": steps})
    assert found == [ChangeTarget("app", "/a"), ChangeTarget("app", "/b", gone=True), ChangeTarget("pod", "/p")]


def test_a_pod_is_ready_when_its_instances_are_stable(golden: Golden) -> None:
    spec = {"version": "2026-01-02", "scaling": {"instances": 3}}
    instances = [
        {"status": "STABLE", "specReference": "/v2/pods/p::versions/2026-01-02"},
        {"status": "STABLE", "specReference": "/v2/pods/p::versions/2026-01-01"},
        {"status": "STAGING", "specReference": "/v2/pods/p::versions/2026-01-02"},
    ]
    standing = pod_standing({"id": "/p", "spec": spec, "instances": instances})
    assert (standing.wanted, standing.ready, standing.running, standing.old) == (3, 1, 2, 1)
    assert standing.text == golden


def test_an_app_with_health_checks_is_ready_when_they_pass() -> None:
    tasks = [{"state": "TASK_RUNNING", "healthCheckResults": [{"alive": alive}]} for alive in (True, False)]
    tasks.append({"state": "TASK_RUNNING"})
    checked = {"id": "/a", "instances": 3, "tasksRunning": 3, "healthChecks": [{}], "tasks": tasks}
    assert app_standing(checked).ready == 1
    assert app_standing({**checked, "tasks": [], "tasksHealthy": 2}).ready == 2


def test_an_old_failure_is_not_told_again() -> None:
    old = {**FAILURE, "timestamp": "2026-01-01"}
    world = World(([PLAN], app(lastTaskFailure=old)), ([], app(1, lastTaskFailure=old)))
    world.version = "2026-01-02"
    world.wait()
    assert [text for text in world.said if "exit status" in text] == []


def test_time_is_up_also_while_marathon_is_away(golden: Golden) -> None:
    with pytest.raises(TimeIsUp) as refused:
        World(([PLAN], app()), Unavailable("down")).wait(1)
    assert str(refused.value) == golden
