"""`mesos-gpu when`: when something that waits is expected to start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Table, say_paragraph
from marathon_cli.screen.units import span
from marathon_cli.show.plan import cards_text

_MOST = 5
"""So many machines are named."""


@click.command()
@click.argument("name", metavar="APP")
@output_options()
@target_options
@pass_console
def when(console: Console, name: str) -> None:
    """Say when what waits of APP is expected to start: the usual time, and between which times in 8 cases of 10.

    Runs of jobs are taken to end after as long as earlier runs took, or as long as they may (maxRuntimeSeconds); apps
    run on. Marathon lets time pass on a copy of what there is now. APP may be a pod or a job.
    """
    from marathon_cli.clients.marathon import when as asked

    found = asked(console.marathon(), name)
    if console.form not in ("table", "wide"):
        console.show(found, table=lambda: Table(()), names=[str(found.get("id"))])
        return
    for line in sentences(found, time.time()):
        say_paragraph(line)


def sentences(found: Mapping[str, Any], now_s: float) -> list[str]:
    """Return in sentences what is foreseen."""
    name, count = found.get("id"), int(found.get("waiting") or 0)
    if not count:
        return [f"nothing of {name} waits"]
    plural = f"{count} instances of {name} wait" if count != 1 else f"1 instance of {name} waits"
    first, last = found.get("firstSeconds") or [None] * 3, found.get("lastSeconds") or [None] * 3
    if first[1] is None and first[0] is None:
        unknown = int((found.get("tasks") or {}).get("unknown") or 0)
        runs = f"{unknown} tasks run" if unknown != 1 else "1 task runs"
        cause = f"{runs} that may run for ever" if unknown else "what comes before it may run for ever"
        return [
            f"{plural}, and no end is known of what would have to end first ({cause}).",
            f"`mesos-gpu why {name}` says what would help.",
        ]
    lines = [f"{plural}. {'It is' if count == 1 else 'The first is'} expected to start {_range(first, now_s)}."]
    if count > 1:
        seen = last[1] is not None
        lines.append(
            f"The last is expected to start {_range(last, now_s)}." if seen else "No start of the last is seen."
        )
    where = _where(found.get("starts") or [])
    return [*lines, f"As things stand it is on {where}."] if where else lines


def _where(starts: Sequence[Mapping[str, Any]]) -> str:
    """Return the machines of the starts that are foreseen, and which GPUs share NVLink there; the first few."""
    cards: dict[str, list[Mapping[str, Any]]] = {}
    for start in starts:
        cards.setdefault(str(start.get("host")), []).extend(start.get("cards") or [])
    told = [host + cards_text(each) for host, each in cards.items()]
    return ", ".join(told[:_MOST]) + (f" and {len(told) - _MOST} more" if len(told) > _MOST else "")


def _range(times: Sequence[float | None], now_s: float) -> str:
    early, usual, late = times
    if usual is None:
        return f"in {span(early or 0)} at the earliest; in half of all cases no end of the wait is seen"
    clock = time.strftime("%H:%M", time.localtime(now_s + usual))
    if (early or 0) == usual == late:
        return f"in {span(usual)}, at {clock}"
    until = f"and {span(late)}" if late is not None else "and no time that is known"
    return f"in {span(usual)}, at {clock}; in 8 cases of 10 between {span(early or 0)} {until} from now"
