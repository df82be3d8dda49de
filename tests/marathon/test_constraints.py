"""Constraint operators, one table row each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesos_gpu.marathon.constraints import fulfilled
from mesos_gpu.marathon.instances import Task
from mesos_gpu.marathon.offers import Offer
from tests.marathon.builders import offer


def task(host: str, rack: str | None = None) -> Task:
    attributes = () if rack is None else (("rack", rack),)
    return Task(f"t-{host}", "S", host, (), "v", 1.0, attributes=attributes, region=None, zone="z1")


def decide(constraint: Sequence[str], placed: Sequence[Task] = (), *, instances: int = 4, **changes: object) -> bool:
    document = offer(**{"host": "h1", "attributes": {"rack": "r1", "size": "3"}, **changes})  # type: ignore[arg-type]
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
