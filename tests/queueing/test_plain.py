"""The short ways of counting places say what the long ones do: one member, one task, one that waits after another."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.queueing.decide import Decision, Start, decide
from mesos_gpu.queueing.places import members_that_fit, places
from mesos_gpu.queueing.promise import Promise, promise
from mesos_gpu.queueing.values import Ask, Free, Running, slots, taken, with_ended
from mesos_gpu.queueing.values import given as given_back
from tests.support.histories import examples

NAMES = "m0", "m1", "m2"
SETS = ((), (frozenset({0, 1}), frozenset({2, 3})))
whole = st.builds(
    Demand,
    st.sampled_from([0, 1000, 2000, 3000]),
    st.sampled_from([0, 10, 25]),
    gpus=st.integers(0, 3),
    models=st.sampled_from([frozenset(), frozenset({"A"}), frozenset({"B"})]),
)
parts = st.builds(Demand, st.sampled_from([0, 1000]), st.sampled_from([0, 10]), share_milli=st.sampled_from([1, 400]))
machines = st.builds(
    Machine,
    st.integers(0, 9).map(lambda cpus: 1000 * cpus),
    st.integers(0, 60),
    st.lists(st.sampled_from([WHOLE, WHOLE, 500, 0]), max_size=6).map(tuple),
    st.sampled_from(["", "A"]),
    st.sampled_from(SETS),
)
asks = st.builds(
    Ask,
    st.just("one"),
    st.just(0.0),
    whole | parts,
    size=st.integers(1, 4),
    one_per_host=st.booleans(),
)


@given(asks, machines, st.integers(0, 5))
def test_as_many_members_fit_as_can_be_placed_one_by_one(ask: Ask, machine: Machine, most: int) -> None:
    count, left = 0, machine
    while count < (min(1, most) if ask.one_per_host else most) and left.fits(ask.demand):
        left, count = taken(left, ask.demand), count + 1
    assert slots(ask, machine, most) == count


@given(
    st.dictionaries(st.sampled_from(NAMES), machines),
    st.lists(st.builds(Running, st.just("u"), st.sampled_from([*NAMES, "m3"]), whole), max_size=8),
)
def test_what_is_free_once_tasks_have_ended_is_what_each_gives_back(free: Free, tasks: list[Running]) -> None:
    expected = dict(free)
    for task in tasks:
        expected[task.machine] = given_back(expected.get(task.machine, Machine(0, 0)), task.demand)
    found = with_ended(free, tasks)
    assert list(found.items()) == list(expected.items())


def plainly(asks: Sequence[Ask], free: Free, running: Sequence[Running], now_s: float) -> Decision:
    """Decide with nothing remembered of those that came before; nobody gives way here."""
    left, tasks, starts = dict(free), list(running), list[Start]()
    kept: Promise | None = None
    fits: dict[str, int] = {}
    for ask in sorted(asks, key=lambda each: (each.rank, each.id)):
        for _ in range(ask.units):
            members = places(ask, left, most=None if kept is None else kept.spares(ask, now_s))
            if members is None:
                fits[ask.id] = members_that_fit(ask, left)
                kept = kept or promise(ask, left, tasks)
                break
            starts.append(Start(ask.id, members))
            for name, count in members.items():
                for _ in range(count):
                    left[name] = taken(left[name], ask.demand)
                    tasks.append(Running(ask.id, name, ask.demand, ask.ends_s(now_s), now_s))
            kept = kept.beside(ask, members, now_s) if kept is not None else None
    return Decision(tuple(starts), kept, fits)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(1, 1, 8), (2, 1, 8), (1, 2, 8), (2, 2, 8), (3, 1, 100)]),
            st.sampled_from([None, None, 20.0, 90.0]),
            st.integers(1, 2),
        ),
        min_size=3,
        max_size=12,
    ),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.sampled_from([30.0, 60.0, inf])), max_size=5),
)
def test_those_that_ask_for_the_same_are_decided_as_if_each_were_alone(
    waiting: list[tuple[tuple[int, int, int], float | None, int]], run: list[tuple[str, int, float]]
) -> None:
    free = {name: Machine(8000, 400, (WHOLE,) * gpus) for gpus, name in enumerate(NAMES, 1)}
    running = [Running(f"r{n}", name, Demand(1000, 8, gpus), ends) for n, (name, gpus, ends) in enumerate(run)]
    asked = [
        Ask(f"a{n}", float(n), Demand(1000, mem, gpus), size, units, one_per_host=size > 1, max_run_s=max_run_s)
        for n, ((gpus, size, mem), max_run_s, units) in enumerate(waiting)
    ]
    assert decide(asked, free, running, 10.0) == plainly(asked, free, running, 10.0)
