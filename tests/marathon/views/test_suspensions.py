"""Who gives way to what waits, as /v2/queue shows it."""

from __future__ import annotations

from mesos_gpu.marathon.views.views import queue_view
from mesos_gpu.mesos.shares.suspending import NOT_SUSPENDED, SUSPENDED
from tests.support.marathon.builders import Run
from tests.support.marathon.suspending import DEAR, contended, contended_card, word


def shown(run: Run) -> list[object]:
    (item,) = queue_view(run.state, run.moment)
    return [{key: one.get(key) for key in ("appId", "state", "reason")} for one in item.get("suspensions", [])]


def test_the_queue_says_who_was_asked_is_away_and_could_not_be_suspended() -> None:
    run, task, _ = contended_card()
    assert shown(run) == [{"appId": "/part", "state": "asked", "reason": None}]
    run.do(word(task, f"{NOT_SUSPENDED}no driver"))
    assert shown(run) == [{"appId": "/part", "state": "refused", "reason": "no driver"}]

    run, task, _ = contended()
    run.do(word(task, f"{SUSPENDED}..."))
    assert shown(run) == [{"appId": "/cheap", "state": "suspended", "reason": None}]


def test_what_waits_for_nobody_to_give_way_says_nothing_of_that() -> None:
    run, _, _ = contended()
    run.put(DEAR | {"id": "/other", "gpus": 9, "priority": 1})
    items = {item["app"]["id"]: "suspensions" in item for item in queue_view(run.state, run.moment)}
    assert items == {"/dear": True, "/other": False}
