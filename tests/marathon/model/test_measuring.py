"""What agents show of containers, as readings of tasks."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.measuring import Look, Reading, Wanted, measured, wanted

TASK = Wanted("i._app.1", "i", ("i._app.1", "marathon-i._app.1", "instance-i.1"), 100.0)


def shown(cpu_s: float, gpus: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    statistics = {"cpus_user_time_secs": cpu_s, "cpus_system_time_secs": 1.0, "mem_rss_bytes": 2 << 20}
    document = {"container_id": "c1", "executor_id": "i._app.1", "statistics": statistics, **more}
    return document if gpus is None else {**document, "gpus": gpus}


def look(
    containers: list[dict[str, Any]], before: dict[str, Look], *, now_s: float = 160.0, first_s: float = 0.0
) -> list[Any]:
    return [
        (reading, after) for _, reading, after in measured(containers, [TASK], before, first_s=first_s, now_s=now_s)
    ]


def test_what_was_used_since_the_last_look_is_told() -> None:
    gpus = [
        {"utilization_percent": 40, "memory_used_mib": 100},
        {"utilization_percent": 0, "memory_used_mib": 20},
        {"name": "one that tells nothing"},
    ]
    ((reading, after),) = look([shown(5.0, gpus)], {"i._app.1": Look(150.0, 4.0)})
    assert reading == Reading(10_000, 2_000_000, 2_000, gpus=2, busy_percent=40, idle_gpus=1, gpu_mem=120_000)
    assert after == Look(160.0, 6.0)


def test_a_task_that_began_under_our_eyes_counts_from_its_begin() -> None:
    ((reading, _),) = look([shown(5.0)], {})
    assert (reading.period_ms, reading.cpu_ms, reading.gpus, reading.gpu_mem) == (60_000, 6_000_000, 0, None)


def test_of_one_that_ran_before_the_first_look_tells_nothing() -> None:
    ((reading, after),) = look([shown(5.0)], {}, first_s=101.0)
    assert (reading, after) == (None, Look(160.0, 6.0))


def test_gpus_of_nested_containers_are_those_of_their_pod() -> None:
    nested = {
        "container_id": "c2",
        "status": {"container_id": {"value": "c2", "parent": {"value": "c1"}}},
        "gpus": [{"utilization_percent": 70}],
    }
    ((reading, _),) = look([shown(5.0, executor_id="instance-i.1"), nested], {})
    assert (reading.gpus, reading.busy_percent) == (1, 70)


def test_what_an_agent_does_not_measure_is_not_made_up() -> None:
    ((reading, after),) = look([{"executor_id": "i._app.1", "container_id": "c"}], {"i._app.1": Look(150.0, 4.0)})
    assert (reading.cpu_ms, reading.mem, after.cpu_s) == (None, None, None)
    assert look([], {}) == []
    ((reading, _),) = look([shown(5.0)], {"i._app.1": Look(160.0, 4.0)})
    assert reading is None, "no time has passed"


def test_tasks_that_run_are_wanted_by_agent() -> None:
    task = Task("i._app.1", "S0", "h", (), "v", 90.0, started_at_s=100.0)
    runs = Instance("i", "/a", "v", "*", 0.0, phase=Phase.RUNNING, incarnation=1, task=task)
    comes = Instance("j", "/a", "v", "*", 0.0, phase=Phase.STAGING, incarnation=1, task=task)
    assert wanted(iter([runs, comes, Instance("k", "/a", "v", "*", 0.0)])) == {"S0": [TASK]}
