"""Which branches the tests take, by room: `python -m tests.support.rooms REPORT`, of `coverage json`.

Exit status 1 when a room of deciding code has less than it must have. tests/support/purity.py
finds the deciding code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


if __name__ == "__main__":
    found = by_room(json.loads(Path(sys.argv[1]).read_text()))
    print("\n".join(lines(found)))
    sys.exit(any(one.too_few for one in found))
