"""Who starts, for whom something is kept, who gives way: single looks at the queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.queueing.decide import Decision, Start, decide
from mesos_gpu.queueing.parts import PartAsk, Sharer, fits, who_is_suspended
from mesos_gpu.queueing.places import PREFERENCES, fewest_first, members_that_fit, places
from mesos_gpu.queueing.preemption import give_way
from mesos_gpu.queueing.promise import Promise, promise
from mesos_gpu.queueing.values import Ask, Free, Running, rank_of, slots, taken, with_ended
from mesos_gpu.queueing.values import given as given_back
from tests.support.histories import examples


def machine(gpus: int, cpus: int = 64, mem: int = 512_000) -> Machine:
    return Machine(cpus * 1000, mem, (WHOLE,) * gpus)


def gpus(count: int, cpus: int = 1) -> Demand:
    return Demand(cpus * 1000, 1000, count)


def runs(unit: str, where: str, count: int, ends_s: float | None = inf, **more: Any) -> Running:
    return Running(unit, where, gpus(count), ends_s, **more)


FREE = {"a": machine(2), "b": machine(8), "c": machine(1), "d": machine(0)}


@pytest.mark.parametrize(
    ("policy", "taken"), [("capacity", {"c", "a"}), ("spread", {"b", "a"}), ("first_fit", {"a", "b"})]
)
def test_members_of_one_host_each_go_where_the_policy_likes(policy: str, taken: set[str]) -> None:
    ask = Ask("x", 0, gpus(1), size=2, one_per_host=True)
    prefer = PREFERENCES.get(policy)
    found = places(ask, FREE, prefer) if prefer else places(ask, FREE)
    assert found == dict.fromkeys(taken, 1)


LINKED = {
    "apart": machine(2),
    "linked": replace(machine(8), linked=(frozenset(range(8)),)),
    "paired": replace(machine(4), linked=(frozenset({0, 1}), frozenset({2, 3}))),
}


@pytest.mark.parametrize(
    ("policy", "taken"),
    [("capacity", {"linked", "paired"}), ("spread", {"linked", "paired"}), ("first_fit", {"apart", "linked"})],
)
def test_members_go_where_their_gpus_share_nvlink(policy: str, taken: set[str]) -> None:
    ask = Ask("x", 0, gpus(2), size=2, one_per_host=True)
    assert places(ask, LINKED, PREFERENCES.get(policy, fewest_first)) == dict.fromkeys(taken, 1)
    several = Ask("x", 0, gpus(2), size=2)
    assert places(several, {"roomy": machine(4), **LINKED}) == {"linked": 2}
    assert places(Ask("x", 0, gpus(1), size=2), LINKED) == {"apart": 2}, "one GPU is linked with nothing"
    assert places(Ask("x", 0, gpus(4), size=1), LINKED) == {"linked": 1}


def test_members_that_may_be_packed_take_as_few_machines_as_can_be() -> None:
    assert places(Ask("x", 0, gpus(1), size=2), FREE) == {"a": 2}
    assert places(Ask("x", 0, gpus(1), size=9), FREE) == {"b": 8, "c": 1}
    assert places(Ask("x", 0, gpus(1), size=12), FREE) is None


def test_members_without_gpus_prefer_the_machine_with_little_else() -> None:
    free = {"large": machine(0, 64), "small": machine(0, 2)}
    ask = Ask("x", 0, Demand(1000, 10), size=1, one_per_host=True)
    assert places(ask, free) == {"small": 1}


def test_a_gang_starts_whole_or_not_at_all_and_what_does_not_delay_it_goes_before_it() -> None:
    free = {"a": machine(8), "b": machine(1)}
    running = [runs("r", "b", 7, 100.0)]
    gang = Ask("gang", 0, gpus(8), size=2, one_per_host=True)
    short, long = Ask("short", 1, gpus(1), max_run_s=90, units=2), Ask("long", 2, gpus(1), max_run_s=101)
    found = decide([gang, long, short], free, running, 0.0)
    assert found.promise is not None
    assert (found.promise.at_s, found.promise.members) == (100.0, {"a": 1, "b": 1})
    assert found.fits == {"gang": 1, "long": 1}, "long would fit, and is held back"
    assert found.starts == (Start("short", {"b": 1}), Start("short", {"a": 1}))
    assert decide([gang], {"a": machine(8), "b": machine(8)}, [], 0.0).starts == (Start("gang", {"a": 1, "b": 1}),)


def test_what_a_gang_leaves_over_may_be_used_without_a_limit() -> None:
    free = {"a": machine(8, cpus=8), "b": machine(0)}
    gang = Ask("gang", 0, gpus(7, cpus=4), size=2, one_per_host=True)
    small = Ask("small", 1, gpus(1, cpus=1), units=3)
    found = decide([gang, small], free, [runs("r", "b", 8, 100.0)], 0.0)
    assert found.starts == (Start("small", {"a": 1}),)


def test_nobody_waits_for_a_gang_that_only_the_end_of_services_would_let_start() -> None:
    free = {"a": machine(8), "b": machine(0)}
    gang, small = Ask("gang", 0, gpus(8), size=2, one_per_host=True), Ask("small", 1, gpus(1))
    for ends_s, starts in ((None, 1), (inf, 0)):
        found = decide([gang, small], free, [runs("r", "b", 8, ends_s)], 0.0)
        assert (len(found.starts), found.promise is None) == (starts, bool(starts))
    assert found.promise is not None
    assert found.promise.at_s == inf


def test_machines_to_which_least_is_to_be_given_back_are_kept() -> None:
    free = {"a": machine(7), "b": machine(2), "c": machine(0)}
    running = [runs("ra", "a", 1), runs("rb", "b", 6), runs("rc", "c", 8)]
    gang, small = Ask("gang", 0, gpus(8)), Ask("small", 1, gpus(1), units=4)
    found = decide([gang, small], free, running, 0.0)
    assert found.promise is not None
    assert found.promise.members == {"a": 1}
    assert found.starts == (Start("small", {"b": 1}), Start("small", {"b": 1}))


def test_order_is_by_waiting_priority_and_share() -> None:
    def rank(since_s: float, priority: int = 0, share: float = 0.0) -> float:
        return rank_of(since_s, priority, share, aging_s=600, fair_s=300)

    assert rank(0) < rank(1)
    assert rank(599, priority=1) < rank(0) < rank(601, priority=1), "who waits long enough is not overtaken"
    assert rank(0, share=0.2) < rank(0, share=0.3)
    assert rank(0, priority=1, share=1.0) < rank(0), "a share never outweighs a point of priority"


def test_what_is_not_known_to_be_allowed_somewhere_is_not_taken() -> None:
    ask = Ask("x", 0, gpus(1), machines=frozenset({"c"}), units=2)
    found = decide([ask], FREE, [], 0.0)
    assert (found.starts, found.fits) == ((Start("x", {"c": 1}),), {"x": 0})


def preemptible(unit: str, where: str, count: int, since_s: float, **more: Any) -> Running:
    return runs(unit, where, count, since_s=since_s, preemptible=True, **more)


def test_least_is_lost_by_giving_way() -> None:
    free = {"a": machine(0), "b": machine(0)}
    running = [preemptible(f"a{n}", "a", 1, 90 + n) for n in range(8)] + [preemptible("b", "b", 8, 97)]
    whole = Ask("x", 0, gpus(8), priority=1)
    assert give_way(whole, free, running, 100.0) == ("b",), "24 GPU seconds instead of 52"
    assert give_way(Ask("x", 0, gpus(2), priority=1), free, running, 100.0) == ("a7", "a6")
    assert give_way(Ask("x", 0, gpus(1), size=2, one_per_host=True, priority=1), free, running, 100.0) == ("a7", "b")


def test_only_who_has_less_priority_gives_way_and_only_when_that_helps() -> None:
    free = {"a": machine(1)}
    running = [preemptible("p", "a", 2, 0), runs("r", "a", 1)]
    assert give_way(Ask("x", 0, gpus(3)), free, running, 1.0) == ()
    assert give_way(Ask("x", 0, gpus(3), priority=1), free, running, 1.0) == ("p",)
    assert give_way(Ask("x", 0, gpus(4), priority=1), free, running, 1.0) == ()
    assert give_way(Ask("x", 0, gpus(3), priority=1), free, [preemptible("p", "a", 2, 0, ending=True)], 1.0) == ()


def test_a_gang_that_gives_way_does_so_as_a_whole_and_the_place_is_kept() -> None:
    free = {"a": machine(0), "b": machine(0)}
    running = [preemptible("g", "a", 4, 0), preemptible("g", "b", 4, 0), preemptible("o", "b", 4, 0, priority=5)]
    found = decide([Ask("x", 0, gpus(4), priority=3), Ask("y", 1, gpus(1), max_run_s=1)], free, running, 10.0)
    assert (found.gives_way, found.starts) == (("g",), ())
    assert found.promise is not None
    assert (found.promise.at_s, found.promise.ask.id) == (10.0, "x")


def test_nobody_is_suspended_where_it_fits_or_where_that_is_in_vain() -> None:
    small = Sharer("small", "m", {0: (4, 1)})
    assert who_is_suspended(PartAsk((6,), 1), {"m": {0: (6, 1)}}, [small]) == ()
    assert who_is_suspended(PartAsk((6,), 1), {"m": {0: (1, 1)}}, [small]) == ()
    assert who_is_suspended(PartAsk((6,), 3), {"m": {0: (6, 1)}}, [small]) == (), "slices count, too"
    assert who_is_suspended(PartAsk((6,), 2), {"m": {0: (6, 1)}}, [small]) == ("small",)


def test_the_smallest_one_that_is_enough_goes_and_of_equal_ones_the_youngest() -> None:
    tasks = [
        Sharer("large", "m", {0: (9, 1)}),
        Sharer("old", "m", {0: (5, 1)}, since_s=1.0),
        Sharer("young", "m", {0: (5, 1)}, since_s=2.0),
        Sharer("elsewhere", "other", {0: (5, 1)}, since_s=3.0),
        Sharer("other card", "m", {1: (5, 1)}, since_s=4.0),
    ]
    assert who_is_suspended(PartAsk((5,), 1), {"m": {0: (0, 0)}}, tasks) == ("young",)
    assert who_is_suspended(PartAsk((10,), 1), {"m": {0: (0, 0)}}, tasks) == ("large", "young")
    assert who_is_suspended(PartAsk((5, 5), 1), {"m": {0: (0, 0), 1: (0, 0)}}, tasks) == ("large", "other card")


AMOUNT = st.tuples(st.integers(0, 6), st.integers(0, 3))
SHARERS = st.lists(
    st.tuples(st.sampled_from(["m", "n"]), st.dictionaries(st.integers(0, 1), AMOUNT, min_size=1)), max_size=5
)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=2),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["m", "n"]), st.dictionaries(st.integers(0, 1), AMOUNT, min_size=1)),
    SHARERS,
)
def test_who_goes_is_enough_and_nobody_goes_needlessly(
    amounts: list[int],
    weight: int,
    rooms: dict[str, dict[int, tuple[int, int]]],
    drawn: list[tuple[str, dict[int, tuple[int, int]]]],
) -> None:
    ask = PartAsk(tuple(amounts), weight)
    tasks = [Sharer(str(number), machine, parts) for number, (machine, parts) in enumerate(drawn)]

    def enough(machine: str, gone: tuple[Sharer, ...]) -> bool:
        room = dict(rooms[machine])
        for one in gone:
            for card, (memory, slices) in one.parts.items():
                if card in room:
                    room[card] = (room[card][0] + memory, room[card][1] + slices)
        return fits(ask, room)

    chosen = tuple(task for task in tasks if task.unit in who_is_suspended(ask, rooms, tasks))
    here = {machine: [task for task in tasks if task.machine == machine] for machine in rooms}
    if any(enough(machine, ()) for machine in rooms):
        assert chosen == ()
    elif chosen:
        (machine,) = {task.machine for task in chosen}
        assert enough(machine, chosen)
        assert not any(enough(machine, tuple(t for t in chosen if t is not one)) for one in chosen)
    else:
        ways = (
            way
            for one, found in here.items()
            for count in range(len(found) + 1)
            for way in combinations(found, count)
            if enough(one, way)
        )
        assert next(ways, None) is None, "somebody could have made room"


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
