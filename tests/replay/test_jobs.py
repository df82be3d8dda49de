"""Jobs of several machines and priorities, Philly's log, dates, and jobs that are drawn."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import Demand
from mesos_gpu.replay.history import alike, live_through
from mesos_gpu.replay.jobs import Job, drawn, philly_rows, read_jobs
from tests.support.golden import Golden


def philly(**changes: Any) -> dict[str, Any]:
    machines = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu4"]}]
    attempts = [
        {"start_time": "2017-10-07 01:05:00", "end_time": "2017-10-07 01:06:00", "detail": machines},
        {"start_time": "2017-10-07 01:07:00", "end_time": "2017-10-07 02:05:00", "detail": []},
    ]
    job = {"jobid": "application_1", "submitted_time": "2017-10-07 01:00:00", "user": "u", "vc": "v"}
    return {**job, "attempts": attempts, "status": "Pass", **changes}


def test_phillys_log_is_read_as_gangs() -> None:
    never = philly(attempts=[])
    jobs, parts = read_jobs(philly_rows([philly(), never, philly(submitted_time="2017-10-07 01:01:00")]))
    assert jobs[0] == Job("application_1", 0.0, 3600.0, Demand(8000, 32768, gpus=2), nodes=2)
    assert (jobs[0].gpus, jobs[1].arrival_s, len(jobs), parts) == (4, 60.0, 2, 0)


@pytest.mark.parametrize(
    "log", [{"jobs": []}, [{"jobid": "x"}], [philly(attempts=[{"start_time": "a", "end_time": "b"}])]]
)
def test_another_log_is_refused_in_words(log: object) -> None:
    with pytest.raises(BadInput, match="cluster_job_log"):
        philly_rows(log)


def test_machines_and_priority_of_a_job_are_read() -> None:
    row = {"submit_time": "2020-04-01 00:10:00", "start_time": "2020-04-01 00:11:00", "end_time": "2020-04-01 00:13:00"}
    jobs, _ = read_jobs([{**row, "gpu_num": "16", "node_num": "2", "priority": "5", "cpus": "32"}])
    assert jobs == [Job("2", 0.0, 120.0, Demand(32000, 131072, gpus=8), nodes=2, priority=5)]


@pytest.mark.parametrize(
    "row",
    [
        {"gpus": "3", "nodes": "2"},
        {"gpus": "1", "priority": "1000"},
        {"gpus": "1", "arrival_s": "yesterday"},
    ],
)
def test_what_no_job_can_be_is_named(row: dict[str, str], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_jobs([{"arrival_s": "0", "duration_s": "1", **row}])
    assert str(refused.value) == golden


def test_jobs_are_drawn_so_that_they_ask_for_the_load_in_the_long_run() -> None:
    known = [Job("a", 0.0, 100.0, Demand(1000, 10, gpus=1)), Job("b", 5.0, 10.0, Demand(1000, 10, gpus=2), nodes=2)]
    jobs = drawn(known, 4000, 50, 0.8, Random(7))
    assert jobs == drawn(known, 4000, 50, 0.8, Random(7)) != drawn(known, 4000, 50, 0.8, Random(8))
    asked = sum(job.gpus * job.duration_s for job in jobs) / (50 * jobs[-1].arrival_s)
    assert asked == pytest.approx(0.8, rel=0.1)
    assert {(job.demand, job.nodes) for job in jobs} == {(job.demand, job.nodes) for job in known}


def test_jobs_without_gpus_are_drawn_too() -> None:
    assert [job.arrival_s for job in drawn([Job("a", 0.0, 1.0, Demand(1, 1))], 3, 8, 1.0, Random(0))] == [0.0, 1.0, 2.0]


def test_a_gang_starts_whole_and_what_has_a_higher_priority_starts_first() -> None:
    two = Demand(1000, 10, gpus=2)
    jobs = [
        Job("holds one", 0.0, 100.0, two),
        Job("gang", 1.0, 50.0, two, nodes=2),
        Job("low", 2.0, 200.0, two, priority=-50),
        Job("high", 3.0, 30.0, two, priority=50),
    ]
    found = live_through(alike("2x2:8:64"), jobs, "capacity")
    assert (found.jobs, found.ended) == (4, 4)
    assert found.gpus_used == pytest.approx((2 * 100 + 4 * 50 + 2 * 200 + 2 * 30) / (4 * found.makespan_s), rel=0.01)


def test_a_gang_that_fits_starts_at_once_and_counts_with_all_its_gpus() -> None:
    found = live_through(alike("2x2:8:64"), [Job("g", 0.0, 100.0, Demand(1000, 10, gpus=2), nodes=2)], "capacity")
    assert (found.ended, found.most_used, found.course[-1][1:]) == (1, 1.0, (4, 0))
    assert found.waited_s < 10
