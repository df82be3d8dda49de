"""Sums of what tasks had: hours, and how many names there are of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.measuring import Look, Reading, Wanted, measured, wanted
from mesos_gpu.marathon.model.usage import (
    HOUR_MS,
    NOTHING,
    OTHERS,
    Held,
    Sum,
    Who,
    bounded,
    by_hour,
    of_interval,
)

times = st.integers(0, 5 * HOUR_MS)


@given(times, times)
def test_a_time_is_cut_at_hours_and_one_that_runs_backwards_takes_away(one: int, other: int) -> None:
    parts = list(by_hour(one, other))
    assert sum(last - first for _, first, last in parts) == other - one
    for hour, first, last in parts:
        assert hour % HOUR_MS == 0
        assert hour <= min(first, last) <= max(first, last) <= hour + HOUR_MS
    there = sum((of_interval(Held(gpus=2000), first, last) for _, first, last in parts), NOTHING)
    back = sum((of_interval(Held(gpus=2000), last, first) for _, first, last in parts), NOTHING)
    assert (there + back).gpu_ms == 0


def test_names_beyond_the_most_go_together_by_role_and_user_and_nothing_of_the_total_is_lost() -> None:
    sums = {Who(f"/a{at}", "r", "ann" if at % 2 else "bob").key: Sum(gpu_ms=at, tasks=1) for at in range(10)}
    found = bounded(sums, most=4)
    assert {Who.of(key) for key in found} == {
        *(Who(f"/a{at}", "r", "ann" if at % 2 else "bob") for at in (6, 7, 8, 9)),
        Who(OTHERS, "r", "ann"),
        Who(OTHERS, "r", "bob"),
    }
    assert sum(found.values(), NOTHING) == sum(sums.values(), NOTHING)
    assert bounded(found, most=4) == found
    again = bounded({**found, Who("/late", "r", "ann").key: Sum(gpu_ms=1)}, most=4)
    assert again[Who(OTHERS, "r", "ann").key].gpu_ms == found[Who(OTHERS, "r", "ann").key].gpu_ms + 1


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
