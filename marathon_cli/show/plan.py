"""A plan as a table, and as an exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.screen.output import Table, columns

if TYPE_CHECKING:
    from marathon_cli.console.console import Console


WAITS = 5
"""The exit status when not all would start now."""
_UNITS = {"gpus": ("GPU", "GPUs"), "cpus": ("CPU", "CPUs"), "mem": ("MiB", "MiB"), "disk": ("MiB of disk",) * 2}
_WHY = {
    "replaced": "is replaced",
    "removed": "its app goes",
    "fewer": "one too many",
    "gives way": "gives way",
}


def show_plan(console: Console, found: Mapping[str, Any]) -> int:
    """Show a plan, and return the exit status."""
    if console.form in ("table", "wide"):
        click.echo(str(found.get("summary", "")))
        click.echo()
    console.show(dict(found), table=lambda: plan_table(found), names=[str(app) for app in found.get("apps") or []])
    return 0 if found.get("now") else WAITS


def plan_table(found: Mapping[str, Any]) -> Table:
    """Return a plan as a table: what ends, what is suspended, what starts where, what waits and for what."""
    rows: list[list[Any]] = []
    for end in found.get("ends") or []:
        gpus = float(end.get("gpus") or 0)
        frees = f", frees {gpus:g} GPU{'s' if gpus != 1 else ''}" if gpus else ""
        why = _WHY.get(str(end.get("why")), str(end.get("why")))
        rows.append(["end", end.get("app"), end.get("instances"), end.get("host"), f"{why}{frees}"])
    for one in found.get("suspends") or []:
        whole = float(one.get("gpus") or 0)
        what = f"{whole:g} GPU{'s' if whole != 1 else ''}" if whole else "its part of a GPU"
        rows.append(["suspend", one.get("app"), one.get("instances"), one.get("host"), f"others have {what} meanwhile"])
    for start in found.get("starts") or []:
        each = start.get("each") or {}
        parts = [f"{each[name]:g} {units[each[name] != 1]}" for name, units in _UNITS.items() if each.get(name)]
        after_s = float(start.get("afterSeconds") or 0)
        later = f", after {after_s:g} s" if after_s else ""
        what = ", ".join(parts) + cards_text(start.get("cards") or []) + later
        rows.append(["start", start.get("app"), start.get("instances"), start.get("host"), what])
    rows += [["wait", one.get("app"), one.get("instances"), "---", one.get("for")] for one in found.get("waits") or []]
    return Table(columns("WHAT", "APP", "INSTANCES", "HOST", "WITH"), rows)


def cards_text(each: Sequence[Mapping[str, Any]]) -> str:
    """Return which GPUs each instance would get, and whether they share NVLink, in brackets; nothing where unknown."""
    told = []
    for one in each:
        indices, linked = one.get("indices") or [], one.get("nvlink")
        word = "GPU" if len(indices) == 1 else "GPUs"
        links = "" if linked is None else " share NVLink" if linked else " do not all share NVLink"
        told.append(f"{word} {'+'.join(map(str, indices))}{links}")
    return f" ({'; '.join(told)})" if told else ""
