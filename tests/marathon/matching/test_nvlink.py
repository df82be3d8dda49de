"""Which of an offer's GPUs share NVLink, as far as a scheduler can know."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.topology import best, linked_sets
from mesos_gpu.marathon.matching.nvlink import free_cards, with_links
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.placement_demand import machine
from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.model.usage import Held
from mesos_gpu.mesos.ids import AgentId, TaskId
from mesos_gpu.mesos.shares.gpu_links import read_links
from mesos_gpu.placement.demand import Machine
from tests.support.marathon.builders import offer

PAIRS = "0-1/2-3/4-5/6-7"


def task(*cards: int, gpus: int = 0, agent: str = "S0") -> Task:
    held = Held(gpus=1000 * (gpus or len(cards)))
    return Task(TaskId("t"), AgentId(agent), "h", (), "v", 0.0, whole_cards=cards, held=held)


def left(gpus: int, *tasks: Task, links: str | None = PAIRS, **changes: Any) -> Machine:
    attributes = {} if links is None else {"gpu_nvlink": links}
    found = Offer.from_json(offer(gpus=gpus, attributes=attributes, **changes))
    return with_links(machine(found, found.resources), found, {"S0": tasks})


def test_an_idle_machine_has_all_its_sets() -> None:
    assert left(8).linked == (frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5}), frozenset({6, 7}))
    assert left(8, links="0-1-2-3-4-5-6-7").most_linked == 8


def test_a_machine_that_says_nothing_has_none() -> None:
    assert left(8, links=None).linked == ()
    assert left(8, links="all").linked == ()
    assert left(1).linked == (), "one GPU is linked with nothing"


@pytest.mark.parametrize(
    ("tasks", "most"),
    [
        ([task(0), task(2), task(4), task(6)], 0),
        ([task(0), task(1), task(2), task(4)], 2),
        ([task(0, 1, 2, 3)], 2),
    ],
)
def test_which_cards_our_tasks_have_counts(tasks: list[Task], most: int) -> None:
    assert left(4, *tasks).most_linked == most


def test_of_tasks_that_did_not_say_yet_it_is_assumed_that_they_got_what_agents_give() -> None:
    assert left(5, task(0), task(gpus=1), task(gpus=1)).most_linked == 2
    assert left(5, task(0), task(gpus=1), task(gpus=1)).linked == left(5, task(0), task(1), task(2)).linked
    assert left(4, task(0), task(gpus=3)).linked == left(4, task(0), task(1, 2, 3)).linked


def test_others_are_taken_for_tidy() -> None:
    """Tasks of other frameworks: nobody tells whose cards are whose."""
    assert left(5).linked == left(5, task(0), task(1), task(2)).linked
    assert left(4, task(3)).linked == left(4, task(3), task(2), task(0), task(1)).linked


def test_cards_beyond_those_of_sets_are_linked_with_nothing() -> None:
    assert left(4, links="0-1").linked == (frozenset({0, 1}),)
    assert left(3, task(0), links="0-1").linked == ()


def test_nothing_that_is_told_can_break_it() -> None:
    chance = random.Random(1)
    sets = read_links("0-1-2-3/4-5-6-7/0-4/1-5/2-6/3-7")
    for _ in range(500):
        tasks = [
            task(*chance.sample(range(10), chance.randint(0, 4)), gpus=chance.randint(0, 9))
            for _ in range(chance.randint(0, 4))
        ]
        count = chance.randint(0, 10)
        assert len(free_cards(sets, tasks, count)) <= max(count, 0) or count > 8


@pytest.mark.parametrize("name", ["pairs", "dgx-1", "dgx-a100"])
def test_what_is_known_of_our_own_tasks_is_how_it_is(name: str) -> None:
    """Random histories of an agent that has no tasks but ours."""
    driver = SimulatedDriver(8, make=Make(topology=name))
    gpus, topology = driver.gpus(), driver.topology()
    sets = linked_sets(gpus, topology)
    for seed in range(30):
        chance, free, tasks = random.Random(seed), set(gpus), []
        for _ in range(20):
            count = chance.choice((1, 1, 2, 3, 4))
            if count <= len(free):
                given = best(free, count, topology)
                free -= given
                tasks.append(given)
            elif tasks:
                free |= tasks.pop(chance.randrange(len(tasks)))
            ours = [task(*sorted(gpu.index for gpu in given)) for given in tasks]
            assert free_cards(sets, ours, len(free)) == sorted(gpu.index for gpu in free)
