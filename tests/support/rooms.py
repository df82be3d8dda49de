"""Branch coverage by package, for `./run coverage`. Pure code (tests/support/purity.py) must have a minimum of it.

Loaded by tests/conftest.py. pytest's workers measure, and the process that started them reports above its summary.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

from tests.support import purity

AT_LEAST = 95.0
OTHERS = "deciding modules of other rooms"


class Taken(NamedTuple):
    """How many of a room's lines and branches were taken, counted together as coverage.py does."""

    room: str
    decides: bool
    taken: int
    branches: int

    @property
    def percent(self) -> float:
        return 100.0 * self.taken / self.branches if self.branches else 100.0

    @property
    def least(self) -> float:
        return AT_LEAST if self.decides else 0.0

    @property
    def too_few(self) -> bool:
        return self.percent < self.least


def by_room(report: Mapping[str, Any]) -> list[Taken]:
    """Return the rooms of a report, deciding ones first."""
    sums: dict[tuple[bool, str], list[int]] = {}
    for path, found in report["files"].items():
        module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        total = sums.setdefault(_room(module), [0, 0])
        summary = found["summary"]
        total[0] += summary["covered_branches"] + summary["covered_lines"]
        total[1] += summary["num_branches"] + summary["num_statements"]
    return [
        Taken(room, decides, *total) for (decides, room), total in sorted(sums.items(), key=_first_those_that_decide)
    ]


def lines(rooms: list[Taken]) -> Iterator[str]:
    """Yield the table as a person reads it."""
    for one in rooms:
        kind, mark = "decides" if one.decides else "", f"  less than {one.least:g} %" if one.too_few else ""
        yield f"{one.percent:6.1f} %  {one.taken:5} of {one.branches:5}  {kind:7}  {one.room}{mark}"


def _room(module: str) -> tuple[bool, str]:
    for room in purity.pure_packages():
        if f"{module}.".startswith(f"{room}."):
            return True, room
    if module in purity.pure_modules():
        return True, OTHERS
    parts = module.split(".")
    return False, ".".join(parts[: 3 if parts[1:2] and parts[1] in ("agent", "container", "marathon", "master") else 2])


def _first_those_that_decide(entry: tuple[tuple[bool, str], list[int]]) -> tuple[bool, str]:
    (decides, room), _ = entry
    return not decides, room


def measured() -> Mapping[str, Any]:
    """Return coverage.py's report on what all workers of this run have measured."""
    collected = coverage.Coverage()
    folder = Path(collected.config.data_file).parent
    collected.combine([str(folder)])
    collected.json_report(outfile=str(folder / "report.json"))
    return json.loads((folder / "report.json").read_text())  # type: ignore[no-any-return]


_found: list[Taken] = []


@pytest.hookimpl(trylast=True)  # when the workers have ended, and have written what they measured
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("MEASURED") and not hasattr(session.config, "workerinput"):
        _found.extend(by_room(measured()))
        if any(one.too_few for one in _found) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _found:
        terminalreporter.section("branches and lines taken, by package")
    for one, line in zip(_found, lines(_found), strict=True):
        terminalreporter.write_line(line, red=one.too_few)
