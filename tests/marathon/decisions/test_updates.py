"""Statuses of tasks, lost agents, and what is looked after when nothing is heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.errors import NotFound
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Decline,
    Kill,
    Launch,
    Publish,
    Reconcile,
    Revive,
    Save,
    Say,
    Suppress,
)
from mesos_gpu.marathon.state.events import (
    CallFailed,
    Disconnected,
    KillTasks,
    RemoveApp,
    ResetDelay,
    Tick,
)
from mesos_gpu.marathon.state.state import restored
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, only, status


def test_a_status_that_tells_nothing_new_is_acknowledged_and_not_written_down_again(run: Run) -> None:
    run.put(app())
    run.offer()
    assert only(run.do(status(run.tasks()[0])), Save)
    again = status(run.tasks()[0])
    assert run.do(again, after_s=5.0) == [Acknowledge(again.status)]


def test_a_status_that_tells_nothing_new_ends_a_deployment_that_a_process_before_left_undone(run: Run) -> None:
    run.put(app())
    run.offer()
    begun = run.state.lasting
    run.do(status(run.tasks()[0]))
    undone = replace(run.state.lasting, deployments=begun.deployments)
    run.state = restored(undone)
    run.subscribe()
    assert run.state.deployments
    told = [action.kind for action in only(run.do(status(run.tasks()[0])), Publish)]
    assert "deployment_success" in told
    assert not run.state.deployments


def test_a_status_is_acknowledged_after_it_is_saved(run: Run) -> None:
    run.put(app())
    run.offer()
    actions = run.do(status(run.tasks()[0], "TASK_STARTING"))
    assert isinstance(actions[0], Save)
    assert only(actions, Acknowledge)[0].status["state"] == "TASK_STARTING"


def test_a_status_without_uuid_is_not_acknowledged(run: Run) -> None:
    run.put(app())
    run.offer()
    news = status(run.tasks()[0])
    without = {key: value for key, value in news.status.items() if key != "uuid"}
    assert not only(run.do(type(news)(without)), Acknowledge)


def test_what_changes_nothing_is_no_event(run: Run) -> None:
    """As Marathon: who listens is not told of answers to a reconciliation, but of health, checks and addresses."""
    run.put(app(healthChecks=[{"protocol": "COMMAND", "command": {"value": "true"}}]))
    run.offer()
    (task,) = run.tasks()
    network = {"container_status": {"network_infos": [{"ip_addresses": [{"ip_address": "10.0.0.7"}]}]}}
    news = [
        (status(task, "TASK_STARTING"), True),
        (status(task, **network), True),
        (status(task, reason="REASON_RECONCILIATION"), False),
        (status(task, healthy=True, reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"), True),
        (status(task, healthy=True, reason="REASON_RECONCILIATION"), False),
        (status(task, healthy=False, uuid="dg==", reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"), True),
        (status(task, healthy=False, check_status={"type": "COMMAND", "command": {"exit_code": 1}}), True),
        (status(task, healthy=False, check_status={"type": "COMMAND", "command": {"exit_code": 1}}), False),
        (status(task, "TASK_FINISHED"), True),
    ]
    for told, is_news in news:
        events = [p.fields for p in only(run.do(told), Publish) if p.kind == "status_update_event"]
        assert [event["taskStatus"] for event in events] == [told.status["state"]] * is_news
        if is_news and told.status["state"] == "TASK_RUNNING":
            assert events[0]["ipAddresses"] == [{"ipAddress": "10.0.0.7", "protocol": "IPv4"}]


def test_a_deployment_ends_when_all_its_instances_run(run: Run) -> None:
    run.put(app(instances=2))
    run.offer()
    first, second = run.tasks()
    run.do(status(first))
    assert run.state.lasting.deployments
    actions = run.do(status(second))
    assert not run.state.lasting.deployments
    assert [p.kind for p in only(actions, Publish)][-1] == "deployment_success"


@pytest.mark.parametrize("state", ["TASK_FINISHED", "TASK_FAILED", "TASK_ERROR", "TASK_DROPPED", "TASK_GONE"])
def test_a_task_that_ends_is_started_again_after_its_delay_with_the_next_id(run: Run, state: str) -> None:
    run.put(app())
    run.run_all()
    (first,) = run.tasks()
    run.do(status(first, state))
    assert run.tasks() == []
    (decline,) = only(run.offer(), Decline)
    assert decline.refuse_s == pytest.approx(1.0)
    run.now_s += 1.0
    (launch,) = only(run.offer(), Launch)
    assert launch.task_ids == (first.replace("_app.1", "_app.2"),)


def test_delays_grow_with_each_end(run: Run) -> None:
    run.put(app())
    delays = []
    for _ in range(3):
        run.offer()
        run.do(status(run.tasks()[0], "TASK_FINISHED"))
        delays.append(run.state.backoffs["/a"].delay_s)
        run.now_s += delays[-1]
    assert delays == pytest.approx([1, 1.15, 1.3225])


def two_of_which_one_fails(run: Run) -> str:
    """Have an app of two fail one of them until it waits for half an hour; return the task that runs."""
    run.put(app(instances=2, backoffSeconds=900, backoffFactor=2, maxLaunchDelaySeconds=1800))
    run.run_all()
    for _ in range(2):
        run.do(status(run.tasks()[-1], "TASK_FAILED"))
        run.now_s = run.state.backoffs["/a"].until_s
        run.run_all()
    run.do(status(run.tasks()[-1], "TASK_FAILED"))
    (living,) = run.tasks()
    return living


def test_answers_to_reconciliations_put_off_nobody(run: Run) -> None:
    """Each ten minutes the master says of the one that it runs: the other would wait for ever."""
    living = two_of_which_one_fails(run)
    until_s = run.state.backoffs["/a"].until_s
    for _ in range(3):
        run.do(status(living, reason="REASON_RECONCILIATION"), after_s=600.0)
    assert run.state.backoffs["/a"].until_s == until_s
    run.now_s = until_s
    assert only(run.offer(), Launch)


def test_who_ends_for_its_agent_is_drained_waits_for_nothing(run: Run) -> None:
    living = two_of_which_one_fails(run)
    run.do(status(living, "TASK_KILLED", reason="REASON_AGENT_DRAINING"))
    assert not run.state.backoffs
    assert only(run.offer(), Launch)


def test_an_app_that_fails_over_and_over_leaves_the_revives_to_others(run: Run) -> None:
    run.put(app())
    actions: list[Any] = []
    for _ in range(10):
        actions += run.offer()
        actions += run.do(status(run.tasks()[0], "TASK_FAILED"), after_s=0.1)
        run.now_s += run.state.backoffs["/a"].delay_s
    assert len(only(actions, Revive)) == 1, "only the first time, when offers were suppressed"
    assert len(only(actions, Suppress)) == 1
    assert only(run.do(Tick(), after_s=run.settings.min_revive_interval_s), Revive) == [Revive()]


def test_the_last_failure_is_kept_and_goes_with_its_app(run: Run) -> None:
    run.put(app())
    run.offer()
    (task,) = run.tasks()
    run.do(status(task, "TASK_ERROR", message="m" * 20_000))
    failure = run.state.lasting.failures["/a"]
    assert (failure["state"], failure["taskId"], failure["slaveId"]) == ("TASK_ERROR", task, "S0")
    assert len(failure["message"]) == 10_000
    run.do(RemoveApp("/a", "d9"))
    assert not run.state.lasting.failures


def test_killed_tasks_start_again_without_delay(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    assert only(run.do(KillTasks([task], "d9")), Kill) == [Kill(task, "S0")]
    run.do(status(task, "TASK_KILLING"))
    actions = run.do(status(task, "TASK_FAILED"))
    assert only(actions, Revive) == [Revive()]
    assert not run.state.backoffs
    assert only(run.offer(), Launch)


def test_a_delay_can_be_reset(run: Run, golden: Golden) -> None:
    run.put(app())
    run.offer()
    run.do(status(run.tasks()[0], "TASK_FAILED"))
    run.do(ResetDelay("/a"))
    assert only(run.offer(), Launch)
    with pytest.raises(NotFound) as refused:
        run.do(ResetDelay("/a"))
    assert str(refused.value) == golden


def test_an_unknown_running_task_is_ended(run: Run) -> None:
    stray = "x.instance-9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f._app.1"
    actions = run.do(status(stray))
    assert only(actions, Kill) == [Kill(stray, "S0")]
    assert only(actions, Acknowledge)
    assert only(actions, Say)


def test_an_unknown_task_that_has_ended_is_only_acknowledged(run: Run) -> None:
    actions = run.do(status("x.instance-9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f._app.1", "TASK_FINISHED"))
    assert not only(actions, Kill)
    assert only(actions, Acknowledge)
    assert only(actions, Publish)[0].kind == "unknown_instance_terminated_event"


def test_a_task_that_neither_marathon_nor_the_master_knows_is_no_event(run: Run) -> None:
    told = status("a.instance-none._app.1", "TASK_UNKNOWN")
    assert run.do(told) == [Acknowledge(told.status)]


def test_an_earlier_task_of_an_instance_is_unknown(run: Run) -> None:
    run.put(app())
    run.offer()
    (first,) = run.tasks()
    run.do(status(first, "TASK_UNKNOWN"))
    run.offer()
    assert only(run.do(status(first, "TASK_RUNNING")), Kill) == [Kill(first, "S0")]
    assert run.tasks() == [first.replace("_app.1", "_app.2")]


def test_a_task_on_a_lost_agent_is_replaced_at_once_by_default(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    actions = run.do(status(task, "TASK_UNREACHABLE"))
    assert only(actions, Revive)
    assert task not in run.tasks()
    (launch,) = only(run.offer(), Launch)
    assert launch.task_ids[0].split("._app")[0] != task.split("._app")[0]
    assert only(run.do(status(task)), Kill) == [Kill(task, "S0")]


def test_a_task_on_a_lost_agent_is_waited_for_when_the_app_says_so(run: Run) -> None:
    run.put(app(unreachableStrategy={"inactiveAfterSeconds": 60, "expungeAfterSeconds": 600}))
    run.run_all()
    (task,) = run.tasks()
    run.do(status(task, "TASK_UNREACHABLE"))
    assert not run.state.waiting
    run.do(Tick(), after_s=60)
    assert len(run.state.waiting) == 1
    run.offer()
    (other,) = set(run.tasks()) - {task}
    run.do(status(other))
    run.do(status(task))
    # One too many now: the one that was put in its place, or itself, is ended.
    ended = [i for i in run.state.instances_of("/a") if not i.wanted]
    assert len(ended) == 1


def test_a_task_on_a_lost_agent_is_never_replaced_when_disabled(run: Run) -> None:
    run.put(app(unreachableStrategy="disabled"))
    run.run_all()
    run.do(status(run.tasks()[0], "TASK_UNREACHABLE"))
    run.do(Tick(), after_s=1_000_000)
    assert not run.state.waiting
    assert len(run.state.lasting.instances) == 1


def test_a_lost_task_is_forgotten_in_the_end(run: Run) -> None:
    run.put(app(unreachableStrategy={"inactiveAfterSeconds": 0, "expungeAfterSeconds": 600}))
    run.run_all()
    (task,) = run.tasks()
    run.do(status(task, "TASK_UNREACHABLE"))
    run.offer()
    (other,) = set(run.tasks()) - {task}
    run.do(status(other))
    run.do(Tick(), after_s=601)
    assert task not in run.tasks()
    assert len(run.tasks()) == 1


def test_a_task_that_does_not_come_up_is_ended(run: Run) -> None:
    run.put(app())
    run.offer()
    (task,) = run.tasks()
    assert not only(run.do(Tick(), after_s=299), Kill)
    assert only(run.do(Tick(), after_s=1), Kill) == [Kill(task, "S0")]


def test_kills_are_repeated_until_they_are_answered(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    run.do(RemoveApp("/a", "d9"))
    assert not only(run.do(Tick(), after_s=29), Kill)
    assert only(run.do(Tick(), after_s=1), Kill) == [Kill(task, "S0")]
    run.do(status(task, "TASK_KILLED"))
    assert not only(run.do(Tick(), after_s=31), Kill)


def test_a_kill_is_sent_after_the_reconnection_if_there_was_no_master(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    run.do(Disconnected())
    assert not only(run.do(RemoveApp("/a", "d9")), Kill)
    run.subscribe()
    assert only(run.do(Tick(), after_s=30), Kill) == [Kill(task, "S0")]


def test_a_new_process_knows_its_tasks_and_asks_for_them(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    tasks = run.tasks()
    again = Run(restored(run.state.lasting), now_s=run.now_s)
    actions = again.subscribe()
    assert only(actions, Reconcile) == [Reconcile(dict.fromkeys(tasks, "S0")), Reconcile({})]
    assert not only(actions, Revive)
    assert again.tasks() == tasks


def test_a_new_process_ends_what_was_being_ended(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    run.do(RemoveApp("/a", "d9"))
    again = Run(restored(run.state.lasting), now_s=run.now_s)
    assert only(again.subscribe(), Kill) == [Kill(task, "S0")]
    again.do(status(task, "TASK_KILLED"))
    assert not again.state.lasting.deployments


def test_a_launch_that_never_arrived_is_found_out_and_repeated(run: Run) -> None:
    run.put(app())
    run.offer()
    (task,) = run.tasks()
    again = Run(restored(run.state.lasting), now_s=run.now_s)
    again.subscribe()
    assert only(again.do(status(task, "TASK_UNKNOWN", reason="REASON_RECONCILIATION")), Revive)
    assert only(again.offer(), Launch)


def test_a_launch_that_failed_is_looked_into(run: Run) -> None:
    run.put(app())
    (launch,) = only(run.offer(), Launch)
    actions = run.do(CallFailed(launch, "connection reset"))
    assert only(actions, Decline) == [Decline([launch.offer_id], 0.0)]
    assert only(actions, Reconcile) == [Reconcile(dict.fromkeys(launch.task_ids, "S0"))]


def test_a_revive_that_failed_is_repeated(run: Run) -> None:
    run.put(app())
    assert only(run.do(CallFailed(Revive(), "x")), Revive) == [Revive()]


def test_reconciliation_is_repeated_soon_and_then_seldom(run: Run) -> None:
    assert only(run.do(Tick(), after_s=15), Reconcile)
    assert not only(run.do(Tick(), after_s=599), Reconcile)
    assert only(run.do(Tick(), after_s=1), Reconcile)
    run.do(CallFailed(Reconcile({}), "x"))
    assert only(run.do(Tick(), after_s=5), Reconcile)
