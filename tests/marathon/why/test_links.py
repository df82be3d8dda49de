"""Which GPUs of what runs share NVLink: in `why`, and in /v2/tasks where it is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.matching.linking import cards_shown
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.views.views import task_views
from mesos_gpu.marathon.why.answer import answer, linked
from mesos_gpu.marathon.why.facts import of_app
from mesos_gpu.marathon.why.situation import Situation
from mesos_gpu.marathon.why.wish import wish_of
from mesos_gpu.mesos.shares.gpu_links import LINKS_ATTRIBUTE
from tests.support.marathon.builders import Run, app


def running(*cards: int, links: str = "0-1/2-3") -> tuple[Run, Task]:
    """An app that runs on a machine whose GPUs are linked so, and its task with these of them."""
    run = Run()
    run.subscribe()
    run.put(app("/a", gpus=len(cards) or 1))
    run.run_all("/a")
    (instance,) = run.state.instances_of("/a")
    assert instance.task is not None
    attributes = ((LINKS_ATTRIBUTE, links),) if links else ()
    return run, replace(instance.task, whole_cards=cards, attributes=attributes)


@pytest.mark.parametrize(
    ("cards", "links", "nvlink"),
    [((0, 1), "0-1/2-3", True), ((1, 2), "0-1/2-3", False), ((3,), "0-1/2-3", None), ((0, 1), "", None)],
)
def test_it_is_told_whether_several_share_nvlink(cards: tuple[int, ...], links: str, nvlink: bool | None) -> None:
    _, task = running(*cards, links=links)
    assert cards_shown(task) == {"indices": list(cards), "nvlink": nvlink}


def test_tasks_show_their_gpus_only_where_that_is_asked_for() -> None:
    run, task = running(0, 1)
    instances = [replace(each, task=task) for each in run.state.instances_of("/a")]
    (plain,), (shown,) = task_views(instances), task_views(instances, cards=True)
    assert shown == {**plain, "gpuCards": {"indices": [0, 1], "nvlink": True}}
    assert "gpuCards" not in plain
    untold = [replace(each, task=replace(task, whole_cards=())) for each in instances]
    assert "gpuCards" not in task_views(untold, cards=True)[0]


def tasks(*told: tuple[list[int], bool | None]) -> dict[str, Any]:
    return {"tasks": [{"host": f"h{at}", "gpuCards": {"indices": c, "nvlink": n}} for at, (c, n) in enumerate(told)]}


def test_why_says_it_of_what_runs() -> None:
    shown = tasks(([0, 1], True), ([1, 2], False), ([3], None))
    assert linked(shown) == " GPUs 0+1 on h0 share NVLink; 1+2 on h1 do not all share NVLink."
    document = {**app("/a", gpus=2), "id": "/a", "instances": 3, "tasksRunning": 3, **shown}
    found = answer(Situation(**of_app(document, wish_of(document), None, ())))
    assert (found.state, found.headline) == ("running", f"/a runs: 3 of 3.{linked(shown)}")
    assert linked({"tasks": [{"host": "h"}]}) == linked({}) == ""
    assert linked(tasks(*[([0, 1], True)] * 10)).endswith("7 share NVLink and so on, of 10 tasks.")
