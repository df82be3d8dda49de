"""Runs that were recorded: benchmarks/results/NAME.json, one run each; git knows the ones before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kept.figures import Figure, from_json

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run of one benchmark, and where they were taken."""

    bench: str
    arguments: Sequence[str]
    date: str
    commit: str
    machine: Mapping[str, Any]
    load: Sequence[float]
    """Before and after; empty where nobody looked."""
    figures: Sequence[Figure]
    note: str = ""

    def to_text(self) -> str:
        """Return the file."""
        document = {
            "bench": self.bench,
            "arguments": list(self.arguments),
            "date": self.date,
            "commit": self.commit,
            "machine": dict(self.machine),
            "load": list(self.load),
            "note": self.note,
            "figures": [figure.to_json() for figure in self.figures],
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_run(text: str) -> Run:
    """Read such a file. Raises KeyError or TypeError for one of another shape."""
    document = json.loads(text)
    figures = [from_json(figure) for figure in document.pop("figures")]
    return Run(**document, figures=figures)


def recorded(folder: Path = RESULTS) -> dict[str, Run]:
    """Return every recorded run by the name of its file."""
    return {path.stem: read_run(path.read_text()) for path in sorted(folder.glob("*.json"))}
