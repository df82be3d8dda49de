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
from mesos_gpu.marathon.state.actions import Decline, Launch
from mesos_gpu.marathon.state.events import Offered, PutApps, RemoveApp, Tick
from mesos_gpu.marathon.state.state import restored
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
