"""What was put away for an app of high priority: that one has it, and others only when it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mesos_gpu.marathon.decisions.suspending import IN_VAIN_S, LOOK_S, OFFERED_S
from mesos_gpu.marathon.state.actions import Action, Decline, Launch
from mesos_gpu.marathon.state.events import RemoveApp, Tick
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, SUSPENDED
from tests.support.marathon.builders import Run, app, only, status
from tests.support.marathon.suspending import HIGH, PART, SHARED, card_offered, suspension, told, word

GANG = app("/gang", cpus=0.1, mem=32, gpus=2, gang={"size": 2})
"""While it waits, what waits is taken in order."""


def part(app_id: str, gib: int, **changes: Any) -> dict[str, Any]:
    return app(app_id, cpus=0.1, mem=32, gpuShare={"memGiB": gib, **changes})


LOW = part("/a-low", 9)
"""It waits for longer than the one of high priority, and its id is before that one's."""


def launched(actions: Sequence[Action]) -> list[str]:
    return [info["name"].split(".")[0] for launch in only(actions, Launch) for info in launch.task_infos]


def in_line(*waiting: dict[str, Any], parts: Sequence[dict[str, Any]] = (PART,)) -> tuple[Run, list[str]]:
    """Return a run in which apps have parts of a card, others wait, and some give way to one of these; who does."""
    run = Run(settings=SHARED)
    run.subscribe()
    first, tasks = 0, {}
    for number, document in enumerate(parts):
        run.put(document)
        assert launched(card_offered(run, f"P{number}", (first, 15), (2 * number, 24)))
        (task,) = run.tasks(document["id"])
        tasks[task] = document["id"]
        run.do(status(task))
        first += document["gpuShare"]["memGiB"]
    for document in waiting:
        run.put(document)
    assert launched(card_offered(run, "O", (first, 15), (2 * len(parts), 24))) == []
    asked = [task for task, _ in told(run.do(Tick(), after_s=OFFERED_S))]
    assert asked
    return run, asked


@pytest.mark.parametrize("others", [(), (GANG,)])
def test_who_it_was_put_away_for_has_it_though_another_waits_for_longer(others: Sequence[dict[str, Any]]) -> None:
    run, (task,) = in_line(LOW, *others, HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25))) == ["high"]


def test_what_is_left_when_it_has_its_part_is_anybodys() -> None:
    run, (task,) = in_line(part("/a-low", 8), HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25))) == ["high", "a-low"]


@pytest.mark.parametrize("others", [(), (GANG,)])
def test_what_it_needs_is_kept_until_all_of_it_was_put_away(others: Sequence[dict[str, Any]]) -> None:
    parts = [part(f"/p{number}", 5) | {"preemptible": True} for number in range(3)]
    run, tasks = in_line(LOW, *others, part("/high", 11, highPriority=True), parts=parts)
    assert len(tasks) == 2
    for number, task in enumerate(tasks):
        assert launched(card_offered(run, f"O{number}", (15, 15 + 5 * number))) == []
        run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O9", (15, 25))) == ["high"]


def test_an_offer_of_which_something_is_kept_comes_again_soon() -> None:
    run, (task,) = in_line(LOW, HIGH | {"cpus": 2.0})
    run.do(word(task, f"{SUSPENDED}..."))
    actions = card_offered(run, "O1", (10, 25), cpus=1.0)
    assert launched(actions) == []
    (decline,) = only(actions, Decline)
    assert decline.refuse_s <= 5.0


def test_when_it_is_gone_anybody_has_it() -> None:
    run, (task,) = in_line(LOW, HIGH)
    run.do(word(task, f"{SUSPENDED}..."))
    run.do(RemoveApp("/high", "d"))
    assert launched(card_offered(run, "O1", (10, 25))) == ["a-low"]
    assert told(run.do(Tick(), after_s=LOOK_S)) == [(task, "mesos-gpu resume")]
    run.do(word(task, f"{NOT_RESUMED}no room"))
    assert suspension(run, "/part") == "suspended"


def test_it_is_kept_no_longer_than_a_suspension_may_be_in_vain() -> None:
    run, (task,) = in_line(LOW, HIGH | {"cpus": 2.0})
    run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (10, 25), cpus=1.0)) == []
    assert told(run.do(Tick(), after_s=IN_VAIN_S)) == [(task, "mesos-gpu resume")]
    assert launched(card_offered(run, "O2", (10, 25), cpus=1.0)) == ["a-low"]


def test_two_for_whom_something_was_put_away_do_not_wait_for_one_another() -> None:
    parts = [part(f"/p{gib}", gib) | {"preemptible": True} for gib in (7, 5, 2)]
    takers = [part(f"/high{gib}", gib, highPriority=True) for gib in (9, 5, 4)]
    run, tasks = in_line(LOW, *takers, parts=parts)
    assert len(tasks) == 3, "each counts on the 2 GiB that are free"
    for task in tasks:
        run.do(word(task, f"{SUSPENDED}..."))
    assert launched(card_offered(run, "O1", (14, 29))) == ["high9", "high5"]
