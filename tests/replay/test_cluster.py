"""The cores of a master and a Marathon, put together: tasks start, end, wait and are given up."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.placement.demand import Demand, Machine
from mesos_gpu.placement.policies import BEST, POLICIES
from mesos_gpu.replay.cluster import ReplayedCluster, Running
from mesos_gpu.replay.history import alike, live_through
from mesos_gpu.replay.jobs import Job, drawn, philly_rows, read_jobs
from tests.support.golden import Golden

ONE, TWO, EIGHT = (Demand(1000, 1000, gpus=gpus) for gpus in (1, 2, 8))
MACHINES = {"a": Machine(96000, 96000, (1000,) * 8, "T4"), "b": Machine(96000, 96000, (1000,) * 2, "A10")}


def names(cluster: ReplayedCluster) -> dict[str, str]:
    return {running.run_id: running.machine for running in cluster.running.values()}


def test_a_run_starts_at_once_where_there_is_room_and_ends_after_its_time() -> None:
    ended: list[tuple[Running, float]] = []
    cluster = ReplayedCluster(MACHINES, BEST, lambda running, now_s: ended.append((running, now_s)))
    cluster.start("x", EIGHT, 10.0)
    assert names(cluster) == {"x": "a"}
    cluster.until(9.9)
    assert ended == []
    cluster.until(10.0)
    assert ended == [(Running("x", "a", 0.0), 10.0)]
    assert names(cluster) == {}


def test_what_finds_no_room_waits_until_there_is_some() -> None:
    cluster = ReplayedCluster(MACHINES, BEST)
    cluster.start("x", EIGHT, 10.0)
    cluster.start("y", EIGHT, 5.0)
    cluster.until(5.0)
    assert (names(cluster), cluster.waiting) == ({"x": "a"}, 1)
    cluster.until(12.0)
    assert (names(cluster), cluster.waiting) == ({"y": "a"}, 0)


def test_what_is_given_up_waits_no_more() -> None:
    cluster = ReplayedCluster(MACHINES, BEST)
    cluster.start("x", EIGHT, inf)
    cluster.start("y", EIGHT, inf)
    cluster.until(3.0)
    cluster.give_up("y", EIGHT)
    cluster.until(1000.0)
    assert (names(cluster), cluster.waiting) == ({"x": "a"}, 0)


def test_what_is_given_up_while_it_runs_is_ended() -> None:
    cluster = ReplayedCluster(MACHINES, BEST)
    cluster.start("x", EIGHT, inf)
    cluster.until(1.0)
    cluster.give_up("x", EIGHT)
    cluster.until(2.0)
    assert names(cluster) == {}
    cluster.start("y", EIGHT, inf)
    cluster.until(20.0)
    assert names(cluster) == {"y": "a"}


def test_a_model_that_is_asked_for_is_got() -> None:
    cluster = ReplayedCluster(MACHINES, BEST)
    cluster.start("x", Demand(1000, 1000, gpus=1, models=frozenset({"A10", "H100"})), inf)
    assert names(cluster) == {"x": "b"}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_decides_through_the_offers(policy: str) -> None:
    cluster = ReplayedCluster(MACHINES, policy)
    cluster.start("x", ONE, inf)
    assert names(cluster) == {"x": "a" if policy in ("first_fit", "spread") else "b"}


def test_the_same_history_gives_the_same_answers() -> None:
    def lived() -> list[tuple[dict[str, str], int]]:
        cluster = ReplayedCluster(MACHINES, BEST)
        seen = []
        for number, demand in enumerate([ONE, TWO, EIGHT, ONE, TWO, ONE]):
            cluster.start(str(number), demand, 7.0 + number)
            cluster.until(number * 3.0)
            seen.append((dict(cluster.running), cluster.waiting))
        return seen  # type: ignore[return-value]

    assert lived() == lived()


def test_who_has_a_higher_priority_starts_first_and_a_gang_starts_whole() -> None:
    began: list[str] = []
    machines = {name: Machine(8000, 8000, (1000,) * 2) for name in ("a", "b")}
    cluster = ReplayedCluster(machines, BEST, begins=began.append)
    cluster.start("first", TWO, 100.0)
    cluster.start("other", TWO, 100.0)
    cluster.until(1.0)
    cluster.start("gang", TWO, 50.0, nodes=2)
    cluster.start("low", TWO, 50.0, priority=-50)
    cluster.start("high", TWO, 20.0, priority=50)
    cluster.until(1000.0)
    # What a run that has ended had is as good as free: the gang that waits for it is not overtaken meanwhile.
    assert began == ["first", "other", "high", "gang", "gang", "low"]
    assert not cluster.running


class Counting(ReplayedCluster):
    """Counts the offers that the master makes."""

    offers = 0

    def _hear(self, event: Mapping[str, Any]) -> None:
        self.offers += len(event["offers"]["offers"]) if event["type"] == "OFFERS" else 0
        super()._hear(event)


def test_all_machines_are_offered_while_something_waits_in_order_and_one_otherwise() -> None:
    twenty = {f"m{at:02}": Machine(96000, 96000, (1000,) * 2) for at in range(20)}
    began: list[str] = []
    cluster = Counting(twenty, BEST, begins=began.append, all_offers=False)
    begun = cluster.offers  # each machine once, as it comes
    for at in range(19):
        cluster.start(f"busy{at}", TWO, 100.0 if at < 10 else 1000.0)
    # Its machine, and what is left of that.
    assert (len(cluster.running), cluster.offers - begun) == (19, 2 * 19)
    cluster.start("gang", TWO, 50.0, nodes=2)
    cluster.until(5.0)
    cluster.start("later", TWO, 10.0)  # has a place, which is kept for the gang
    cluster.until(99.0)
    assert {"gang", "later"}.isdisjoint(began)
    cluster.until(120.0)
    assert set(began[19:]) == {"gang", "later"}
    cluster.until(200.0)
    before = cluster.offers
    cluster.start("one", ONE, 1.0)
    assert began[-1] == "one"
    assert cluster.offers - before <= 2, "nothing waits in order any more"


def test_what_was_kept_for_a_gang_is_others_once_it_runs() -> None:
    began: list[str] = []
    three = {f"m{at}": Machine(96000, 96000, (1000,) * 2) for at in range(3)}
    cluster = ReplayedCluster(three, BEST, begins=began.append, all_offers=False)
    cluster.start("busy", TWO, 30.0)
    cluster.start("gang", TWO, inf, nodes=3)
    cluster.until(2.0)
    cluster.start("low", TWO, inf)
    cluster.until(60.0)
    assert began == ["busy", "gang", "gang", "gang"]
    cluster.start("next", ONE, inf)
    cluster.until(90.0)
    assert (len(began), cluster.waiting) == (4, 2)


def test_where_all_cards_are_shared_parts_and_whole_cards_are_taken_of_them() -> None:
    cluster = ReplayedCluster({"a": Machine(96000, 96000, (1000,) * 2, "T4")}, BEST, card_gib=100)
    half, most = (Demand(1000, 1000, share_milli=milli) for milli in (500, 600))
    cluster.start_together([("x", half), ("y", half), ("z", most), ("w", ONE), ("v", half)])
    assert names(cluster) == {"x": "a", "y": "a", "z": "a"}
    cluster.give_up("z", most)
    cluster.give_up("v", half)
    cluster.until(cluster.now_s + 10.0)
    assert names(cluster) == {"x": "a", "y": "a", "w": "a"}
    assert not cluster.waiting


def test_what_an_agent_would_refuse_is_no_silent_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesos_gpu.replay.cluster.refusal", lambda cards, info: "no such card")
    cluster = ReplayedCluster(MACHINES, BEST, card_gib=100)
    with pytest.raises(RuntimeError, match="no such card"):
        cluster.start("x", ONE, 1.0)


def test_parts_are_placed_over_all_offers(golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        ReplayedCluster(MACHINES, BEST, all_offers=False, card_gib=100)
    assert str(refused.value) == golden


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
