"""Marathon's 70 acceptance cases: every number has a test, or a line here that says why not.

A test names its cases: `test_42_43_44_...`, `test_case_65_...`, or as numbers in a table of test_marathon.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conformance.test_marathon import ACCEPTED, REFUSED
from tests.support.places import TESTS

CASES = range(1, 71)
NAMED = re.compile(r"^test(?:_case)?((?:_\d{2})+)_[a-z]")
ELSEWHERE = {
    70: "tests/marathon_cli/commands/apps/test_app.py::test_a_refusal_is_shown_in_the_servers_words",
}
"""Cases whose test has another name."""
WITHOUT_TEST: dict[int, str] = {}
"""Cases that have none, and why."""


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_case_has_a_test_or_a_reason() -> None:
    found = {case for case, *_ in (*REFUSED, *ACCEPTED)}
    for folder in ("conformance", "marathon", "marathon_cli"):
        for path in (TESTS / folder).rglob("test_*.py"):
            for name in functions(path):
                if match := NAMED.match(name):
                    found.update(int(number) for number in match[1].split("_")[1:])
    for case, place in ELSEWHERE.items():
        path, _, name = place.partition("::")
        assert name in functions(TESTS.parent / path), place
        found.add(case)
    assert sorted(set(CASES) - found - WITHOUT_TEST.keys()) == []
    assert not WITHOUT_TEST.keys() & found
    assert found <= set(CASES)
