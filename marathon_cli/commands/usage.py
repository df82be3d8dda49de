"""`mesos-gpu usage`: what tasks had, and what they used of it; in the words of Slurm's sacct and seff."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, say
from marathon_cli.screen.units import NONE, ago, mebibytes

_NAMES = {
    "app": (Column("APP"), Column("ROLE", rank=4), Column("USER", rank=3)),
    "role": (Column("ROLE"),),
    "user": (Column("USER"),),
}
_SUMS = (
    Column("ENDED", number=True, rank=5),
    Column("ELAPSED", number=True, rank=2),
    Column("GPU-HOURS", number=True),
    Column("GPU-EFF", number=True),
    Column("GPU-IDLE", number=True),
    Column("CPU-HOURS", number=True, rank=1),
    Column("CPU-EFF", number=True, rank=1),
    Column("MAXRSS", number=True, rank=3),
    Column("REQMEM", number=True, rank=4),
    Column("MAXGPUMEM", number=True, rank=5),
)


@click.command()
@click.argument("name", metavar="[APP]", required=False)
@click.option(
    "--since",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="From when on: so long ago (90m, 12h, 7d, 4w), or a time such as 2026-11-16 or 2026-11-16T07:00.",
)
@click.option(
    "--by", type=click.Choice(("app", "role", "user")), default="app", show_default=True, help="What is put together."
)
@output_options()
@target_options
@pass_console
def usage(console: Console, name: str | None, since: str, by: str) -> None:
    """Show GPU-hours and what was used of them, also of tasks and apps that have ended; of APP alone in words.

    GPU-EFF is how busy the GPUs were while they were held, GPU-IDLE the part of the time in which they did nothing at
    all; CPU-EFF, MAXRSS and REQMEM are as in Slurm's seff. Hours are whole: the first is that in which TIME is.
    """
    from marathon_cli.clients.marathon import usage as asked
    from mesos_gpu.marathon.definitions.timestamps import timestamp

    from_s = ago(since, time.time())
    app = None if name is None else "/" + name.strip("/")
    found = asked(console.marathon(), since=timestamp(from_s), by=by, app=app)
    if console.form == "table" and app is not None:
        for line in summary(app, found):
            click.echo(line)
    else:
        rows = [[*(each.get(column.name.lower(), "") for column in _NAMES[by]), *_row(each)] for each in found["usage"]]
        if len(rows) > 1 and console.form in ("table", "wide"):
            rows.append(["TOTAL", *[""] * (len(_NAMES[by]) - 1), *_row(found["total"])])
        names = [str(each.get(by)) for each in found["usage"]]
        none = f"no task had anything since {found['since']}"
        console.show(found, table=lambda: Table((*_NAMES[by], *_SUMS), rows), names=names, none=none)
    for line in untold(found):
        say(line)


def summary(app: str, found: Mapping[str, Any]) -> list[str]:
    """Return what one app had and used, line by line as Slurm's seff says it."""
    total, lines = found["total"], found["usage"]
    if not lines:
        return [f"{app} had nothing since {found['since']}"]

    def said(of: str) -> str:
        return ", ".join(sorted({str(each.get(of, "")) for each in lines}))

    rows = [
        ("App", app),
        ("Role", said("role")),
        ("User", said("user")),
        ("Since", found["since"]),
        ("Tasks ended", total["tasksEnded"]),
        ("Task Wall-clock time", clock(total["elapsedHours"])),
        ("GPU-hours", _hours(total["gpuHours"])),
    ]
    if total.get("sharedGpuMemGiBHours"):
        rows.append(("Shared GPU Memory", f"{_hours(total['sharedGpuMemGiBHours'])} GiB-hours"))
    if total["gpuHours"]:
        measured = f" of {_hours(total['measuredGpuHours'])} GPU-hours measured"
        rows.append(("GPU Efficiency", _of(total["gpuEfficiency"], measured)))
        rows.append(("GPU Idle", _of(total["gpuIdle"], measured)))
        rows.append(("GPU Memory Utilized", mebibytes(total["maxGpuMemMiB"])))
    used = total["cpuUsedHours"]
    rows += [
        ("CPU Utilized", NONE if used is None else clock(used)),
        ("CPU Efficiency", _of(total["cpuEfficiency"], f" of {clock(total['cpuHours'])} core-walltime")),
        ("Memory Utilized", mebibytes(total["maxRssMiB"])),
        ("Memory Efficiency", _of(total["memEfficiency"], f" of {mebibytes(total['memMiB'])}")),
    ]
    return [f"{label}: {value}" for label, value in rows]


def untold(found: Mapping[str, Any]) -> list[str]:
    """Return in sentences what could not be measured, and why."""
    total = found["total"]
    lines = [f"what tasks use is not told by every agent: {why}" for why in found.get("notTold") or ()]
    if total["gpuHours"] and total["gpuEfficiency"] is None and total["cpuEfficiency"] is not None:
        lines.append("how busy GPUs were is not known: agents of Mesos' own do not measure it")
    return lines


def clock(hours: float) -> str:
    """Return hours as Slurm writes a time: [DD-]HH:MM:SS."""
    seconds = round(hours * 3600)
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def _row(each: Mapping[str, Any]) -> Sequence[object]:
    return [
        each["tasksEnded"],
        clock(each["elapsedHours"]),
        _hours(each["gpuHours"]),
        _of(each["gpuEfficiency"]),
        _of(each["gpuIdle"]),
        _hours(each["cpuHours"]),
        _of(each["cpuEfficiency"]),
        mebibytes(each["maxRssMiB"]),
        mebibytes(each["memMiB"]),
        mebibytes(each["maxGpuMemMiB"]),
    ]


def _hours(amount: float) -> str:
    return f"{amount:.2f}" if amount < 100 else f"{amount:.0f}"


def _of(percent: float | None, whole: str = "") -> str:
    return NONE if percent is None else f"{percent:.1f}%{whole}"
