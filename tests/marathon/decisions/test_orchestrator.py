"""What is decided about each event."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import BadInput, Conflict, InvalidApp, Locked, NotFound, TooMany
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Answer,
    Decline,
    Exit,
    Kill,
    Launch,
    Publish,
    Reconcile,
    Resubscribe,
    Revive,
    Save,
    Say,
    Suppress,
)
from mesos_gpu.marathon.state.events import (
    CallFailed,
    CancelDeployment,
    Disconnected,
    FrameworkError,
    KillTasks,
    Offered,
    PutApps,
    RemoveApp,
    ResetDelay,
    RestartApp,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State, restored
from mesos_gpu.marathon.views.views import queue_view
from tests.support.marathon.builders import RULES, Run, app, offer, only, status


@pytest.fixture
def run() -> Run:
    started = Run()
    started.subscribe()
    return started


def versions(run: Run, app_id: str = "/a") -> set[str]:
    return {i.task.version for i in run.state.instances_of(app_id) if i.task is not None}


# Subscribing and offers


def test_a_new_framework_saves_its_id_first_and_wants_no_offers() -> None:
    actions = Run().subscribe("F1")
    assert isinstance(actions[0], Save)
    assert actions[0].framework_id == ("F1",)
    assert [type(a) for a in actions if not isinstance(a, (Save, Publish))] == [Reconcile, Suppress]
    assert only(actions, Reconcile) == [Reconcile({})]


def test_a_new_app_asks_for_offers_at_once(run: Run) -> None:
    actions = run.put(app(gpus=1))
    assert isinstance(actions[0], Save)
    assert only(actions, Revive) == [Revive()]
    assert only(actions, Answer)[0].deployment_id in run.state.lasting.deployments


def test_an_instance_is_saved_before_its_task_is_launched(run: Run) -> None:
    run.put(app(gpus=1))
    actions = run.offer(gpus=1)
    (save,), (launch,) = only(actions, Save), only(actions, Launch)
    assert actions.index(save) < actions.index(launch)
    (instance,) = save.instances.values()
    assert instance.phase is Phase.PROVISIONED
    assert instance.task.id == launch.task_ids[0]
    assert only(actions, Suppress) == [Suppress()]


def test_offers_that_do_not_fit_are_declined_and_the_queue_says_why(run: Run) -> None:
    run.put(app(gpus=4))
    (decline,) = only(run.offer(gpus=2), Decline)
    assert decline.refuse_s == 120
    (queued,) = queue_view(run.state, run.moment, last_offers=True)
    summary = queued["processedOffersSummary"]
    rows = {row["reason"]: row for row in summary["rejectSummaryLaunchAttempt"]}
    assert rows["InsufficientGpus"] == {"reason": "InsufficientGpus", "declined": 1, "processed": 1}
    assert rows["InsufficientPorts"]["processed"] == 0
    assert queued["lastUnusedOffers"][0]["reason"] == ["InsufficientGpus"]
    assert queued["delay"] == {"timeLeftSeconds": 0, "overdue": True}


def test_offers_that_nobody_wants_are_declined_together(run: Run) -> None:
    actions = run.do(Offered([offer("O1"), offer("O2")]))
    assert only(actions, Decline) == [Decline(["O1", "O2"], 120.0)]


def test_an_unreadable_offer_is_declined_and_the_next_one_used(run: Run) -> None:
    run.put(app())
    bad = {**offer("O1"), "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": "x"}}]}
    actions = run.do(Offered([bad, offer("O2")]))
    assert only(actions, Decline)[0].offer_ids == ["O1"]
    assert only(actions, Launch)[0].offer_id == "O2"


def test_no_more_instances_start_on_an_offer_than_allowed(run: Run) -> None:
    run.put(app(instances=7))
    (first,) = only(run.offer(), Launch)
    assert (len(first.task_infos), first.refuse_s) == (5, 0.0)
    (second,) = only(run.offer(), Launch)
    assert (len(second.task_infos), second.refuse_s) == (2, 120.0)


def test_tasks_on_one_offer_never_take_more_than_it_has(run: Run) -> None:
    run.put(app(instances=4, gpus=2))
    assert len(only(run.offer(gpus=5), Launch)[0].task_infos) == 2
    assert len(run.state.waiting) == 2


def test_apps_take_turns_on_an_offer(run: Run) -> None:
    run.put(app("/a", instances=5))
    run.put(app("/b", instances=5))
    names = [info["name"] for info in only(run.offer(), Launch)[0].task_infos]
    assert names == ["a", "b", "a", "b", "a"]


def test_of_two_gpu_apps_and_one_gpu_the_second_waits_for_the_first(run: Run) -> None:
    run.put(app("/a", gpus=1))
    run.put(app("/b", gpus=1))
    assert len(only(run.offer(gpus=1), Launch)[0].task_infos) == 1
    (task,) = run.tasks("/a")
    run.do(status(task))
    assert only(run.offer(gpus=0), Decline)
    (kill,) = only(run.do(RemoveApp("/a", "dx")), Kill)
    assert kill.task_id == task
    run.do(status(task, "TASK_KILLED"))
    assert only(run.offer(gpus=1), Launch)[0].task_infos[0]["name"] == "b"


def test_revives_are_throttled_after_a_burst(run: Run) -> None:
    run.put(app())
    sent = [len(only(run.do(Subscribed("F", "m:5050", again=True), after_s=1.0), Revive)) for _ in range(8)]
    assert sent[:4] == [1] * 4
    assert sum(sent) < 8
    assert run.state.revive_due
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    assert run.now_s + 1 < at_s <= run.now_s + run.settings.min_revive_interval_s
    assert only(run.do(Tick(), after_s=at_s - run.now_s), Revive) == [Revive()]


def test_what_somebody_has_just_asked_for_does_not_wait_for_the_throttle_but_is_spaced_out_a_little(run: Run) -> None:
    assert [len(only(run.put(app(f"/a{n}")), Revive)) for n in range(20)] == [1] * 20
    assert only(run.do(PutApps([app("/one")], "d-1"), after_s=0.01), Revive) == []
    run.do(Tick())
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    assert at_s - run.now_s == pytest.approx(0.04)
    assert only(run.do(Tick(), after_s=0.041), Revive) == [Revive()]
    assert not run.state.revive_due
    # What nobody sits and waits for is throttled as ever: those of requests took nothing from its share.
    run.do(Subscribed("F", "m:5050", again=True))
    assert run.state.revive_due
    again_s = next_tick_s(run.state, run.settings, run.moment)
    assert again_s is not None
    assert again_s - run.now_s <= run.settings.min_revive_interval_s


def test_nothing_is_asked_for_while_disconnected() -> None:
    run = Run()
    assert not only(run.put(app()), Revive)
    assert only(run.subscribe(), Revive) == [Revive()]


# Statuses


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


def test_a_delay_can_be_reset(run: Run) -> None:
    run.put(app())
    run.offer()
    run.do(status(run.tasks()[0], "TASK_FAILED"))
    run.do(ResetDelay("/a"))
    assert only(run.offer(), Launch)
    with pytest.raises(NotFound, match="not found in tasks queue"):
        run.do(ResetDelay("/a"))


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


def test_an_earlier_task_of_an_instance_is_unknown(run: Run) -> None:
    run.put(app())
    run.offer()
    (first,) = run.tasks()
    run.do(status(first, "TASK_UNKNOWN"))
    run.offer()
    assert only(run.do(status(first, "TASK_RUNNING")), Kill) == [Kill(first, "S0")]
    assert run.tasks() == [first.replace("_app.1", "_app.2")]


# Lost agents


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


# Timeouts, reconciliation and calls that fail


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


def test_a_disconnection_is_told_once(run: Run) -> None:
    assert only(run.do(Disconnected()), Publish)[0].kind == "scheduler_disconnected_event"
    assert not run.do(Disconnected())


def test_a_removed_framework_starts_over_with_a_new_id(run: Run) -> None:
    actions = run.do(FrameworkError("Framework has been removed"))
    assert only(actions, Resubscribe) == [Resubscribe()]
    assert run.state.lasting.framework_id is None
    assert actions[0].framework_id == (None,)


def test_a_removed_framework_counts_its_tasks_as_lost_and_starts_them_anew(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    actions = run.do(FrameworkError("Framework has been removed"))
    assert "2 tasks are lost" in only(actions, Say)[0].text
    assert len(run.state.waiting) == 2
    run.subscribe("F2")
    assert len(only(run.offer(), Launch)[0].task_infos) == 2


def test_a_framework_that_was_taken_over_ends_the_process(run: Run) -> None:
    (leave,) = only(run.do(FrameworkError("Framework failed over")), Exit)
    assert "another scheduler has taken over framework F" in leave.reason


def test_other_errors_of_the_master_are_said(run: Run) -> None:
    (said,) = only(run.do(FrameworkError("User 'root' is not authorized")), Say)
    assert "not authorized" in said.text


# Changes of apps


def test_an_app_that_exists_is_not_created_again(run: Run) -> None:
    run.put(app())
    before = run.state
    with pytest.raises(Conflict, match="already exists") as caught:
        run.put(app(), create=True, partial=False)
    assert not isinstance(caught.value, Locked)
    assert run.state is before


def test_a_locked_app_is_only_changed_by_force(run: Run) -> None:
    run.put(app())
    (running,) = run.state.lasting.deployments
    with pytest.raises(Locked, match=r"\?force=true") as caught:
        run.put({"id": "/a", "instances": 2})
    assert caught.value.deployments == (running,)
    actions = run.put({"id": "/a", "instances": 2}, force=True)
    assert running not in run.state.lasting.deployments
    assert "deployment_failed" in [p.kind for p in only(actions, Publish)]


def test_an_update_that_changes_nothing_ends_at_once_even_when_locked(run: Run) -> None:
    run.put(app())
    (answer,) = only(run.put(app()), Answer)
    assert answer.deployment_id not in run.state.lasting.deployments


def test_scaling_keeps_running_instances_and_their_configuration(run: Run) -> None:
    run.put(app())
    run.run_all()
    (kept,) = run.tasks()
    run.put({"id": "/a", "instances": 3})
    run.run_all()
    assert kept in run.tasks()
    assert len(run.tasks()) == 3
    assert not run.state.lasting.deployments
    found = run.state.app("/a")
    assert found is not None
    assert found.version > found.config_version


@pytest.mark.parametrize(("selection", "survivor"), [("YOUNGEST_FIRST", 0), ("OLDEST_FIRST", -1)])
def test_scaling_down_ends_who_has_come_least_far_then_by_age(run: Run, selection: str, survivor: int) -> None:
    run.put(app(instances=3, killSelection=selection))
    run.offer()
    tasks = run.tasks()
    for n, task in enumerate(tasks[:2]):
        run.do(status(task, timestamp=run.now_s + n))
    killed = {kill.task_id for kill in only(run.put({"id": "/a", "instances": 1}, force=True), Kill)}
    assert tasks[2] in killed
    assert killed == set(tasks) - {tasks[:2][survivor]}


def test_an_app_of_no_instances_is_there_and_runs_nothing(run: Run) -> None:
    run.put(app(instances=0))
    assert not run.state.lasting.deployments
    assert not run.state.waiting
    assert run.state.app("/a") is not None


def test_a_changed_app_is_replaced_instance_by_instance(run: Run) -> None:
    strategy = {"minimumHealthCapacity": 1, "maximumOverCapacity": 0}
    run.put(app(instances=2, upgradeStrategy=strategy))
    run.run_all()
    old = set(run.tasks())
    run.put({"id": "/a", "env": {"A": "1"}})
    for _ in range(10):
        running = [i for i in run.state.instances_of("/a") if i.phase is Phase.RUNNING and i.wanted]
        assert len(running) >= 2
        assert len(run.state.instances_of("/a")) <= 3
        run.offer()
        for task in run.tasks():
            instance = next(i for i in run.state.instances_of("/a") if i.task and i.task.id == task)
            run.do(status(task) if instance.wanted else status(task, "TASK_KILLED"))
    assert not old & set(run.tasks())
    assert len(run.tasks()) == 2
    assert not run.state.lasting.deployments


def test_a_full_gpu_agent_lets_a_restart_wait_or_go_by_its_strategy(run: Run) -> None:
    run.put(app(gpus=1))
    run.offer(gpus=1)
    (old,) = run.tasks()
    run.do(status(old))
    actions = run.put({"id": "/a", "labels": {"a": "b"}})
    assert not only(actions, Kill)
    run.offer(gpus=0)
    assert run.state.lasting.deployments
    strategy = {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}
    actions = run.put({"id": "/a", "upgradeStrategy": strategy}, force=True)
    assert only(actions, Kill) == [Kill(old, "S0")]
    run.do(status(old, "TASK_KILLED"))
    run.offer(gpus=1)
    run.do(status(run.tasks()[0]))
    assert not run.state.lasting.deployments


def test_an_old_instance_that_ends_during_a_restart_is_not_started_again(run: Run) -> None:
    run.put(app(instances=2, upgradeStrategy={"minimumHealthCapacity": 1, "maximumOverCapacity": 0}))
    run.run_all()
    run.put({"id": "/a", "env": {"A": "1"}})
    run.do(status(run.tasks()[0], "TASK_FAILED"))
    found = run.state.app("/a")
    assert found is not None
    assert all(run.state.lasting.instances[key].version == found.version for key in run.state.waiting)


def test_a_restart_replaces_what_runs(run: Run) -> None:
    run.put(app())
    run.run_all()
    old = run.tasks()
    run.do(RestartApp("/a", "d9"), after_s=1)
    run.run_all()
    run.do(status(old[0], "TASK_KILLED"))
    assert run.tasks() != old
    assert not run.state.lasting.deployments


def test_a_removed_app_is_gone_at_once_and_its_deployment_ends_with_its_tasks(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    first, second = run.tasks()
    actions = run.do(RemoveApp("/a", "d9"))
    assert {kill.task_id for kill in only(actions, Kill)} == {first, second}
    assert run.state.app("/a") is None
    run.do(status(first, "TASK_KILLED"))
    assert list(run.state.lasting.deployments) == ["d9"]
    actions = run.do(status(second, "TASK_FINISHED"))
    assert not run.state.lasting.deployments
    assert not run.state.lasting.instances
    assert "app_terminated_event" in [p.kind for p in only(actions, Publish)]


def test_what_does_not_exist_is_not_found(run: Run) -> None:
    for event in (RemoveApp("/x", "d"), RestartApp("/x", "d"), CancelDeployment("x", "d"), ResetDelay("/x")):
        with pytest.raises(NotFound):
            run.do(event)
    with pytest.raises(NotFound, match="App '/x' does not exist"):
        run.put({"id": "/x", "instances": 1}, create=False)


def test_an_update_merges_top_level_keys_only(run: Run) -> None:
    run.put(app(env={"A": "1"}, mem=64))
    run.put({"id": "/a", "env": {"B": "2"}}, force=True)
    found = run.state.app("/a")
    assert found is not None
    assert found.document["env"] == {"B": "2"}
    assert found.document["mem"] == 64
    run.put(app(), force=True, partial=False)
    found = run.state.app("/a")
    assert found is not None
    assert found.document["env"] == {}


def test_an_older_form_in_an_update_replaces_the_present_one(run: Run) -> None:
    run.put(app())
    run.put({"id": "/a", "ports": [12345], "uris": ["http://h/a.tgz"]}, force=True)
    found = run.state.app("/a")
    assert found is not None
    assert [d["port"] for d in found.document["portDefinitions"]] == [12345]
    assert [f["uri"] for f in found.document["fetch"]] == ["http://h/a.tgz"]


def test_an_app_goes_back_to_a_former_version(run: Run) -> None:
    run.put(app(mem=64))
    found = run.state.app("/a")
    assert found is not None
    run.put({"id": "/a", "mem": 128}, force=True)
    run.put({"id": "/a", "version": found.version}, force=True)
    now = run.state.app("/a")
    assert now is not None
    assert now.document["mem"] == 64
    assert now.version > found.version
    with pytest.raises(InvalidApp, match="only be combined"):
        run.put({"id": "/a", "version": found.version, "cpus": 1}, force=True)
    with pytest.raises(NotFound, match="in version"):
        run.put({"id": "/a", "version": "2001-01-01T00:00:00.000Z"}, force=True)


def test_fifty_versions_are_kept(run: Run) -> None:
    for n in range(60):
        run.put(app(instances=0, env={"N": str(n)}), force=True)
    kept = run.state.lasting.versions["/a"]
    assert len(kept) == 50
    assert [spec.version for spec in kept] == sorted((spec.version for spec in kept), reverse=True)


def test_several_apps_change_in_one_deployment(run: Run) -> None:
    run.put(app("/a"), app("/b"))
    (deployment,) = run.state.lasting.deployments.values()
    assert deployment.apps == ("/a", "/b")
    run.run_all("/a")
    run.run_all("/b")
    assert not run.state.lasting.deployments


def test_tasks_killed_with_scale_lower_the_count(run: Run) -> None:
    run.put(app(instances=3))
    run.run_all()
    chosen = run.tasks()[:2]
    actions = run.do(KillTasks(chosen, "d9", scale=True), after_s=1)
    assert {kill.task_id for kill in only(actions, Kill)} == set(chosen)
    found = run.state.app("/a")
    assert found is not None
    assert found.instances == 1
    for task in chosen:
        run.do(status(task, "TASK_KILLED"))
    assert len(run.state.lasting.instances) == 1
    assert not run.state.lasting.deployments


def test_tasks_killed_with_wipe_are_replaced_by_new_instances(run: Run) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    run.do(KillTasks([task], "d9", wipe=True))
    run.do(status(task, "TASK_KILLED"))
    run.run_all()
    assert run.tasks()[0].split("._app")[0] != task.split("._app")[0]
    with pytest.raises(BadInput, match="scale and wipe"):
        run.do(KillTasks([task], "d9", wipe=True, scale=True))


def test_a_deployment_is_rolled_back(run: Run) -> None:
    run.put(app(mem=64))
    run.run_all()
    kept = run.tasks()
    run.put({"id": "/a", "mem": 128})
    (running,) = run.state.lasting.deployments
    actions = run.do(CancelDeployment(running, "back"), after_s=1)
    assert only(actions, Answer)[0].deployment_id == "back"
    found = run.state.app("/a")
    assert found is not None
    assert found.document["mem"] == 64
    assert "back" in run.state.lasting.deployments
    assert kept


def test_the_creation_of_an_app_is_rolled_back_by_removing_it(run: Run) -> None:
    run.put(app())
    (running,) = run.state.lasting.deployments
    run.do(CancelDeployment(running, "back"))
    assert run.state.app("/a") is None
    assert not run.state.lasting.instances
    assert not run.state.lasting.deployments


def test_a_cancelled_deployment_stays_where_it_is(run: Run) -> None:
    run.put(app(instances=2))
    (running,) = run.state.lasting.deployments
    run.do(CancelDeployment(running, "unused", force=True))
    assert not run.state.lasting.deployments
    assert len(run.state.waiting) == 2


def test_there_is_a_limit_to_deployments() -> None:
    run = Run(State(), Settings(rules=RULES, max_running_deployments=2))
    run.put(app("/a"))
    run.put(app("/b"))
    with pytest.raises(TooMany, match="Max number"):
        run.put(app("/c"))
    run.put({"id": "/a", "instances": 5}, force=True)
