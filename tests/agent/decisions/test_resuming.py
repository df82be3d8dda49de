"""What is somebody's although nobody holds it: reserved GPUs and units, and those of tasks that are starting."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.agent.decisions.resuming import SpokenFor, spoken_for
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.resources import Resources
from tests.support.agent.documents import key

RESERVED = {"reservations": [{"type": "DYNAMIC", "role": "prod"}]}


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return {"name": "gpus", "type": "SCALAR", "scalar": {"value": float(count)}, **more}


def units(name: str, first: int, last: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "RANGES", "ranges": {"range": [{"begin": first, "end": last}]}, **more}


def task(name: str, *resources: dict[str, Any], phase: Phase = Phase.RUNNING) -> Task:
    info: Any = {"task_id": {"value": name}, "resources": list(resources)}
    return Task(key(name), info, name, f"c-{name}", "", phase=phase)


def asked(*tasks: Task, kept: list[dict[str, Any]], promised: int = 0) -> SpokenFor:
    return spoken_for(tasks, Resources.from_json(kept), promised=promised, sharers={"c-sharer"})


@pytest.mark.parametrize(
    ("tasks", "kept", "promised", "expected"),
    [
        ([], [], 0, 0),
        ([task("a", gpus(4))], [gpus(3, **RESERVED)], 0, 3),
        ([task("a", gpus(4), phase=Phase.OVER)], [gpus(3, **RESERVED)], 0, 3),
        ([task("a", gpus(2, **RESERVED))], [gpus(3, **RESERVED)], 0, 1),
        ([task("a", gpus(2, **RESERVED))], [gpus(2, **RESERVED)], 0, 0),  # its own reservation
        ([task("b", gpus(1), phase=Phase.LAUNCHING)], [], 1, 1),
    ],
)
def test_whole_gpus(tasks: list[Task], kept: list[dict[str, Any]], promised: int, expected: int) -> None:
    assert asked(*tasks, kept=kept, promised=promised).gpus == expected


def test_units_are_counted_by_card() -> None:
    reserved = [units("gpu_mem", 2004, 2005, **RESERVED), units("gpu_slices", 2004, 2004, **RESERVED)]
    sharer = task("sharer", units("gpu_mem", 2000, 2003), units("gpu_slices", 2000, 2003))
    assert asked(sharer, kept=reserved).units == {2: (2, 1)}
    owner = task("sharer", *reserved)
    assert asked(owner, kept=reserved).units == {}
    starting = task("new", units("gpu_mem", 3000, 3002), units("gpu_slices", 3000, 3000), phase=Phase.LAUNCHING)
    assert asked(sharer, starting, kept=reserved).units == {2: (2, 1), 3: (3, 1)}
