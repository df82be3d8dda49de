"""Statuses of tasks, lost agents, and what is looked after when nothing is heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import NotFound
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.decisions.suspending import IN_VAIN_S, LOOK_S
from mesos_gpu.marathon.model.asking import FIRST_S, LATE_S, LONGEST_S, MOST, SILENT_S, is_over, patience_s, silence
from mesos_gpu.marathon.model.instances import ASKED, AWAY, COMING
from mesos_gpu.marathon.state.actions import (
    Acknowledge,
    Action,
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
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.views.views import queue_view
from mesos_gpu.marathon.why.suspended import giving_way_words, suspended_words
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.shares.suspending import AT_WORK, NOT_SUSPENDED, RESUMED, SUSPENDED
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.builders import Run, app, only, status
from tests.support.marathon.suspending import (
    CHEAP,
    DEAR,
    HIGH,
    SHARED,
    card_offered,
    changes,
    contended,
    contended_card,
    refusal,
    shown,
    suspension,
    told,
    word,
)


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
    for update, is_news in news:
        events = [p.fields for p in only(run.do(update), Publish) if p.kind == "status_update_event"]
        assert [event["taskStatus"] for event in events] == [update.status["state"]] * is_news
        if is_news and update.status["state"] == "TASK_RUNNING":
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


NO_WORD = silence(MOST)


def ticks(run: Run, until_s: float) -> list[tuple[float, Action]]:
    """Let time pass as the clock is set, and no further; return what was done, and how much later."""
    begin_s, done = run.moment.now_s, []
    while True:
        at_s = next_tick_s(run.state, SHARED, run.moment)
        if at_s is None or at_s > begin_s + until_s:
            return done
        actions = run.do(Tick(), after_s=max(0.0, at_s - run.moment.now_s))
        done += [(round(run.moment.now_s - begin_s, 3), action) for action in actions]


def asks(done: Sequence[tuple[float, Action]], what: str) -> list[float]:
    return [at_s for at_s, action in done if told([action]) and told([action])[0][1] == what]


@given(st.integers(0, 10_000))
def test_it_is_asked_less_and_less_often_but_never_less_than_that(number: int) -> None:
    assert FIRST_S <= patience_s(number) <= patience_s(number + 1) <= LONGEST_S
    assert is_over(ASKED, number) == (number >= MOST)
    assert not is_over(COMING, number), "a task that is away cannot be given up"
    assert not is_over(AWAY, number)


def test_the_silence_is_told_in_words(golden: Golden) -> None:
    assert silence(1) == golden
    assert golden == NO_WORD


def test_a_task_with_gpus_whose_agent_is_silent_is_ended_for_who_still_waits(golden: Golden) -> None:
    run, task, _ = contended()
    done = ticks(run, 200.0)
    assert asks(done, "mesos-gpu suspend") == [15.0, 45.0]
    assert next((at_s, kill.task_id) for at_s, kill in done if isinstance(kill, Kill)) == (105.0, task)
    said = [(kind, more["reason"]) for kind, more in changes([action for _, action in done])]
    assert said == [
        ("instance_not_suspended_event", NO_WORD),
        ("instance_preempted_event", golden),
    ]


def test_it_is_said_meanwhile_that_it_does_not_answer(golden: Golden) -> None:
    run, _, _ = contended()
    assert "unanswered" not in shown(run)["suspension"]
    assert suspended_words({"tasks": [shown(run)]}) == golden
    ticks(run, 20.0)
    assert shown(run)["suspension"]["unanswered"] == 1
    assert suspended_words({"tasks": [shown(run)]}) == golden
    (queued,) = queue_view(run.state, run.moment)
    assert giving_way_words({}, queued) == golden


def test_a_task_with_a_part_runs_on_and_is_left_alone_for_ten_minutes() -> None:
    run, task, _ = contended_card()
    done = ticks(run, 200.0)
    assert (asks(done, "mesos-gpu suspend"), only([action for _, action in done], Kill)) == ([15.0, 45.0], [])
    assert (suspension(run, "/part"), refusal(run, "/part")["reason"]) == (None, NO_WORD)
    card_offered(run, "O3", (10, 15))
    assert told(run.do(Tick(), after_s=IN_VAIN_S)) == []
    run.do(Tick(), after_s=SILENT_S)
    card_offered(run, "O4", (10, 15))
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu suspend")]


def test_an_agent_that_says_that_it_is_at_work_is_waited_for() -> None:
    run, task, _ = contended()
    for _ in range(20):
        done = ticks(run, 15.0)
        assert asks(done, "mesos-gpu suspend") == [15.0]
        assert only([action for _, action in done], Kill) == []
        run.do(word(task, f"{AT_WORK}what it has on GPUs is being put away"))
    assert "unanswered" not in shown(run)["suspension"]
    run.do(word(task, f"{SUSPENDED}..."))
    assert suspension(run) == "suspended"
    run.do(word(task, f"{AT_WORK}..."))
    assert suspension(run) == "suspended", "a late word changes nothing"


def test_what_is_suspended_after_all_is_for_who_asked_and_had_again_when_that_is_gone() -> None:
    run, task, _ = contended_card()
    ticks(run, 110.0)
    (event,) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert event == ("instance_suspended_event", {"taskId": task, "takenBy": "/high", "gpus": 0})
    assert refusal(run, "/part") is None
    run.put(HIGH | {"instances": 0}, force=True)
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]


def test_a_reason_that_comes_after_all_takes_the_place_of_silence() -> None:
    run, task, _ = contended_card()
    ticks(run, 110.0)
    ((kind, more),) = changes(run.do(word(task, f"{NOT_SUSPENDED}no driver")))
    assert (kind, more["takenBy"], more["reason"]) == ("instance_not_suspended_event", "/high", "no driver")
    assert (refusal(run, "/part")["reason"], refusal(run, "/part")["for"]) == ("no driver", "/high")
    assert changes(run.do(word(task, f"{NOT_SUSPENDED}no driver"))) == []


def test_a_second_message_that_was_on_its_way_when_the_first_was_refused_suspends_for_who_asked() -> None:
    run, task, _ = contended_card()
    run.do(word(task, f"{NOT_SUSPENDED}it has not ended its kernels"))
    run.do(Tick(), after_s=LATE_S / 2)
    ((_, more),) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert more["takenBy"] == "/high"

    run, task, _ = contended_card()
    run.do(word(task, f"{NOT_SUSPENDED}it has not ended its kernels"))
    run.do(Tick(), after_s=LATE_S)
    ((_, more),) = changes(run.do(word(task, f"{SUSPENDED}...")))
    assert "takenBy" not in more, "that long afterwards somebody has done it by hand"


def test_a_resumption_is_asked_for_as_long_as_it_takes_and_the_silence_told_once(golden: Golden) -> None:
    run, task, _ = contended()
    run.do(word(task, f"{SUSPENDED}..."))
    run.put(DEAR | {"instances": 0}, force=True)
    done = ticks(run, 3600.0)
    at = asks(done, "mesos-gpu resume")
    pauses = [after - before for before, after in pairwise(at)]
    assert pauses[:5] == [15.0, 30.0, 60.0, 120.0, 240.0]
    assert set(pauses[5:]) == {LONGEST_S}
    ((kind, more),) = changes([action for _, action in done])
    assert (kind, more["reason"]) == ("instance_not_resumed_event", NO_WORD)
    assert (suspension(run), refusal(run)["what"]) == ("resuming", "resume")
    assert suspended_words({"tasks": [shown(run)]}) == golden
    run.do(word(task, f"{RESUMED}GPU 0 (GPU-a)"))
    assert (suspension(run), refusal(run)) == (None, None)


def test_an_agent_that_was_away_and_a_master_that_was_are_asked_anew() -> None:
    patient = {"unreachableStrategy": {"inactiveAfterSeconds": 900, "expungeAfterSeconds": 1800}}
    run, task, _ = contended(CHEAP | patient)
    ticks(run, 50.0)
    run.do(status(task, "TASK_UNREACHABLE"))
    assert told([action for _, action in ticks(run, 600.0)]) == []
    assert told(run.do(status(task))) == [(task, "mesos-gpu suspend")]
    assert "unanswered" not in shown(run)["suspension"]
    ticks(run, 50.0)
    assert shown(run)["suspension"]["unanswered"] == 2
    again = run.do(Subscribed(FrameworkId("F"), "master:5050", again=True))
    assert told(again) == [(task, "mesos-gpu suspend")]
    assert "unanswered" not in shown(run)["suspension"]


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(["", "", AT_WORK, NOT_SUSPENDED]), st.floats(0.0, 300.0)), max_size=8))
def test_whatever_an_agent_says_nobody_is_asked_more_often_than_is_allowed(words: list[tuple[str, float]]) -> None:
    run, task, _ = contended_card()
    begin_s, at = run.moment.now_s, []
    for said, pause_s in words:
        if said:
            run.do(word(task, said))
        before_s = run.moment.now_s - begin_s
        at += [before_s + at_s for at_s in asks(ticks(run, pause_s), "mesos-gpu suspend")]
        run.do(Tick(), after_s=max(0.0, begin_s + before_s + pause_s - run.moment.now_s))
    assert all(after - before >= FIRST_S for before, after in pairwise(at))
