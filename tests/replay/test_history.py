"""Histories as tables, and the figures of one that is lived through."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.decisions import launching
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.placement.demand import Demand, Machine
from mesos_gpu.placement.policies import POLICIES
from mesos_gpu.replay.history import alike, live_through, read_machines
from mesos_gpu.replay.jobs import Job, read_jobs
from tests.support.golden import Golden
from tests.support.histories import examples


def test_a_table_in_our_own_columns_is_read_in_the_order_of_arrival() -> None:
    jobs, parts = read_jobs(
        [
            {"name": "b", "arrival_s": "20", "duration_s": "5", "gpus": "2", "cpus": "1.5", "mem_mib": "64"},
            {"arrival_s": "10", "end_s": "40", "gpus": "0"},
        ]
    )
    assert jobs == [Job("3", 0.0, 30.0, Demand(4000, 16384)), Job("b", 10.0, 5.0, Demand(1500, 64, gpus=2))]
    assert parts == 0


def test_a_pod_list_of_openb_is_read_as_it_is() -> None:
    row = {
        "name": "p",
        "cpu_milli": "6000",
        "memory_mib": "12288",
        "num_gpu": "1",
        "gpu_milli": "460",
        "gpu_spec": "T4|P100",
    }
    jobs, parts = read_jobs([{**row, "creation_time": "5", "deletion_time": "65", "scheduled_time": "15"}])
    assert jobs == [Job("p", 0.0, 50.0, Demand(6000, 12288, gpus=1, models=frozenset({"T4", "P100"})))]
    assert parts == 1


@pytest.mark.parametrize(
    "row",
    [
        {"gpus": "1", "duration_s": "1"},
        {"gpus": "many", "duration_s": "1", "arrival_s": "0"},
        {"gpus": "1", "arrival_s": "9", "end_s": "1"},
    ],
)
def test_a_line_that_is_no_job_is_named(row: dict[str, str], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_jobs([row])
    assert str(refused.value) == golden


def test_a_table_without_jobs_is_refused(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_jobs([])
    assert str(refused.value) == golden


def test_machines_are_read_from_a_table_or_from_a_few_words(golden: Golden) -> None:
    row = {"sn": "n", "cpu_milli": "1000", "memory_mib": "10", "gpu": "2", "model": "T4"}
    assert read_machines([row]) == {"n": Machine(1000, 10, (1000, 1000), "T4")}
    assert alike("1x1") == {"1x1-0": Machine(4000, 16384, (1000,))}
    assert list(alike("2x1:8:64:A100").values()) == [Machine(8000, 64, (1000,), "A100")] * 2
    with pytest.raises(BadInput) as refused:
        read_machines([{"name": "x"}])
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        read_machines([{**row, "gpu": "some"}])
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        alike("16 machines")
    assert str(refused.value) == golden


def test_figures_are_those_of_what_happened() -> None:
    two = Demand(1000, 10, gpus=2)
    jobs = [Job("a", 0.0, 100.0, two), Job("b", 0.0, 100.0, two), Job("too large", 10.0, 1.0, Demand(1000, 10, gpus=4))]
    found = live_through(alike("1x2:8:64"), jobs, "first_fit")
    assert (found.jobs, found.ended, found.most_used) == (3, 2, 1.0)
    assert found.makespan_s == pytest.approx(200, abs=3)
    assert found.gpus_used == pytest.approx(1.0, abs=0.02)
    assert found.waited_p99_s == pytest.approx(100, abs=3)
    assert found.waited_s == pytest.approx(50, abs=2)
    assert found.completed_s == pytest.approx(150, abs=3)
    assert found.fragments == pytest.approx(0.0, abs=0.02)


def test_a_history_in_which_nothing_can_run_has_figures_too() -> None:
    found = live_through(alike("1x1:1:1"), [Job("a", 0.0, 1.0, Demand(1000, 10, gpus=4))], "capacity")
    assert (found.ended, found.gpus_used, found.waited_s) == (0, 0.0, 0.0)


histories = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 300), st.sampled_from([0, 1, 1, 2, 4])), min_size=1, max_size=14
)


def told(history: list[tuple[int, int, int]]) -> list[Job]:
    ordered = sorted(history)
    return [
        Job(str(n), float(at), float(lasts), Demand(4000, 1024, gpus)) for n, (at, lasts, gpus) in enumerate(ordered)
    ]


@settings(max_examples=examples(10))
@given(st.integers(1, 4), histories)
def test_the_first_fit_is_the_same_whether_all_is_offered_or_what_would_be_chosen(
    count: int, history: list[tuple[int, int, int]]
) -> None:
    jobs, machines = told(history), alike(f"{count}x4")
    whole = live_through(machines, jobs, "first_fit", all_offers=True)
    # Offers are held and asked for now and then where all are made; a start may be some moments later there.
    lean = live_through(machines, jobs, "first_fit")
    assert (lean.jobs, lean.ended, lean.most_used) == (whole.jobs, whole.ended, whole.most_used)
    assert lean.makespan_s == pytest.approx(whole.makespan_s, abs=5.0 * len(jobs))
    assert lean.waited_s == pytest.approx(whole.waited_s, abs=5.0 * len(jobs))


@settings(max_examples=examples(10))
@given(
    st.integers(2, 4),
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.integers(1, 300),
            st.sampled_from([0, 1, 1, 2, 4]),
            st.sampled_from([1, 1, 1, 2]),
            st.sampled_from([0, 0, 0, 5]),
        ),
        min_size=1,
        max_size=14,
    ),
)
def test_with_gangs_and_priorities_all_comes_to_its_end_whether_all_is_offered_or_not(
    count: int, history: list[tuple[int, int, int, int, int]]
) -> None:
    jobs = [
        Job(str(n), float(at), float(lasts), Demand(4000, 1024, gpus), nodes, priority)
        for n, (at, lasts, gpus, nodes, priority) in enumerate(sorted(history))
    ]
    machines = alike(f"{count}x4")
    whole, lean = (live_through(machines, jobs, "capacity", all_offers=all_offers) for all_offers in (True, False))
    assert (lean.jobs, lean.ended) == (whole.jobs, whole.ended) == (len(jobs), len(jobs))
    assert lean == live_through(machines, jobs, "capacity"), "the same history gives the same figures"
    longest_s = sum(job.duration_s + 120 for job in jobs) + jobs[-1].arrival_s
    assert lean.makespan_s <= longest_s


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_waits_where_all_that_comes_has_room(policy: str) -> None:
    jobs = [Job(str(n), 10.0 * n, 35.0, Demand(1000, 1024, gpus=1 + n % 4)) for n in range(8)]
    found = live_through(alike("4x4:64:65536"), jobs, policy)
    assert (found.ended, found.waited_s, found.fragments) == (8, 0.0, 0.0)
    assert found == live_through(alike("4x4:64:65536"), jobs, policy, all_offers=True)


def test_lines_change_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(3)
    sizes = [Demand(1000 * gpus, 1000, gpus=gpus) for gpus in (0, 1, 1, 2, 4)]
    jobs = [Job(str(n), n * 20.0, chance.uniform(10, 900), chance.choice(sizes)) for n in range(150)]
    machines = alike("2x4:16:16000") | alike("1x2:4:8000")
    in_lines = live_through(machines, jobs, "capacity")
    assert in_lines.waited_p99_s > 100
    asked: list[int] = []

    def never(draft: Draft, documents: Sequence[OfferDocument]) -> bool:
        asked.append(len(documents))
        return False

    monkeypatch.setattr(launching, "waits_in_lines", never)
    assert live_through(machines, jobs, "capacity") == in_lines
    assert asked


SIZES = ((1, 1), (1, 1), (1, 1), (2, 1), (4, 1), (0, 1), (4, 2), (2, 3))
"""GPUs of each member, and members."""


def history(seed: int, count: int, most_gap_s: int) -> list[Job]:
    chance, at_s, found = Random(seed), 0, list[Job]()
    for number in range(count):
        gpus, nodes = SIZES[chance.randrange(len(SIZES))]
        models = frozenset({"A"}) if gpus and chance.randrange(5) == 0 else frozenset[str]()
        priority = chance.randrange(3) if chance.randrange(6) == 0 else 0
        demand = Demand(1000 * chance.randrange(1, 4), 1024, gpus, models=models)
        found.append(Job(str(number), float(at_s), float(chance.randrange(5, 900)), demand, nodes, priority))
        at_s += chance.randrange(most_gap_s)
    return found
