"""Which GPUs are given together, on machines described in data/: NVLinks, and PCIe in the words of nvidia-smi."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Gpu, Level, Link, MigInstance, Topology
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.topology import best, linked_sets
from mesos_gpu.gpu.wirings import WIRINGS, wiring_of
from tests.gpu.described import gpus, machine
from tests.support.golden import Golden
from tests.support.simulated.played import Played


def chosen(name: str, free: Sequence[int], count: int) -> list[int]:
    found, topology = machine(name)
    return sorted(gpu.index for gpu in best([found[index] for index in free], count, topology))


ALL_8, ALL_16 = range(8), range(16)


@pytest.mark.parametrize(
    ("name", "free", "count", "expected"),
    [
        # Two links beat one, near or far; of pairs with two the near one is taken.
        ("dgx-1", ALL_8, 2, [2, 3]),
        ("dgx-1", [0, 1, 3, 4], 2, [0, 3]),
        ("dgx-1", [0, 1, 4, 5], 2, [0, 4]),
        ("dgx-1", [1, 2, 4, 5, 6, 7], 2, [6, 7]),
        # One link beats a common PCIe switch without any.
        ("dgx-1", [1, 2, 4], 2, [1, 2]),
        ("dgx-1", [0, 5, 7], 2, [5, 7]),
        ("dgx-1", ALL_8, 3, [0, 2, 3]),
        # The quads are the sets in which every pair has a link.
        ("dgx-1", ALL_8, 4, [0, 1, 2, 3]),
        ("dgx-1", [0, 2, 3, 4, 5, 6, 7], 4, [4, 5, 6, 7]),
        ("dgx-1", ALL_8, 8, list(ALL_8)),
        # On NVSwitches all pairs have the same links; then PCIe decides, then the lowest numbers.
        ("hgx-h100", ALL_8, 2, [0, 1]),
        ("hgx-h100", [1, 3, 5, 6], 2, [1, 3]),
        ("hgx-h100", [3, 5, 6], 2, [5, 6]),
        ("hgx-h100", [0, 4, 5, 6, 7], 4, [4, 5, 6, 7]),
        ("dgx-2", ALL_16, 2, [0, 1]),
        ("dgx-2", ALL_16, 4, [0, 1, 2, 3]),
        ("dgx-2", ALL_16, 8, list(range(8))),
        ("dgx-2", [1, 2, 5, 8, 9, 15], 2, [8, 9]),
        ("dgx-2", [0, *range(7, 16)], 8, list(range(8, 16))),
        # Without NVLink: one switch, then several, then the host bridge, then the socket, then anything.
        # The pairs are alike; of the second socket one leaves less that is near behind.
        ("pcie-2-sockets", ALL_8, 2, [4, 5]),
        ("pcie-2-sockets", [0, 2, 4, 5], 2, [4, 5]),
        ("pcie-2-sockets", [0, 2, 4, 6], 2, [0, 2]),
        ("pcie-2-sockets", [1, 4, 6], 2, [4, 6]),
        ("pcie-2-sockets", [3, 4], 2, [3, 4]),
        ("pcie-2-sockets", [0, 4, 5, 6, 7], 4, [4, 5, 6, 7]),
        ("pcie-2-sockets", [1, 2, 3, 4, 5, 6], 3, [1, 2, 3]),
        ("pcie-2-sockets", ALL_8, 1, [4]),
        ("pcie-2-sockets", ALL_8, 0, []),
        # One GPU: of a set that is broken already, else of the smallest.
        ("dgx-1", ALL_8, 1, [0]),
        ("dgx-1", [0, 1, 2, 3, 5], 1, [5]),
        ("dgx-1", [0, 1, 2, 3, 6, 7], 1, [6]),
        ("dgx-2", [0, 1, 2, 3, 4], 1, [4]),
        ("pcie-2-sockets", [0, 1, 2, 3, 4], 1, [4]),
        ("pcie-2-sockets", [0, 2, 3], 1, [0]),
    ],
)
def test_best_connected_set_is_given(name: str, free: Sequence[int], count: int, expected: list[int]) -> None:
    assert chosen(name, free, count) == expected


def test_without_a_topology_the_lowest_are_given() -> None:
    assert sorted(gpu.index for gpu in best(gpus(8)[2:], 3, Topology())) == [2, 3, 4]


def test_instances_of_one_gpu_are_kept_together() -> None:
    parts = [
        Gpu(minor, minor, f"MIG-{minor}-{part}", "part", mig=MigInstance(f"GPU-{minor}", part, 0, ()))
        for minor, part in ((0, 1), (1, 1), (1, 2))
    ]
    topology = Topology({frozenset(("GPU-0", "GPU-1")): Link(Level.SINGLE_SWITCH)})
    assert {gpu.uuid for gpu in best(parts, 2, topology)} == {"MIG-1-1", "MIG-1-2"}


@pytest.mark.parametrize("count", [-1, 5])
def test_impossible_count_is_a_mistake_of_the_caller(count: int) -> None:
    with pytest.raises(ValueError, match=str(count)):
        best(gpus(4), count, Topology())


LINKS = st.builds(Link, st.sampled_from(Level), st.integers(0, 4))


@given(st.lists(LINKS, min_size=28, max_size=28), st.data())
def test_order_of_the_free_gpus_does_not_matter(links: list[Link], data: st.DataObject) -> None:
    """Which set is best is tested in tests/placement/test_card_sets.py."""
    found = gpus(8)
    pairs = [frozenset((one.uuid, other.uuid)) for one, other in combinations(found, 2)]
    topology = Topology(dict(zip(pairs, links, strict=True)))
    free = data.draw(st.lists(st.sampled_from(found), unique=True))
    count = data.draw(st.integers(0, len(free)))
    given_set = best(free, count, topology)
    assert len(given_set) == count
    assert given_set <= set(free)
    assert best(data.draw(st.permutations(free)), count, topology) == given_set


def test_a_great_many_gpus_are_chosen_one_by_one_and_still_well() -> None:
    found = gpus(254)
    topology = Topology(
        {
            frozenset((one.uuid, other.uuid)): Link(Level.SYSTEM, 4 if one.index // 8 == other.index // 8 else 0)
            for one, other in combinations(found, 2)
        }
    )
    assert {gpu.index for gpu in best(found[3:], 8, topology)} == set(range(8, 16))
    assert len(best(found, 128, topology)) == 128


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("dgx-1", {(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7)}),
        ("hgx-h100", {tuple(range(8))}),
        ("dgx-2", {tuple(range(16))}),
        ("pcie-2-sockets", set()),
    ],
)
def test_sets_that_share_nvlink_are_those_to_which_no_more_can_be_added(name: str, sets: set[tuple[int, ...]]) -> None:
    assert {tuple(sorted(some)) for some in linked_sets(*machine(name))} == sets


@given(st.integers(0, 7), st.data())
def test_linked_sets_are_all_there_are(count: int, data: st.DataObject) -> None:
    found = gpus(count)
    pairs = [(one, other) for one, other in combinations(range(count), 2) if data.draw(st.booleans())]
    links = {frozenset((found[one].uuid, found[other].uuid)): Link(Level.SYSTEM, 1) for one, other in pairs}
    all_sets = [
        frozenset(some)
        for size in range(2, count + 1)
        for some in combinations(range(count), size)
        if all(pair in pairs for pair in combinations(some, 2))
    ]
    largest = {some for some in all_sets if not any(some < other for other in all_sets)}
    told = linked_sets(found, Topology(links))
    assert len(told) == len(set(told))
    assert set(told) == largest


def test_mig_instances_share_no_nvlink() -> None:
    found = gpus(2)
    parts = [Gpu(0, 0, f"MIG-{part}", "part", mig=MigInstance("GPU-0", part, 0, ())) for part in (1, 2)]
    topology = Topology({frozenset(("GPU-0", "GPU-1")): Link(Level.SYSTEM, 4)})
    assert linked_sets([*parts, found[1]], topology) == ()


SIZES = [(name, wiring.most or 6) for name, wiring in WIRINGS.items()]


def simulated(name: str, count: int) -> SimulatedDriver:
    return SimulatedDriver(count, make=Make(topology=name))


@pytest.mark.parametrize(("name", "described"), [("dgx-1", "dgx-1"), ("dgx-h100", "hgx-h100")])
def test_machines_are_as_they_are_described(name: str, described: str) -> None:
    gpus, topology = machine(described)
    for one, other in combinations(gpus, 2):
        assert WIRINGS[name].between(one.index, other.index) == topology.between(one, other)


def test_a_dgx_a100_has_all_links_between_any_two_and_two_gpus_at_each_numa_node() -> None:
    wiring = WIRINGS["dgx-a100"]
    assert wiring.between(0, 1) == Link(Level.MULTIPLE_SWITCHES, 12)
    assert wiring.between(1, 2) == wiring.between(0, 7) == Link(Level.SYSTEM, 12)
    assert [wiring.numa_node(index) for index in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_without_word_of_it_pairs_are_bridged_as_ever() -> None:
    driver = SimulatedDriver(8)
    gpus, topology = driver.gpus(), driver.topology()
    assert topology.between(gpus[0], gpus[1]) == Link(Level.SINGLE_SWITCH, 4)
    assert topology.between(gpus[1], gpus[2]) == Link(Level.HOST_BRIDGE)
    assert topology.between(gpus[3], gpus[4]) == Link(Level.SYSTEM)
    assert simulated("pcie", 8).topology().between(gpus[0], gpus[1]) == Link(Level.SINGLE_SWITCH)


@pytest.mark.parametrize(("name", "gpus"), [("ring", 4), ("dgx-1", 9)])
def test_machines_that_are_not_sold_are_refused(name: str, gpus: int, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        wiring_of(name, gpus)
    assert str(refused.value) == golden
    with pytest.raises(BadFlag) as refused:
        simulated(name, gpus)
    assert str(refused.value) == golden


def taken_in_turn(name: str, *counts: int) -> list[list[int]]:
    """The indices that tasks of so many GPUs get on an idle machine, one after another."""
    driver = simulated(name, WIRINGS[name].most or 8)
    free, given = set(driver.gpus()), []
    for count in counts:
        chosen = best(free, count, driver.topology())
        free -= chosen
        given.append(sorted(gpu.index for gpu in chosen))
    return given


def test_single_gpus_fill_up_broken_sets_before_whole_ones_are_broken() -> None:
    assert taken_in_turn("pairs", 1, 2, 1, 2) == [[0], [2, 3], [1], [4, 5]]
    assert taken_in_turn("dgx-1", 1, 4, 1, 2) == [[0], [4, 5, 6, 7], [1], [2, 3]]
    assert taken_in_turn("dgx-a100", 1, 2, 1) == [[0], [2, 3], [1]], "where links are equal, PCIe decides"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), SIZES)
def test_nvml_in_a_container_shows_the_machine_that_was_asked_for(tmp_path: Path, name: str, count: int) -> None:
    """The driver of agents, over the library that programs in containers load: back to where it came from."""
    played = Played(tmp_path, count, topology=name)
    try:
        said = played.run(
            "import json\n"
            "from mesos_gpu.gpu.nvml import NvmlDriver\n"
            "driver = NvmlDriver()\n"
            "links = driver.topology().links.items()\n"
            "print(json.dumps([[sorted(pair), int(link.level), link.nvlinks] for pair, link in links]))\n"
        )
    finally:
        played.end()
    links = {frozenset(pair): Link(Level(level), nvlinks) for pair, level, nvlinks in json.loads(said)}
    assert Topology(links) == simulated(name, count).topology()


@pytest.mark.slow
def test_a_container_with_some_of_the_gpus_sees_how_these_are_connected(tmp_path: Path) -> None:
    played = Played(tmp_path, 8, topology="dgx-1")
    try:
        for index in (0, 1, 3, 6):
            (played.dev / f"nvidia{index}").unlink()
        said = played.run(
            "import json\n"
            "from mesos_gpu.gpu.nvml import NvmlDriver\n"
            "driver = NvmlDriver()\n"
            "gpus, topology = driver.gpus(), driver.topology()\n"
            "print(json.dumps([[topology.between(one, other).nvlinks for other in gpus] for one in gpus]))\n"
        )
    finally:
        played.end()
    there = (2, 4, 5, 7)
    mesh = [[0 if one == other else WIRINGS["dgx-1"].direct(one, other) for other in there] for one in there]
    assert json.loads(said) == mesh
