from __future__ import annotations

import math

import pytest

from mesos_gpu.master.allocation.filters import DEFAULT_REFUSE_S, MAX_REFUSE_S, Filters, refuse_seconds
from mesos_gpu.mesos.resources import Resources

ALL, PART = Resources.parse("cpus:2;mem:100"), Resources.parse("cpus:1;mem:100")


@pytest.mark.parametrize(
    ("filters", "seconds"),
    [
        (None, DEFAULT_REFUSE_S),
        ({}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": 0.1}, 0.1),
        ({"refuse_seconds": 0}, 0.0),
        ({"refuse_seconds": -1.0}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": math.nan}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": 1e9}, MAX_REFUSE_S),
        ({"refuse_seconds": "Infinity"}, MAX_REFUSE_S),
    ],
)
def test_refuse_seconds_falls_back_to_five_and_ends_at_a_year(
    filters: dict[str, object] | None, seconds: float
) -> None:
    assert refuse_seconds(filters) == seconds


def test_a_refusal_blocks_the_same_and_less_but_not_more() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", PART, 5.0, 0.0)
    assert filters.blocks("f", "r", "a", PART)
    assert filters.blocks("f", "r", "a", Resources.parse("cpus:0.5"))
    assert not filters.blocks("f", "r", "a", ALL)


def test_a_refusal_is_of_one_framework_role_and_agent() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", ALL, 5.0, 0.0)
    for key in [("g", "r", "a"), ("f", "s", "a"), ("f", "r", "b")]:
        assert not filters.blocks(*key, PART)


def test_a_refusal_lasts_at_least_one_allocation_interval() -> None:
    filters = Filters(2.0)
    filters.refuse("f", "r", "a", ALL, 0.1, 10.0)
    assert not filters.expire(11.9)
    assert filters.blocks("f", "r", "a", ALL)
    assert filters.expire(12.0)
    assert not filters.blocks("f", "r", "a", ALL)


def test_a_refusal_for_no_time_holds_until_the_next_interval_ends_it() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", ALL, 0.0, 10.0)
    assert filters.blocks("f", "r", "a", ALL)
    assert filters.expire(10.0)
    assert not filters.blocks("f", "r", "a", ALL)


def test_revive_drops_the_refusals_of_its_roles_only() -> None:
    filters = Filters(1.0)
    for role in ("r", "s"):
        filters.refuse("f", role, "a", ALL, 5.0, 0.0)
    filters.revive("f", {"r"})
    assert not filters.blocks("f", "r", "a", ALL)
    assert filters.blocks("f", "s", "a", ALL)
    assert filters.count("s") == 1


def test_what_is_gone_is_forgotten() -> None:
    filters = Filters(1.0)
    for framework_id, agent_id in [("f", "a"), ("g", "a"), ("f", "b")]:
        filters.refuse(framework_id, "r", agent_id, ALL, 5.0, 0.0)
    filters.forget_framework("g")
    filters.forget_agent("b")
    assert filters.count() == 1
    assert filters.blocks("f", "r", "a", ALL)
