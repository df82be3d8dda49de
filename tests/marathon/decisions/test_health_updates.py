"""Health checks, pure: results, grace, when a task ends, and what deployments make of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.model.health import Health, ignores_failure, must_end, verdict
from mesos_gpu.marathon.state.actions import Acknowledge, Kill, Publish
from mesos_gpu.marathon.state.events import HealthChecked, ReadinessChecked
from mesos_gpu.marathon.views.views import app_view, deployment_view, task_views
from tests.support.marathon.builders import T0, Run, app, only, status

HTTP = {"protocol": "HTTP", "gracePeriodSeconds": 10, "maxConsecutiveFailures": 2}
READY = {"portName": "default", "preserveLastResponse": True}


@pytest.fixture
def run() -> Run:
    made = Run()
    made.subscribe()
    return made


def check(protocol: str = "HTTP", limit: int = 3, grace: float = 300) -> dict[str, Any]:
    return {"protocol": protocol, "maxConsecutiveFailures": limit, "gracePeriodSeconds": grace}


def kinds(actions: Any) -> list[str]:
    return [publish.kind for publish in only(actions, Publish)]


@given(st.lists(st.booleans()))
def test_results_add_up_to_the_last_streak(results: list[bool]) -> None:
    health = Health()
    for n, alive in enumerate(results):
        health = health.after_success(n) if alive else health.after_failure(n, "no")
    streak = next((n for n, alive in enumerate(reversed(results)) if alive), len(results))
    assert health.consecutive_failures == streak
    assert health.alive is (bool(results) and results[-1])
    assert (health.first_success_s is None) is (True not in results)


@pytest.mark.parametrize(
    ("protocol", "limit", "ends_at"),
    [("HTTP", 3, 4), ("TCP", 1, 2), ("HTTP", 0, None), ("COMMAND", 3, 3), ("MESOS_HTTP", 0, 1)],
)
def test_the_failure_that_ends_a_task(protocol: str, limit: int, ends_at: int | None) -> None:
    health = Health()
    for number in range(1, 10):
        after = health.after_failure(number, "no")
        if must_end(check(protocol, limit), health, after):
            assert number == ends_at
            return
        health = after
    assert ends_at is None


def test_failures_count_after_grace_or_the_first_success() -> None:
    assert ignores_failure(check(grace=10), Health(), None, 100)
    assert ignores_failure(check(grace=10), Health(), 95, 100)
    assert not ignores_failure(check(grace=10), Health(), 90, 100)
    assert not ignores_failure(check(grace=10), Health().after_success(96), 95, 100)


def test_a_task_is_healthy_when_every_result_is() -> None:
    good, bad = Health().after_success(1), Health().after_failure(1, "no")
    assert verdict(None) is None
    assert verdict({}) is None
    assert verdict({0: good, 1: good}) is True
    assert verdict({0: good, 1: bad}) is False


def test_a_deployment_waits_until_its_tasks_are_healthy(run: Run) -> None:
    run.put(app(healthChecks=[HTTP]))
    run.run_all()
    (task,) = run.tasks()
    assert run.state.lasting.deployments, "it runs, and nobody knows yet whether it is well"
    actions = run.do(HealthChecked(task, 0, alive=True))
    assert {"health_status_changed_event", "instance_health_changed_event", "deployment_success"} <= set(kinds(actions))
    assert not run.state.lasting.deployments
    shown = app_view(run.state, next(iter(run.state.apps())))
    assert (shown["tasksHealthy"], shown["tasksUnhealthy"]) == (1, 0)


def test_a_task_that_stays_unhealthy_is_ended_and_the_reason_is_told(run: Run) -> None:
    run.put(app(healthChecks=[HTTP]))
    run.run_all()
    (task,) = run.tasks()
    assert not only(run.do(HealthChecked(task, 0, alive=False, cause="refused"), after_s=5), Publish), "within grace"
    run.do(HealthChecked(task, 0, alive=True))
    for _ in range(2):
        actions = run.do(HealthChecked(task, 0, alive=False, cause="refused"), after_s=1)
        assert "failed_health_check_event" in kinds(actions)
        assert not only(actions, Kill)
    actions = run.do(HealthChecked(task, 0, alive=False, cause="refused"), after_s=1)
    assert [kill.task_id for kill in only(actions, Kill)] == [task]
    (told,) = [p for p in only(actions, Publish) if p.kind == "unhealthy_instance_kill_event"]
    assert told.fields["reason"] == "refused"
    (shown,) = task_views(run.state.lasting.instances.values(), health=run.state.health)
    (result,) = shown["healthCheckResults"]
    assert result["consecutiveFailures"] == 3
    assert result["alive"] is False
    assert result["lastFailureCause"] == "refused"
    run.do(status(task, "TASK_KILLED"))
    assert not run.state.health, "what was known went with the task"
    assert run.state.waiting, "another takes its place"


def test_grace_is_over_in_time_though_the_clock_of_the_agent_is_days_ahead(run: Run) -> None:
    run.put(app(healthChecks=[HTTP]))
    run.offer()
    (task,) = run.tasks()
    run.do(status(task, timestamp=run.now_s + 178_809))
    killed = [only(run.do(HealthChecked(task, 0, alive=False), after_s=11), Kill) for _ in range(3)]
    assert any(killed), "it has been sick for three times as long as its grace"


def test_a_result_of_a_task_that_is_gone_changes_nothing(run: Run) -> None:
    run.put(app(healthChecks=[HTTP]))
    run.run_all()
    (task,) = run.tasks()
    run.do(status(task, "TASK_FAILED"))
    before = run.state
    assert run.do(HealthChecked(task, 0, alive=False)) == []
    assert run.do(ReadinessChecked(task, "x", ready=True)) == []
    assert run.state.health == before.health == {}


def test_a_result_of_a_check_that_the_app_does_not_have_changes_nothing(run: Run) -> None:
    run.put(app(healthChecks=[HTTP]))
    run.run_all()
    (task,) = run.tasks()
    assert run.do(HealthChecked(task, 1, alive=False)) == []
    assert run.state.health == {}


def test_verdicts_of_the_executor_come_with_statuses(run: Run) -> None:
    mesos = {"protocol": "COMMAND", "command": {"value": "true"}, "maxConsecutiveFailures": 2}
    run.put(app(healthChecks=[mesos]))
    run.run_all()
    (task,) = run.tasks()
    reason = "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"
    run.do(status(task, healthy=True, reason=reason, uuid="MQ=="))
    assert not run.state.lasting.deployments
    run.do(status(task, healthy=False, reason=reason, uuid="Mg=="), after_s=1)
    asked = run.do(status(task, healthy=False, reason="REASON_RECONCILIATION"), after_s=1)
    assert not only(asked, Kill), "an answer is no new result"
    again = run.do(status(task, healthy=False, reason=reason, uuid="Mg=="), after_s=1)
    assert not only(again, Kill), "nor is a status that the agent sends again before it is acknowledged"
    assert only(again, Acknowledge)
    actions = run.do(status(task, healthy=False, reason=reason, uuid="Mw=="), after_s=1)
    assert [kill.task_id for kill in only(actions, Kill)] == [task]


def test_an_old_instance_that_is_unhealthy_goes_first(run: Run) -> None:
    run.put(app(instances=3, healthChecks=[HTTP], upgradeStrategy={"minimumHealthCapacity": 0.5}))
    run.run_all()
    tasks = run.tasks()
    for task in tasks:
        run.do(HealthChecked(task, 0, alive=task != tasks[1]), after_s=20)
        run.do(HealthChecked(task, 0, alive=task != tasks[1]))
    run.put({"id": "/a", "instances": 2}, force=True)
    assert tasks[1] not in [i.task.id for i in run.state.lasting.instances.values() if i.task and i.wanted]


def test_what_is_sick_is_replaced_by_what_is_well_and_stays_until_then(run: Run) -> None:
    run.put(app(instances=2, healthChecks=[HTTP]))
    run.run_all()
    old = run.tasks()
    run.put({"id": "/a", "env": {"FIXED": "1"}}, force=True)
    run.run_all()
    first, second = (task for task in run.tasks() if task not in old)
    assert not run.state.kills, "nobody knows yet whether the new ones are well"
    (ended,) = [kill.task_id for kill in only(run.do(HealthChecked(first, 0, alive=True)), Kill)]
    run.do(HealthChecked(second, 0, alive=True))
    assert set(run.state.kills) == set(old) > {ended}
    for task in old:
        run.do(status(task, "TASK_KILLED"))
    assert not run.state.lasting.deployments
    assert set(run.tasks()) == {first, second}


def test_a_new_instance_counts_once_it_is_ready_and_stays_so(run: Run) -> None:
    run.put(app(readinessChecks=[READY]))
    run.run_all()
    (task,) = run.tasks()
    assert run.state.lasting.deployments
    run.do(ReadinessChecked(task, "readinessCheck", ready=False, response={"status": 504}))
    (deployment,) = run.state.lasting.deployments.values()
    (action,) = deployment_view(run.state, deployment)["currentActions"]
    assert action["readinessCheckResults"] == [
        {"name": "readinessCheck", "taskId": task, "ready": False, "lastResponse": {"status": 504}}
    ]
    run.do(ReadinessChecked(task, "readinessCheck", ready=True))
    assert not run.state.lasting.deployments
    run.do(ReadinessChecked(task, "readinessCheck", ready=False))
    assert run.state.readiness[task].ready


def test_old_instances_live_until_new_ones_are_ready(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    old = run.tasks()
    run.put({"id": "/a", "readinessChecks": [READY], "upgradeStrategy": {"minimumHealthCapacity": 1}})
    run.run_all()
    new = [task for task in run.tasks() if task not in old]
    assert len(new) == 2
    killed = [k.task_id for k in only(run.do(ReadinessChecked(new[0], "r", ready=True)), Kill)]
    assert len(killed) == 1
    assert killed[0] in old
    run.do(ReadinessChecked(new[1], "r", ready=True))
    for task in old:
        run.do(status(task, "TASK_KILLED"))
    assert not run.state.lasting.deployments
    assert set(run.tasks()) == set(new)


def test_the_general_check_is_shown_and_ends_nothing(run: Run) -> None:
    run.put(app(check={"exec": {"command": {"shell": "true"}}}))
    run.run_all()
    (task,) = run.tasks()
    actions = run.do(status(task, check_status={"type": "COMMAND", "command": {"exit_code": 3}}))
    assert not only(actions, Kill)
    (shown,) = task_views(run.state.lasting.instances.values())
    assert shown["checkResult"] == {"command": {"exitCode": 3}}


def test_stats_of_tasks_by_version(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    spec = next(iter(run.state.apps()))
    shown = app_view(run.state, spec, ["taskStats"], replace(run.moment, now_s=run.now_s + 10))["tasksStats"]
    assert run.now_s > T0
    assert set(shown) == {"startedAfterLastScaling", "withLatestConfig", "totalSummary"}
    assert shown["totalSummary"]["stats"]["counts"] == {"staged": 0, "running": 2, "healthy": 0, "unhealthy": 0}
    assert shown["totalSummary"]["stats"]["lifeTime"]["averageSeconds"] >= 10
