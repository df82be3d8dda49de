"""Who gives way, beside what apps with volumes keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.model.reservations import reservation_labels
from mesos_gpu.marathon.state.actions import Decline, Kill, Revive
from mesos_gpu.marathon.state.events import Offered, Tick
from mesos_gpu.marathon.views.views import queue_view
from mesos_gpu.mesos.ids import FrameworkId
from tests.support.marathon.builders import ROLE, SETTINGS, Run, app, offer, only, ranges, scalar, status
from tests.support.marathon.residents import SHARED


def test_what_is_kept_for_a_volume_of_another_is_no_room_for_who_waits() -> None:
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(app("/cheap", gpus=1, preemptible=True))
    run.do(Offered([offer("O1", gpus=1)]))
    (task,) = run.tasks("/cheap")
    run.do(status(task))
    run.put(app("/dear", gpus=1, priority=5), force=True)
    labels = json.loads(reservation_labels(FrameworkId("another"), "keeper.1"))
    kept = {**scalar("gpus", 1), "reservations": [{"type": "DYNAMIC", "role": ROLE, "labels": labels}]}
    run.do(Offered([offer("O2", agent="S1", host="h1", extra=[kept])]), after_s=1.0)
    asked = {kill.task_id for _ in range(5) for kill in only(run.do(Tick(), after_s=2.0), Kill)}
    assert asked == {task}


def test_who_was_promised_machines_is_not_overtaken_by_who_comes_later_with_equal_rank() -> None:
    run = Run(settings=replace(SHARED, priority_aging_s=100.0, decline_offer_s=1000.0))
    run.subscribe()
    run.put(app("/r", instances=2, gpus=2, maxRuntimeSeconds=600))
    run.do(Offered([offer(f"O{n}", agent=f"S{n}", host=f"h{n}", gpus=2) for n in range(2)]))
    for task in run.tasks("/r"):
        run.do(status(task))
    run.put(app("/z", gpus=2, gang={"size": 2}, maxRuntimeSeconds=60))
    run.do(Tick(), after_s=5.0)
    assert run.state.places["/z"].at_s is not None
    run.do(Tick(), after_s=94.0)
    run.put(app("/a", gpus=2, gang={"size": 2}, priority=1, maxRuntimeSeconds=60))
    run.do(Tick(), after_s=5.0)
    (z,), (a,) = (run.state.instances_of(name)[:1] for name in ("/z", "/a"))
    assert a.since_s == z.since_s + 100.0, "a point of priority is worth what /z has waited longer"
    order = {item["app"]["id"]: item["order"]["place"] for item in queue_view(run.state, run.moment)}
    assert order == {"/z": 1, "/a": 2}
    assert run.state.places["/a"].behind == "/z"


def test_what_waits_is_looked_at_ever_more_seldom_until_something_happens() -> None:
    run = Run(settings=replace(SHARED, decline_offer_s=3600.0))
    run.subscribe()
    run.put(app("/g", gpus=2, gang={"size": 2}))
    run.do(Offered([offer("O1", agent="S1", host="h1", gpus=1)]))

    def looks(seconds: float) -> list[float]:
        found, until_s = [], run.moment.now_s + seconds
        while (due_s := next_tick_s(run.state, run.settings, run.moment)) is not None and due_s < until_s:
            found.append(due_s - run.moment.now_s)
            run.do(Tick(), after_s=due_s - run.moment.now_s)
        return found

    quiet = looks(3600.0)
    assert quiet[:3] == [3.0, 3.0, 6.0]
    assert max(quiet) == 30.0
    assert len(quiet) < 240, "not 1 200 in an hour"
    run.do(Offered([offer("O2", agent="S2", host="h2", gpus=1)]))
    assert looks(10.0)[0] <= 3.0


TWO_CARDS = {"memGiB": 5, "cards": 2}


def one_card(name: str, free_gib: int = 16, **has: Any) -> dict[str, Any]:
    """Return an offer of an agent that shares one card."""
    parts = [ranges("gpu_mem", (16 - free_gib, 15)), ranges("gpu_slices", (0, 24))] if free_gib else []
    return offer(name, attributes={"gpu_shared_cards": "0=GPU-a/16/watcher"}, extra=parts, **has)


def behind_parts(share: Mapping[str, Any], free_gib: int) -> Run:
    """Return a run in which one waits for parts that are not there, then one of priority for the GPU of a third.

    The agent's rest was given back, for a long time.
    """
    run = Run(settings=replace(SHARED, priority_aging_s=600.0, decline_offer_s=3600.0))
    run.subscribe()
    run.put(app("/cheap", gpus=1, preemptible=True))
    run.do(Offered([one_card("O1", free_gib, gpus=1)]))
    (task,) = run.tasks("/cheap")
    run.do(status(task))
    run.put(app("/parts", gpuShare=share))
    run.do(Tick(), after_s=1200.0)
    run.put(app("/dear", gpus=1, priority=1))
    run.do(Offered([one_card("O2", free_gib)]), after_s=1.0)
    run.do(Tick(), after_s=10.0)
    return run


@pytest.mark.parametrize(("share", "free_gib"), [(TWO_CARDS, 16), ({"memGiB": 17}, 16), ({"memGiB": 5}, 4)])
def test_who_waits_for_parts_that_no_machine_has_holds_up_nobody(share: Mapping[str, Any], free_gib: int) -> None:
    run = behind_parts(share, free_gib)
    assert {app_id: place.number for app_id, place in run.state.places.items()} == {"/parts": 1, "/dear": 2}
    assert run.state.places["/parts"].at_s is None, "nothing that may end makes room for it"
    assert run.state.instances_of("/cheap")[0].task.gives_way_to == "/dear"


def gang_of_parts(gib: int, **gang: Any) -> Run:
    """Return a run in which a gang of two wants parts, and an agent with one card was given back for a long time."""
    run = Run(settings=replace(SHARED, decline_offer_s=3600.0))
    run.subscribe()
    run.put(app("/parts", gpuShare={"memGiB": gib}, gang={"size": 2, **gang}))
    run.do(Tick(), after_s=10.0)
    assert only(run.do(Offered([one_card("O1")]), after_s=1.0), Decline)
    return run


def test_no_machine_is_promised_where_members_of_a_gang_find_no_parts_beside_one_another() -> None:
    run = gang_of_parts(9, onePerHost=False)
    assert not only(run.do(Tick(), after_s=10.0), Revive), "offers would be asked for in vain"
    assert run.state.places["/parts"].at_s is None


def test_a_gang_is_promised_what_was_given_back_where_its_members_find_their_parts() -> None:
    run = gang_of_parts(9)
    assert run.state.places["/parts"].at_s is None
    actions = run.do(Offered([one_card("O2", agent="S1", host="h1")]), after_s=1.0)
    assert run.state.places["/parts"].at_s is not None
    assert only(actions, Revive), "the first agent is asked for"


@pytest.mark.parametrize(
    ("others", "gives_way"),
    [([], True), ([{"memGiB": 6}], True), ([{"memGiB": 7}], False), ([{"memGiB": 6, "weight": 25}], False)],
)
def test_processors_are_given_up_for_parts_only_where_these_may_be(
    others: list[dict[str, Any]], gives_way: bool
) -> None:
    """All processors of a machine are taken, so that nothing of it is offered."""
    run = Run(settings=SHARED)
    run.subscribe()
    run.put(
        app("/cheap", cpus=4.0 - 0.1 * len(others), preemptible=True),
        *(app("/other", gpuShare=share) for share in others),
    )
    run.do(Offered([one_card("O1")]))
    for task in (*run.tasks("/cheap"), *run.tasks("/other")):
        run.do(status(task))
    run.put(app("/parts", gpuShare={"memGiB": 10}, priority=1))
    run.do(Tick(), after_s=10.0)
    assert run.state.instances_of("/cheap")[0].task.gives_way_to == ("/parts" if gives_way else None)


CHEAP, DEAR = {"preemptible": True}, {"priority": 7}


def running(**more: Any) -> Run:
    """A Marathon with one app, of which one task has all GPUs of the one machine."""
    run = Run(settings=replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED))
    run.subscribe()
    run.put(app("/a", gpus=2, **more))
    run.do(Offered([offer("O0", agent="S0", host="h0", gpus=2)]))
    (task,) = run.tasks()
    run.do(status(task))
    return run


@pytest.mark.parametrize("change", [CHEAP, DEAR, CHEAP | DEAR])
def test_a_change_of_priority_replaces_nothing(change: dict[str, Any]) -> None:
    run = running()
    tasks = run.tasks()
    assert only(run.put({"id": "/a", **change}), Kill) == []
    assert run.tasks() == tasks


@pytest.mark.parametrize(
    ("before", "change", "gives_way"),
    [
        ({}, CHEAP, True),
        (CHEAP, {"preemptible": False}, False),
        (CHEAP, DEAR, False),
        (CHEAP | DEAR, {"priority": 1}, True),
    ],
)
def test_who_gives_way_is_as_the_app_is_now(before: dict[str, Any], change: dict[str, Any], gives_way: bool) -> None:
    run = running(**before)
    run.put({"id": "/a", **change})
    run.put(app("/b", gpus=2, priority=5))
    killed = [kill.task_id for kill in only(run.do(Tick(), after_s=4.0), Kill)]
    assert killed == (run.tasks() if gives_way else [])
