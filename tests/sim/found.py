"""The table of planted defects in docs/why/simulator.md: `python -m tests.sim.found` writes it from found.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.sim.defects import DEFECTS
from tests.sim.hunting import ROOT
from tests.sim.unit_hunt import NOT_FOUND, found_by_unit_tests

LIST = Path(__file__).parent / "planted" / "found.txt"
PAGE = ROOT / "docs" / "why" / "simulator.md"
BEGIN, END = "<!-- planted -->\n", "<!-- /planted -->\n"
_HEAD = (
    "| Defect | What it is | Seed | Histories | Seconds | Code | Unit test |\n"
    "| --- | --- | --: | --: | --: | --- | --- |\n"
)


@dataclass(frozen=True)
class Line:
    """Which seed showed a defect, after how many histories and seconds of a processor, and by which commit.

    `words`: those of the command beside its seed and its hours, such as --actors.
    """

    seed: str
    histories: str
    seconds: str
    code: str
    words: str = ""

    @property
    def cells(self) -> str:
        """Return its cells of the table."""
        seed = f"{self.seed} `{self.words}`" if self.words else self.seed
        return " | ".join((seed, self.histories, self.seconds, self.code))


def found() -> dict[str, Line]:
    """Return what found.txt says, by defect."""
    lines = [line.split(maxsplit=5) for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {name: Line(*words) for name, *words in lines}


def table() -> str:
    """Return the table, and the sentence below it."""
    known, by_units, rows = found(), found_by_unit_tests(), []
    for defect in DEFECTS.values():
        line = known.get(defect.name)
        cells = "not found yet | | | " if line is None else line.cells
        unit = "no" if by_units.get(defect.name, NOT_FOUND) == NOT_FOUND else "yes"
        rows.append(f"| {defect.name} | {defect.about} | {cells} | {unit} |\n")
    units = sum(test != NOT_FOUND for test in by_units.values())
    return f"{_HEAD}{''.join(rows)}\nThe simulator finds {len(known)} of {len(rows)}, the unit tests {units}.\n"


def written() -> str:
    """Return the page with the table in its place."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written())
