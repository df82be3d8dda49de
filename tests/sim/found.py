"""The table of planted defects in docs/why/simulator.md: `python -m tests.sim.found` writes it from found.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.sim.hunting import ROOT, patches

LIST = Path(__file__).parent / "planted" / "found.txt"
PAGE = ROOT / "docs" / "why" / "simulator.md"
BEGIN, END = "<!-- planted -->\n", "<!-- /planted -->\n"
_HEAD = "| Defect | What it is | Seed | Histories | Seconds | Code |\n| --- | --- | --: | --: | --: | --- |\n"


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
    known, rows = found(), []
    for patch in patches():
        said = patch.read_text().splitlines()[0]
        line = known.get(patch.stem)
        cells = "not found yet | | | " if line is None else line.cells
        rows.append(f"| {patch.stem} | {said} | {cells} |\n")
    return f"{_HEAD}{''.join(rows)}\n{len(known)} of {len(rows)} are found so.\n"


def written() -> str:
    """Return the page with the table in its place."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written())
