"""Host ports from offers, and service ports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.definitions.ports import ServicePorts, service_ports, service_ports_of, take_ports, wishes
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import ranges, spec

ROLES = ("slave_public", "*")


def bag(*documents: dict[str, Any]) -> Resources:
    return Resources.from_json(documents)


def definitions(*ports: int, **changes: Any) -> dict[str, Any]:
    return {
        "networks": [{"mode": "host"}],
        "portDefinitions": [{"port": port, "protocol": "tcp"} for port in ports],
        **changes,
    }


def test_any_port_will_do_unless_ports_are_required() -> None:
    asked = wishes(definitions(10001, 10002))
    found = take_ports(asked, bag(ranges("ports", (31000, 31003))), ROLES, pick=3)
    assert found is not None
    assert found[0] == (31003, 31000)
    assert found[1].ports == ((31000, 31000), (31003, 31003))


def test_required_ports_must_be_in_the_offer() -> None:
    asked = wishes(definitions(31002, 0, requirePorts=True))
    found = take_ports(asked, bag(ranges("ports", (31001, 31002))), ROLES, pick=1)
    assert found is not None
    assert found[0] == (31002, 31001)
    assert take_ports(asked, bag(ranges("ports", (31003, 31009))), ROLES, pick=0) is None


def test_ports_keep_the_role_they_are_reserved_for() -> None:
    usable = bag(ranges("ports", (1000, 1000), role="slave_public"), ranges("ports", (2000, 2000)))
    found = take_ports(wishes(definitions(1, 2)), usable, ROLES, pick=0)
    assert found is not None
    assert {(r.role, r.amount) for r in found[1]} == {
        ("slave_public", ((1000, 1000),)),
        ("*", ((2000, 2000),)),
    }


def test_an_app_without_ports_takes_none() -> None:
    assert take_ports((), Resources(), ROLES, pick=7) == ((), Resources())


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), max_size=5),
    st.integers(0, 8),
    st.integers(0, 2**64),
)
def test_chosen_ports_are_offered_and_distinct(pairs: list[tuple[int, int]], count: int, pick: int) -> None:
    usable = bag(*(ranges("ports", (begin, begin + size)) for begin, size in pairs))
    offered = {port for begin, end in usable.ports for port in range(begin, end + 1)}
    found = take_ports(wishes(definitions(*[0] * count)), usable, ROLES, pick)
    if found is None:
        assert count > len(offered)
    else:
        chosen, taken = found
        assert len(set(chosen)) == count
        assert set(chosen) <= offered
        assert usable.contains(taken)


def test_service_ports_are_the_lowest_free_ones() -> None:
    app = service_ports(spec(portDefinitions=[{"port": 0}, {"port": 10001}, {"port": 0}]).document, None, {10000})
    assert [d["port"] for d in app["portDefinitions"]] == [10002, 10001, 10003]


def test_an_update_keeps_the_service_port() -> None:
    before = service_ports(spec().document, None, {10000, 10001})
    after = service_ports(spec().document, before, set())
    assert [d["port"] for d in after["portDefinitions"]] == [10002]


def test_required_ports_are_not_replaced_by_service_ports() -> None:
    app = service_ports(definitions(0, requirePorts=True), None, set())
    assert [d["port"] for d in app["portDefinitions"]] == [0]


def test_no_service_port_left_is_an_error() -> None:
    with pytest.raises(ValueError, match="10000 to 20000"):
        service_ports(spec().document, None, set(range(10000, 20001)))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(1, 5), max_size=3)), max_size=8))
def test_service_ports_that_were_counted_once_are_those_of_the_others(apps: list[tuple[str, list[int]]]) -> None:
    documents = [(app_id, definitions(*ports)) for app_id, ports in apps]
    counted = ServicePorts(documents[:3])
    for app_id, document in documents[3:]:
        counted.add(app_id, document)
    for asking in "abcd":
        others = {port for app_id, document in documents if app_id != asking for port in service_ports_of(document)}
        assert counted.of_others(asking) == others
