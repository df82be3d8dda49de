"""Machines that simulated GPUs can be: as described in data/, as agents see them, and as NVML shows them."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Level, Link, Topology
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.topology import best
from mesos_gpu.gpu.wirings import WIRINGS, wiring_of
from tests.gpu.described import machine
from tests.support.golden import Golden
from tests.support.simulated.played import Played

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
