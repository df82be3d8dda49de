"""Offers: what starts on them, what is declined, and when more are asked for."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import (
    Answer,
    Decline,
    Kill,
    Launch,
    Publish,
    Reconcile,
    Revive,
    Save,
    Suppress,
)
from mesos_gpu.marathon.state.events import (
    Offered,
    PutApps,
    RemoveApp,
    Subscribed,
    Tick,
)
from mesos_gpu.marathon.views.views import queue_view
from tests.support.marathon.builders import Run, app, offer, only, status


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
