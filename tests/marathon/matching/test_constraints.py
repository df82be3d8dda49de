"""Constraint operators, one table row each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.matching.constraints import from_fullest, fulfilled
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import Instance, Task
from tests.support.marathon.builders import offer, spec


def task(host: str, rack: str | None = None) -> Task:
    attributes = () if rack is None else (("rack", rack),)
    return Task(f"t-{host}", "S", host, (), "v", 1.0, attributes=attributes, region=None, zone="z1")


MEMORY = {"name": "memory", "type": "SCALAR", "scalar": {"value": 143771.0}}
KEYS = {"name": "keys", "type": "RANGES", "ranges": {"range": [{"begin": 1, "end": 5}]}}


def decide(constraint: Sequence[str], placed: Sequence[Task] = (), *, instances: int = 4, **changes: object) -> bool:
    document = offer(**{"host": "h1", "attributes": {"rack": "r1", "size": "3"}, **changes})  # type: ignore[arg-type]
    document["attributes"] += [MEMORY, KEYS]
    return fulfilled(constraint, Offer.from_json(document), placed, instances)


@pytest.mark.parametrize(
    ("constraint", "placed", "accepted"),
    [
        (["hostname", "UNIQUE"], [], True),
        (["hostname", "unique"], [task("h1")], False),
        (["@hostname", "UNIQUE"], [task("h2")], True),
        (["rack", "UNIQUE"], [task("h2", "r1")], False),
        (["rack", "CLUSTER", "r1"], [], True),
        (["rack", "CLUSTER", "r2"], [], False),
        (["rack", "CLUSTER"], [], True),
        (["rack", "CLUSTER"], [task("h2", "r1")], True),
        (["rack", "CLUSTER"], [task("h2", "r2")], False),
        (["rack", "LIKE", "r[12]"], [], True),
        (["rack", "LIKE", "r"], [], False),
        (["rack", "UNLIKE", "r"], [], True),
        (["rack", "UNLIKE", "r."], [], False),
        (["rack", "LIKE", "("], [], False),
        (["rack", "IS", "r1"], [], True),
        (["rack", "IS", "r2"], [], False),
        (["size", "IS", "3.000"], [], True),
        (["memory", "IS", "143771"], [], True),
        (["memory", "LIKE", "14\\d+"], [], True),
        (["keys", "IS", "[1-5]"], [], True),
        (["@hostname", "LIKE", "h[0-9]"], [], True),
        (["@region", "UNLIKE", "eu"], [], True),
        (["rack", "MAX_PER", "2"], [task("h2", "r1")], True),
        (["rack", "MAX_PER", "2"], [task("h2", "r1"), task("h3", "r1")], False),
        (["rack", "GROUP_BY", "2"], [task("h2", "r1"), task("h3", "r1")], False),
        (["rack", "GROUP_BY", "2"], [task("h2", "r1"), task("h3", "r2")], True),
        (["rack", "GROUP_BY", "2"], [task("h2", "r2"), task("h3", "r3")], False),
        (["rack", "GROUP_BY"], [task("h2", "r2"), task("h3", "r2")], True),
        (["nowhere", "UNIQUE"], [], False),
        (["nowhere", "LIKE", ".*"], [], False),
        (["nowhere", "UNLIKE", ".*"], [], True),
        (["@zone", "IS", "z1"], [], False),
    ],
)
def test_operators(constraint: list[str], placed: list[Task], accepted: bool) -> None:
    assert decide(constraint, placed) is accepted


@pytest.mark.timeout(10)
@pytest.mark.parametrize("pattern", ["(.|.|.)*x", "(h+)+x", "(.|.|.|.)*x" * 50, "(((h?){1000}){1000}){1000}x"])
def test_no_expression_keeps_matching_busy(pattern: str) -> None:
    far = "h" * 253
    assert not decide(["hostname", "LIKE", pattern], host=far)
    assert decide(["hostname", "UNLIKE", pattern], host=far)


@pytest.mark.parametrize(
    ("pattern", "accepted"),
    [
        ("(?<rack>r)1", True),
        ("(?i)R[^S]", True),
        ("R[^S]", False),
        (r"r\d++", True),
        (r"\p{L}1", False),  # only Java knows it
        ("(?=r)r1", False),  # kept from before such were refused
        ("[[r]1]", False),
        ("r" * 2000, False),
    ],
)
def test_expressions_of_java(pattern: str, accepted: bool) -> None:
    assert decide(["rack", "LIKE", pattern]) is accepted


def test_region_and_zone_come_from_the_fault_domain() -> None:
    domain = {"fault_domain": {"region": {"name": "eu"}, "zone": {"name": "z1"}}}
    assert decide(["@region", "IS", "eu"], domain=domain)
    assert not decide(["@zone", "UNIQUE"], [task("h9")], domain=domain)


def test_group_by_spreads_five_over_two_as_three_and_two() -> None:
    placed: list[Task] = []
    for n, rack in enumerate(["r1", "r1", "r1"]):
        assert decide(["rack", "GROUP_BY", "2"], placed, instances=5)
        placed.append(task(f"h{n}", rack))
    assert not decide(["rack", "GROUP_BY", "2"], placed, instances=5)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ({"type": "SCALAR", "scalar": {"value": 2.5}}, "2.5"),
        ({"type": "SCALAR", "scalar": {"value": 1.0005}}, "1"),
        ({"type": "RANGES", "ranges": {"range": [{"begin": 5, "end": 6}, {"begin": 1, "end": 2}]}}, "[1-2,5-6]"),
        ({"type": "SET", "set": {"item": ["b", "a"]}}, "{a,b}"),
    ],
)
def test_attributes_as_text(attribute: dict[str, object], text: str) -> None:
    read = Offer.from_json({**offer(), "attributes": [{"name": "x", **attribute}]})
    assert read.attributes == (("x", text),)


def instances(*racks: str) -> list[Instance]:
    return [Instance(f"i{n}", "/a", "v", "*", float(n), task=task(f"h{n}", rack)) for n, rack in enumerate(racks)]


def test_fewer_instances_are_taken_from_the_fullest_groups() -> None:
    candidates = instances("r1", "r2", "r1", "r1", "r2")
    chosen = from_fullest(candidates, [["rack", "GROUP_BY", "2"]], 2)
    assert [each.id for each in chosen] == ["i0", "i1"], "r1 has most; then both are alike, and the order decides"
    assert [each.id for each in from_fullest(candidates, [["rack", "MAX_PER", "2"]], 2)] == ["i0", "i1"]
    waiting = replace(candidates[4], task=None)
    assert from_fullest([*candidates[:4], waiting], [["rack", "GROUP_BY"]], 1) == [waiting]


@for_all(st.lists(st.sampled_from(["r1", "r2", "r3"]), max_size=12), st.integers(0, 12))
def test_what_is_left_is_as_balanced_as_can_be(racks: list[str], count: int) -> None:
    candidates = instances(*racks)
    chosen = from_fullest(candidates, [["rack", "GROUP_BY"]], count)
    assert len(chosen) == min(count, len(candidates))
    before = Counter(racks)
    after = Counter(each.task.attributes[0][1] for each in candidates if each not in chosen and each.task)
    fullest = max(after.values(), default=0)
    # Nobody was taken from a group that is now smaller by more than one than another.
    assert all(after[rack] >= fullest - 1 for rack in before if after[rack] < before[rack])


def test_another_region_is_only_for_apps_that_name_one() -> None:
    domain = {"fault_domain": {"region": {"name": "us"}, "zone": {"name": "z"}}}
    given = Offer.from_json(offer(domain=domain))

    def decision(home: str | None, *constraints: list[str]) -> bool:
        wanted = spec(constraints=list(constraints))
        found = match(wanted, given, given.resources, [], behaviour=GpuBehaviour.RESTRICTED, now_s=0, home_region=home)
        return isinstance(found, Match)

    assert decision("us")
    assert not decision("eu")
    assert decision("eu", ["@region", "IS", "us"])
    assert decision("eu", ["@zone", "UNIQUE"])
