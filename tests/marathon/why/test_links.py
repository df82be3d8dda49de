"""Which GPUs of what runs share NVLink: in `why`, and in /v2/tasks where it is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.matching.nvlink import cards_shown
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.state.events import PutPod
from mesos_gpu.marathon.views.pod_views import pod_status
from mesos_gpu.marathon.views.views import task_views
from mesos_gpu.marathon.why.answer import answer
from mesos_gpu.marathon.why.change import Change, Step, read_change
from mesos_gpu.marathon.why.facts import Situation, of_app
from mesos_gpu.marathon.why.failure import pod_document
from mesos_gpu.marathon.why.links import Given, linked, links_words
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.mesos.shares.gpu_links import LINKS_ATTRIBUTE, cards_label
from tests.support.golden import Golden
from tests.support.marathon.builders import SETTINGS, Run, app, container, pod, status


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


def test_why_says_it_of_what_runs(golden: Golden) -> None:
    shown = tasks(([0, 1], True), ([1, 2], False), ([3], None))
    assert linked(shown) == golden
    document = {**app("/a", gpus=2), "id": "/a", "instances": 3, "tasksRunning": 3, **shown}
    found = answer(Situation(**of_app(document, request_of(document), None, ())))
    assert (found.state, found.headline) == ("running", golden)
    assert linked({"tasks": [{"host": "h"}]}) == linked({}) == linked({"podInstances": [{}]}) == ""
    assert linked(tasks(*[([0, 1], True)] * 10)) == golden


def running_pod(*cards: int) -> Run:
    """A pod of two containers with a GPU each; its agent has told which GPUs they share once the second runs."""
    run = Run(settings=replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED))
    run.subscribe()
    each = {"gpus": 1}
    run.do(PutPod(pod("/p", container("one", resources=each), container("two", resources=each)), "d"))
    run.offer(gpus=4, attributes={LINKS_ATTRIBUTE: "0-1/2-3"})
    (instance,) = run.state.instances_of("/p")
    assert instance.task is not None
    first, second = instance.task.containers
    run.do(status(first.id))
    run.do(status(second.id, **({"labels": {"labels": [cards_label(cards)]}} if cards else {})))
    return run


def shown_of(run: Run, *, cards: bool) -> dict[str, Any]:
    spec = run.state.app("/p")
    assert spec is not None
    return pod_status(run.state, spec, run.moment, cards=cards)


def test_the_containers_of_a_pod_share_the_gpus_that_its_agent_told() -> None:
    run = running_pod(0, 1)
    shared = {"indices": [0, 1], "nvlink": True}
    assert [one["gpuCards"] for one in task_views(run.state.instances_of("/p"), cards=True)] == [shared, shared]
    (instance,) = shown_of(run, cards=True)["instances"]
    assert instance["gpuCards"] == shared
    run.do(status(str(instance["containers"][0]["containerId"]), healthy=True))
    assert shown_of(run, cards=True)["instances"][0]["gpuCards"] == shared, "no later status takes it back"


def test_a_pods_status_and_tasks_are_as_marathons_where_gpus_are_not_asked_for_or_not_told() -> None:
    told, untold = running_pod(0, 1), running_pod()
    assert "gpuCards" not in shown_of(told, cards=False)["instances"][0]
    assert "gpuCards" not in shown_of(untold, cards=True)["instances"][0]
    views = [*task_views(told.state.instances_of("/p")), *task_views(untold.state.instances_of("/p"), cards=True)]
    assert not any("gpuCards" in view for view in views)


def test_why_says_it_of_a_pod_that_runs(golden: Golden) -> None:
    shown = shown_of(running_pod(1, 2), cards=True)
    document = pod_document(shown["spec"], shown)
    found = answer(Situation(**of_app(document, request_of(document), None, ())))
    assert found.headline == golden
    many = [{"agentHostname": "h", "gpuCards": {"indices": [0, 1], "nvlink": True}}] * 9
    assert linked({"podInstances": many}) == golden


def test_a_change_says_which_gpus_share_nvlink_where_it_starts_then(golden: Golden) -> None:
    cards = (Given("h0", (0, 1), True), Given("h1", (3,)))
    change = Change((Step("lower", "ask for less"),), "h0, h1", cards=cards)
    assert change.text == golden
    assert change.document()["cards"][1] == {"host": "h1", "indices": [3], "nvlink": None}
    assert read_change(change.document()).cards == cards
    assert Change((), "h0").where == "h0"
    assert "cards" not in Change((), "h0").document()
    assert links_words([Given("h", (3,))]) == ""
