"""A figure: what a benchmark measured, what it stands beside, and what it is to be.

A benchmark prints as it likes, and calls `figure` for what is to be kept. That does nothing but where somebody keeps
figures: `./run bench record` and `./run bench check` name a file for them in the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

FILE_VARIABLE = "MESOS_GPU_BENCH_FIGURES"
"""Names the file that figures are added to, one JSON object a line."""

Better = Literal["less", "more"]
AimOf = Literal["value", "ratio"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. The ratio is that of `value` to `baseline`, unless the benchmark says another one."""

    key: str
    """Unique in its benchmark, and the same in every run: what baseline.json knows it by."""
    what: str
    value: float
    unit: str = ""
    baseline_name: str = ""
    baseline: float | None = None
    ratio: float | None = None
    better: Better = "less"
    """Of the value, and of the ratio."""
    aim: float | None = None
    """At most (`better` is less) or at least (more) this is wanted; None: nothing is."""
    aim_of: AimOf = "ratio"
    note: str = ""
    """Such as `p95 30.0 ms`."""

    def reached(self) -> bool | None:
        """Return whether the figure is what it is to be; None where there is no aim."""
        measured = self.ratio if self.aim_of == "ratio" else self.value
        if self.aim is None or measured is None:
            return None
        return measured <= self.aim if self.better == "less" else measured >= self.aim

    def to_json(self) -> dict[str, Any]:
        """Return what is kept of it: what is as it is by default is left out."""
        plain = Figure("", "", 0.0)
        kept = {name: value for name, value in asdict(self).items() if value != getattr(plain, name)}
        return {"key": self.key, "what": self.what, "value": self.value, **kept}


def from_json(document: Mapping[str, Any]) -> Figure:
    """Read what `to_json` wrote. Raises TypeError for fields that it does not know."""
    return Figure(**document)


def figure(
    key: str,
    what: str,
    value: float,
    unit: str = "",
    *,
    beside: tuple[str, float] | None = None,
    ratio: float | None = None,
    better: Better = "less",
    aim: float | None = None,
    aim_of: AimOf | None = None,
    note: str = "",
) -> Figure:
    """Add a figure to the file that the environment names, if it does, and return it.

    `beside` is the baseline: its name and value, in the same unit. An aim is one of the ratio where there is one, else
    of the value. Numbers are kept to four digits.
    """
    name, baseline = beside or ("", None)
    if ratio is None and baseline is not None:
        ratio = value / baseline
    made = Figure(
        key,
        what,
        _rounded(value),
        unit,
        name,
        None if baseline is None else _rounded(baseline),
        None if ratio is None else _rounded(ratio),
        better,
        aim,
        aim_of or ("value" if ratio is None else "ratio"),
        note,
    )
    if place := os.environ.get(FILE_VARIABLE):
        with Path(place).open("a") as file:
            file.write(json.dumps(made.to_json()) + "\n")
    return made


def read_figures(lines: str) -> list[Figure]:
    """Return the figures of such a file. Raises ValueError when two have one key."""
    figures = [from_json(json.loads(line)) for line in lines.splitlines()]
    keys = [one.key for one in figures]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"two figures have the key {key!r}; a run's keys must differ")
    return figures


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
