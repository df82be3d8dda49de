"""docs/why/measurements.md: what people wrote about measurements, with the figures of recorded runs put in.

What people write lies in benchmarks/page/*.md, in the order of the files' names. A line `<!-- figures: NAME -->` is
where the figures of benchmarks/results/NAME.json go; runs that no file names come at the end, so that none is missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.kept.figures import Figure
from benchmarks.kept.results import Run

PLACE = re.compile(r"^<!-- figures: (\S+) -->$", re.MULTILINE)
HEAD = "<!-- Made by tools/make_measurements.py of benchmarks/page and benchmarks/results; changed there. -->\n"
TABLE = "| what | ours | beside | ratio | aim |\n|---|---|---|---|---|\n"


def page(parts: Sequence[str], runs: Mapping[str, Run]) -> str:
    """Return the page. The place of a run that is not recorded says how it would be."""
    text = "\n".join(part.strip() + "\n" for part in parts)
    named = PLACE.findall(text)
    rest = [f"\n## {name}\n\n<!-- figures: {name} -->\n" for name in sorted(runs) if name not in named]
    return HEAD + PLACE.sub(lambda place: _put(place[1], runs), text + "".join(rest))


def _put(name: str, runs: Mapping[str, Run]) -> str:
    return section(runs[name]).strip() if name in runs else f"Not recorded yet: `./run bench record {name}`."


def section(run: Run) -> str:
    """Return what a run is said to be, and the table of its figures."""
    command = " ".join(["./run bench", run.bench, *run.arguments])
    machine = run.machine
    where = f"{machine['processors']} x {machine['cpu']}, Linux {machine['kernel']}, cgroups {machine['cgroups']}"
    load = f"load {run.load[0]:g} before and {run.load[1]:g} after" if run.load else run.note
    note = f" {run.note[0].upper()}{run.note[1:]}." if run.note and run.load else ""
    head = f"`{command}` on {run.date}, commit {run.commit}: {where}, {load}.{note}"
    return f"{head}\n\n{TABLE}" + "".join(row(figure) for figure in run.figures)


def row(figure: Figure) -> str:
    """Return a figure's line of the table."""
    ours = f"{number(figure.value)}{_unit(figure)}" + (f" ({figure.note})" if figure.note else "")
    beside = ""
    if figure.baseline_name:
        beside = figure.baseline_name
        if figure.baseline is not None:
            beside += f": {number(figure.baseline)}{_unit(figure)}"
    ratio = "" if figure.ratio is None else number(figure.ratio)
    cells = (figure.what, ours, beside, ratio, aim(figure))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def aim(figure: Figure) -> str:
    """Return what the figure is to be, and whether it is."""
    if figure.aim is None:
        return ""
    bound = "at most" if figure.better == "less" else "at least"
    unit = _unit(figure) if figure.aim_of == "value" else ""
    reached = "" if figure.reached() else ": not reached"
    return f"{bound} {number(figure.aim)}{unit}{reached}"


def number(value: float) -> str:
    """Return a number as people read it: three digits, thousands apart."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.4g}'):,.0f}".replace(",", " ")
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _unit(figure: Figure) -> str:
    return f" {figure.unit}" if figure.unit else ""
