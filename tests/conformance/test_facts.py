"""Every fact of Mesos and Marathon that we hold to has a test that is there, or a reason."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.conformance.marathon_facts import MARATHON
from tests.conformance.mesos_facts import EXECUTORS, OPERATORS, SCHEDULER_API
from tests.support.places import TESTS

LINE = re.compile(r"(?P<section>\d+)\.(?P<number>\d+) (?P<words>[^|]+) \| (?P<shown>.+)")
TABLES = {"scheduler API": SCHEDULER_API, "executors": EXECUTORS, "operator API": OPERATORS, "Marathon": MARATHON}
SECTIONS = {"scheduler API": 10, "executors": 6, "operator API": 11, "Marathon": 4}


@cache
def names_in(module: str) -> frozenset[str]:
    """Return the names of the tests of `room/module` (room: a folder below tests), without `test_`."""
    room, name = module.rsplit("/", 1)
    return frozenset(re.findall(r"^(?:async )?def test_(\w+)", (TESTS / room / f"test_{name}.py").read_text(), re.M))


@pytest.mark.parametrize("table", TABLES)
def test_every_fact_has_its_tests_or_a_reason(table: str) -> None:
    facts = [LINE.fullmatch(line) for line in TABLES[table].strip().splitlines()]
    assert None not in facts
    last = (1, 0)
    for fact in filter(None, facts):
        here = int(fact["section"]), int(fact["number"])
        assert here in ((last[0], last[1] + 1), (last[0] + 1, 1)), f"a fact is missing before {here}"
        last = here
        if fact["shown"].startswith("none: "):
            assert len(fact["shown"]) > len("none: ") + 10, "a reason is more than a word"
            continue
        for shown in fact["shown"].split():
            module, name = shown.split("::")
            assert name in names_in(module), f"{table} {here}: there is no test {shown}"
    assert last[0] == SECTIONS[table]
