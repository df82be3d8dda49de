"""Changes of what only the order of the queue looks at: they replace no task, and count for those that run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Kill
from mesos_gpu.marathon.state.events import Offered, Tick
from tests.support.marathon.builders import SETTINGS, Run, app, offer, only, status

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
