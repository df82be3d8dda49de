"""The fewest moves that make GPUs usable, held against trying all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.why.fragments import fragments, sizes_of
from mesos_gpu.marathon.why.moves import Movable, movable_of, plan_moves
from mesos_gpu.marathon.why.request import spec_of
from tests.support.histories import examples
from tests.support.marathon.why import agent, app

SHAPES = {"a": (4, 8), "b": (4, 8), "c": (0, 8)}
"""GPUs and CPUs of the machines."""


def machines(tasks: list[tuple[str, int, int]]) -> list[Machine]:
    """Machines on which these run: pairs of machine, GPUs and CPUs."""
    found = []
    for name, (gpus, cpus) in SHAPES.items():
        mine = [task for task in tasks if task[0] == name]
        used = {"gpus": sum(task[1] for task in mine), "cpus": sum(task[2] for task in mine)}
        found.append(agent(name, total={"gpus": gpus, "cpus": cpus}, used=used))
    return found


def movables(tasks: list[tuple[str, int, int]]) -> list[Movable]:
    return [
        Movable("/x", f"t{at}", f"A-{name}", (1000 * gpus, 1000 * cpus, 0))
        for at, (name, gpus, cpus) in enumerate(tasks)
    ]


def stranded(tasks: list[tuple[str, int, int]], sizes: Any) -> int:
    return sum(one.stranded for one in fragments(machines(tasks), sizes))


def fits(tasks: list[tuple[str, int, int]]) -> bool:
    return all(
        sum(task[1] for task in tasks if task[0] == name) <= gpus
        and sum(task[2] for task in tasks if task[0] == name) <= cpus
        for name, (gpus, cpus) in SHAPES.items()
    )


def all_moves(tasks: list[tuple[str, int, int]], count: int) -> Iterator[list[tuple[str, int, int]]]:
    """What there would be after so many moves, each with room when it comes."""
    for order in permutations(range(len(tasks)), count):
        for targets in product(SHAPES, repeat=count):
            now = list(tasks)
            for at, to in zip(order, targets, strict=True):
                now[at] = (to, *tasks[at][1:])
                if to == tasks[at][0] or not fits(now):
                    break
            else:
                yield now


@st.composite
def clusters(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    tasks: list[tuple[str, int, int]] = []
    for _ in range(draw(st.integers(1, 4))):
        task = (draw(st.sampled_from("abc")), draw(st.sampled_from([0, 0, 1, 2])), draw(st.integers(1, 7)))
        if fits([*tasks, task]):
            tasks.append(task)
    return tasks


@settings(max_examples=examples(60))
@given(clusters(), st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 4)), min_size=1, max_size=2))
def test_no_fewer_moves_gain_and_no_others_gain_more(
    tasks: list[tuple[str, int, int]], mix: list[tuple[int, int]]
) -> None:
    sizes = sizes_of([spec_of(app(gpus=gpus, cpus=cpus, mem=0)) for gpus, cpus in mix], [])
    found = plan_moves(machines(tasks), sizes, movables(tasks))
    before = stranded(tasks, sizes)
    best = {n: before - min((stranded(now, sizes) for now in all_moves(tasks, n)), default=before) for n in (1, 2)}
    fewest = next((count for count in (1, 2) if best[count] > 0), 3)
    if found:
        assert len(found[0].moves) == fewest or (fewest == 3 and len(found[0].moves) == 3)
        if fewest < 3:
            assert found[0].gpus == best[fewest]
    else:
        assert fewest == 3
    now = list(tasks)
    for gain in found:
        had = stranded(now, sizes)
        for move in gain.moves:
            at = int(move.task.task_id[1:])
            assert move.task.agent_id == f"A-{now[at][0]}"
            now[at] = (move.to.removeprefix("A-"), *now[at][1:])
            assert fits(now)
        assert had - stranded(now, sizes) == gain.gpus


def test_what_takes_the_cpus_beside_free_gpus_goes_where_no_gpus_are() -> None:
    tasks = [("a", 0, 7), ("b", 4, 4)]
    (gain,) = plan_moves(machines(tasks), sizes_of([spec_of(app(gpus=2, cpus=2, mem=0))], []), movables(tasks))
    assert (gain.gpus, [(move.task.task_id, move.to) for move in gain.moves]) == (4, [("t0", "A-c")])


def test_without_a_mix_or_stranded_gpus_nothing_moves() -> None:
    tasks = [("a", 0, 7)]
    assert plan_moves(machines(tasks), [], movables(tasks)) == []
    assert plan_moves(machines([]), sizes_of([spec_of(app(gpus=1))], []), []) == []


def test_machines_with_reservations_are_no_targets() -> None:
    kept = agent("c", total={"gpus": 0}, reserved_resources={"ml": {"cpus": 1}}, unreserved_resources={"cpus": 8})
    agents = [*machines([("a", 0, 7), ("b", 4, 4)])[:2], kept]
    assert plan_moves(agents, sizes_of([spec_of(app(gpus=2, cpus=2, mem=0))], []), movables([("a", 0, 7)])) == []


RUNS = {"id": "t", "slaveId": "A-a", "state": "TASK_RUNNING", "version": "2026-01-02T00:00:00.000Z"}


@pytest.mark.parametrize(
    "bound",
    [
        {"constraints": [["hostname", "UNIQUE"]]},
        {"gang": {"size": 2}},
        {"container": {"volumes": [{"containerPath": "d", "persistent": {"size": 1}}]}},
        {"container": {"volumes": [{"containerPath": "d", "external": {"name": "x"}}]}},
        {"portDefinitions": [{"port": 31000}], "requirePorts": True},
        {"acceptedResourceRoles": ["ml"]},
        {"gpuShare": {"memGiB": 1}},
        {"deployments": [{"id": "d"}]},
        {"versionInfo": {"lastConfigChangeAt": "2026-01-03T00:00:00.000Z"}},
        {"tasks": [{**RUNS, "state": "TASK_STAGING"}]},
    ],
)
def test_what_is_bound_stays(bound: dict[str, Any]) -> None:
    free = app(tasks=[RUNS], versionInfo={"lastConfigChangeAt": "2026-01-02T00:00:00.000Z"}, role="*")
    assert [each.needs for each in movable_of([free])] == [(2000, 1000, 128_000)]
    assert movable_of([{**free, **bound}]) == []
