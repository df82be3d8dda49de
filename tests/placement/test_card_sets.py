"""Which cards of a machine go together: held to comparing every set there is."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import placement
from benchmarks.kept.figures import FILE_VARIABLE, read_figures
from benchmarks.links import compare
from mesos_gpu.placement.card_sets import Tie, best_set
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.placement.fleet import Fleet
from mesos_gpu.placement.policies import BEST, POLICIES

Table = list[list[Tie]]
NEAR = (0, -10, -20, -30, -40, -50)


def table(size: int, pairs: Sequence[Tie]) -> Table:
    ties: Table = [[(0, 0)] * size for _ in range(size)]
    for (one, other), tie in zip(combinations(range(size), 2), pairs, strict=True):
        ties[one][other] = ties[other][one] = tie
    return ties


def worth(ties: Table, chosen: Sequence[int]) -> tuple[object, ...]:
    """What the rule says of a set, word by word; more is better."""
    within = [ties[one][other] for one, other in combinations(chosen, 2)]
    rest = [other for other in range(len(ties)) if other not in chosen]
    cut = [ties[one][other] for one in chosen for other in rest]
    return (
        min(within, default=(0, 0)),
        sum(links for links, _ in within),
        sum(near for _, near in within),
        -sum(links for links, _ in cut),
        -sum(near for _, near in cut),
    )


def every_set(ties: Table, count: int) -> tuple[int, ...]:
    # Lowest first, and max keeps the first of equals.
    return max(combinations(range(len(ties)), count), key=lambda chosen: worth(ties, chosen))


TIE = st.tuples(st.integers(0, 3), st.sampled_from(NEAR))


@st.composite
def machines(draw: st.DrawFn) -> tuple[Table, int]:
    size = draw(st.integers(1, 9))
    pairs = draw(st.lists(TIE, min_size=size * (size - 1) // 2, max_size=size * (size - 1) // 2))
    return table(size, pairs), draw(st.integers(0, size))


@given(machines())
def test_no_set_is_better_and_none_as_good_is_lower(machine: tuple[Table, int]) -> None:
    ties, count = machine
    assert best_set(ties, count) == every_set(ties, count)


@pytest.mark.parametrize("count", [1, 2, 3, 13, 15, 16])
@pytest.mark.parametrize("most_links", [0, 1, 4])
def test_of_16_cards_the_best_set_is_found_whatever_its_size(count: int, most_links: int) -> None:
    chance = random.Random(f"{count} {most_links}")
    ties = table(16, [(chance.randint(0, most_links), chance.choice(NEAR)) for _ in range(120)])
    assert best_set(ties, count) == every_set(ties, count)


def test_half_of_16_cards_is_the_best_half() -> None:
    """One nowhere linked to the rest, and everything else by chance: the hardest to be sure of."""
    chance = random.Random(8)
    ties = table(16, [(chance.randint(0, 1) if one else 0, -50) for one, _ in combinations(range(16), 2)])
    assert best_set(ties, 8) == every_set(ties, 8)


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(2, 4), st.data())
def test_a_single_card_breaks_no_linked_group_while_an_odd_one_is_free(
    groups: int, size: int, data: st.DataObject
) -> None:
    cards = [(group, place) for group in range(groups) for place in range(size)] + [(groups, 0)]
    cards = data.draw(st.permutations(cards))
    ties = table(len(cards), [(4 if one[0] == other[0] else 0, -50) for one, other in combinations(cards, 2)])
    assert best_set(ties, 1) == (cards.index((groups, 0)),)


def test_a_single_card_comes_of_the_smallest_group() -> None:
    group = [0, 0, 0, 0, 1, 1, 2, 2, 2]
    ties = table(9, [(1 if group[one] == group[other] else 0, -50) for one, other in combinations(range(9), 2)])
    assert best_set(ties, 1) == (4,)
    assert best_set(ties, 2) == (4, 5)
    assert best_set(ties, 3) == (6, 7, 8)
    assert best_set(ties, 4) == (0, 1, 2, 3)


def test_nothing_and_everything() -> None:
    ties = table(3, [(0, -50)] * 3)
    assert best_set(ties, 0) == ()
    assert best_set(ties, 3) == (0, 1, 2)
    assert best_set([], 0) == ()
    for impossible in (-1, 4):
        with pytest.raises(ValueError, match=str(impossible)):
            best_set(ties, impossible)


def test_a_great_many_cards_are_chosen_one_by_one_and_still_well() -> None:
    ties = table(100, [(4 if one // 8 == other // 8 else 0, -50) for one, other in combinations(range(100), 2)])
    assert best_set(ties, 8) == tuple(range(8))
    assert best_set(ties, 4) == (96, 97, 98, 99), "the last four are a group of their own"
    assert len(best_set(ties, 50)) == 50


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


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{at},8000,8000,2,T4\n" for at in range(4))
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(nodes)
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        + "p,1000,1000,1,1000,\nq,1000,1000,1,500,T4\nr,500,1,0,0,\n"
    )
    (tmp_path / "openb_pod_list_default.csv.gz").write_bytes(gzip.compress(pods.encode()))
    return tmp_path


@pytest.mark.parametrize("policy", placement.POLICIES_SHOWN)
def test_a_trace_whose_sizes_divide_a_card_is_filled_nearly(trace: Path, policy: str) -> None:
    way = placement.Way(trace)
    outcome = placement.fill(way, "default", policy, seed=1)
    assert outcome.filled >= 90
    assert placement.fill(way, "default", policy, seed=1).filled == outcome.filled


@pytest.mark.parametrize("policy", placement.POLICIES_SHOWN)
@pytest.mark.parametrize("together", [1, 4])
def test_through_offers_shares_and_whole_cards_are_filled_as_well(trace: Path, policy: str, together: int) -> None:
    found = placement.fill(placement.Way(trace, card_gib=100, together=together), "default", policy, seed=1)
    assert found.filled >= 90


def test_cards_of_few_gib_lose_what_is_not_a_whole_one(trace: Path) -> None:
    (trace / "openb_pod_list_third.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,10,10,1,330,\n"
    )
    filled = [
        placement.fill(placement.Way(trace, card_gib=gib), "third", "capacity", seed=1).filled for gib in (100, 4)
    ]
    # Three of a third fit on a card of 100 GiB; a third of 4 GiB is two.
    assert filled == [pytest.approx(99.0), pytest.approx(66.0)]


def test_the_table_names_the_way_without_offers_beside(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gains = placement.show(placement.Way(trace, card_gib=100, together=4), ["default"], ["capacity"], 1, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:2]] == [
        ["seed", "0:", "default", "capacity"],
        ["seed", "0:", "default", "no"],
    ]
    assert lines[2].split()[:4] == ["list", "published", "FGD", "capacity"]
    filled = float(lines[3].split()[2])
    assert gains == [pytest.approx(filled - placement.PUBLISHED["default"], abs=0.01)]


def test_what_is_ended_early_has_the_seeds_that_came_for_all_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "figures"))
    first, second = placement.Outcome(90.0, (1.0,)), placement.Outcome(96.0, (2.0,))
    found = {
        "default": {"fgd": [first, second], "capacity": [first]},
        "cpu050": {"fgd": [first], "capacity": list[placement.Outcome]()},
    }
    assert placement.show_table(placement.Way(tmp_path, every=4), found, "capacity") == [pytest.approx(90.0 - 95.23)]
    assert "cpu050" not in capsys.readouterr().out
    figures = {one.key: one for one in read_figures((tmp_path / "figures").read_text())}
    assert figures.keys() == {"default", "decision"}
    assert figures["default"].note == "90.00, seed 0; fgd 90.00"


def test_a_list_that_is_not_there_is_named(trace: Path) -> None:
    with pytest.raises(SystemExit, match="openb_pod_list_cpu050"):
        placement.pods_of(trace, "cpu050")
