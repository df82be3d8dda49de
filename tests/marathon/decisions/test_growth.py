"""What an event costs follows what it changes: not how many wait, nor how many agents have made offers.

Counted are the steps of the interpreter, which are the same on any machine at any load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.share_scheduling import high_share
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
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.views.views import queue_view
from tests.support.marathon.builders import SETTINGS, T0, Run, app, offer, only, status

MANY = replace(SETTINGS, launch_tokens=1000, max_instances_per_offer=20)


def steps(work: Callable[[], Any]) -> int:
    """Return how many steps of Python's interpreter something takes."""
    count = 0

    def trace(frame: FrameType, kind: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += kind == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def waiting(instances: int, apps: int = 4) -> Run:
    run = Run(settings=MANY)
    run.subscribe()
    run.put(*(app(f"/a{n}", gpus=1, instances=instances // apps) for n in range(apps)))
    return run


def offers(number: int, count: int = 2, **changes: Any) -> Offered:
    asked = {"gpus": 2, "cpus": 32, "mem": 65536, **changes}
    return Offered([offer(f"O{number}.{n}", agent=f"S{number}.{n}", host=f"h{n}", **asked) for n in range(count)])


def work_of_some_events(run: Run) -> int:
    """Offer, let run what was started, and work out when time matters next."""

    def work() -> None:
        for number in range(2):
            for launch in only(run.do(offers(number)), Launch):
                for task_id in launch.task_ids:
                    run.do(status(task_id))
            next_tick_s(run.state, run.settings, run.moment)

    run.do(offers(99))  # what is made once is made
    return steps(work)


def test_offers_and_statuses_take_the_same_work_however_many_wait() -> None:
    few, many = (work_of_some_events(waiting(count)) for count in (400, 4000))
    assert many < 1.1 * few


def test_what_is_told_again_of_a_task_takes_the_same_work_however_many_its_app_has() -> None:
    taken = []
    for count in (20, 200):
        run = waiting(count, apps=1)
        run.do(offers(1, count, gpus=1))
        for task_id in run.tasks("/a0"):
            run.do(status(task_id))
        again = [status(task_id) for task_id in run.tasks("/a0")[:10]]
        taken.append(steps(lambda run=run, again=again: [run.do(each) for each in again]))
    assert taken[1] < 1.1 * taken[0]


def test_offers_that_nothing_can_be_started_on_yet_are_not_read_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(settings=replace(MANY, launch_tokens=2, max_queued_offers=3))
    run.subscribe()
    run.put(app("/a", gpus=1, instances=50))
    run.do(offers(1))
    read: list[str] = []
    from_json = Offer.from_json
    monkeypatch.setattr(
        Offer, "from_json", lambda document: read.append(document["id"]["value"]) or from_json(document)
    )
    actions = run.do(offers(2, 8))
    assert len(read) == 2, "one of three places was taken before"
    assert [offer.id for offer, _ in run.state.queued] == ["O1.1", "O2.0", "O2.1"]
    (declined,) = only(actions, Decline)
    assert list(declined.offer_ids) == [f"O2.{n}" for n in range(2, 8)]


def test_an_offer_that_cannot_be_read_is_declined_and_not_queued() -> None:
    run = Run(settings=replace(MANY, launch_tokens=1))
    run.subscribe()
    run.put(app("/a", gpus=1, instances=50))
    run.do(offers(1, 1, gpus=1))
    broken = {**offer("bad"), "resources": [{"name": "gpus", "type": "SCALAR", "scalar": {"value": -1}}]}
    (declined,) = only(run.do(Offered([broken, *offers(2, 1).offers])), Decline)
    assert list(declined.offer_ids) == ["bad"]
    assert [offer.id for offer, _ in run.state.queued] == ["O2.0"]


@pytest.mark.parametrize("apart", [{"priority": 3}, {"gpuShare": {"memGiB": 4, "highPriority": True}}])
def test_apps_that_are_looked_at_apart_are_known_while_they_wait(apart: dict[str, Any]) -> None:
    run = Run()
    run.subscribe()
    run.put(app("/plain", gpus=1))
    assert list(run.state.singular) == []
    run.put(app("/apart", instances=2, **apart))
    assert list(run.state.singular) == ["/apart"]
    assert list(restored(run.state.lasting).singular) == ["/apart"]
    before = run.state
    run.do(PutApps((app("/apart", instances=2),), "plainly", force=True, partial=False), after_s=1.0)
    assert list(run.state.singular) == []
    assert list(before.singular) == ["/apart"]
    run.do(PutApps((app("/apart", instances=2, **apart),), "again", force=True, partial=False), after_s=1.0)
    assert list(run.state.singular) == ["/apart"]
    run.do(RemoveApp("/apart", "gone", force=True))
    assert list(run.state.singular) == []


def test_time_matters_to_parts_of_gpus_that_come_before_others() -> None:
    run = Run()
    run.subscribe()
    run.put(app("/apart", gpuShare={"memGiB": 4, "highPriority": True}))
    assert high_share(run.state.app("/apart")) is not None
    assert next_tick_s(run.state, run.settings, run.moment) == run.now_s + 2.0


def test_queued_offers_do_not_outlast_a_clock_that_goes_back() -> None:
    run = Run(settings=replace(MANY, launch_tokens=1))
    run.subscribe()
    run.put(app("/a", gpus=1, instances=50))
    run.do(offers(1, 3))
    run.now_s = T0 - 3600.0
    run.do(Tick())
    timeout_s = run.settings.offer_matching_timeout_s
    assert [came_s <= run.now_s for _, came_s in run.state.queued] == [True]
    assert next_tick_s(run.state, run.settings, run.moment) == run.now_s + timeout_s


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
