"""NVLink in the policies: preferred for tasks with several GPUs, and never at the cost of GPUs that stay empty."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.links import compare
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.placement.fleet import Fleet
from mesos_gpu.placement.policies import BEST, POLICIES

PAIRS = (frozenset({0, 1}), frozenset({2, 3}))


def machine(gpus: int, *linked: frozenset[int]) -> Machine:
    return Machine(64_000, 256_000, (WHOLE,) * gpus, "", linked)


def gpus(count: int) -> Demand:
    return Demand(4_000, 16_000, count)


@pytest.mark.parametrize(("policy", "taken"), [(BEST, "paired"), ("first_fit", "plain")])
def test_of_machines_alike_the_one_with_a_linked_pair_is_taken(policy: str, taken: str) -> None:
    fleet = Fleet({"plain": machine(4), "paired": machine(4, *PAIRS)}, POLICIES[policy])
    place = fleet.place(gpus(2))
    assert place is not None
    assert place.machine == taken


def test_a_machine_whose_pairs_are_broken_is_as_one_without() -> None:
    broken = machine(4, *PAIRS).without(gpus(2), (0, 2))
    fleet = Fleet({"broken": broken, "whole": machine(2, PAIRS[0])}, POLICIES[BEST])
    assert broken.most_linked == 1
    assert fleet.machine("whole").most_linked == 2
    place = fleet.place(gpus(2))
    assert place is not None
    assert place.machine == "whole"


def test_a_task_gets_the_linked_cards_and_one_gpu_leaves_pairs_whole() -> None:
    paired = machine(4, *PAIRS).without(gpus(1), (2,))
    fleet = Fleet({"a": paired}, POLICIES[BEST])
    first = fleet.place(gpus(1))
    second = fleet.place(gpus(2))
    assert first is not None
    assert second is not None
    assert (first.cards, second.cards) == ((3,), (0, 1))


def test_machines_that_differ_in_links_alone_are_told_apart_among_many() -> None:
    machines = {f"{number}": machine(4) for number in range(200)} | {"paired": machine(4, *PAIRS)}
    place = Fleet(machines, POLICIES[BEST]).place(gpus(2))
    assert place is not None
    assert place.machine == "paired"


def test_without_links_anywhere_the_term_changes_nothing() -> None:
    """As on the published traces, which say nothing of links."""
    machines = {f"{number}": machine(8 if number % 3 else 4) for number in range(12)}
    asked = [gpus(count) for count in (3, 2, 4, 1, 2, 8, 2, 4, 1, 1, 8, 2)]
    with_term, without = Fleet(machines, POLICIES[BEST]), Fleet(machines, replace(POLICIES[BEST], links=0.0))
    assert [with_term.place(each) for each in asked] == [without.place(each) for each in asked]


@pytest.mark.slow
def test_more_tasks_get_linked_gpus_and_as_many_gpus_are_given_out() -> None:
    found = compare(12, 40, (0.0, POLICIES[BEST].links))
    without, with_term = found.values()
    assert fmean(each.linked for each in with_term) >= fmean(each.linked for each in without) + 5
    for name in ("filled", "filled_at_first"):
        assert fmean(getattr(each, name) for each in with_term) >= fmean(getattr(each, name) for each in without) - 0.1
