"""`mesos-gpu gpu`: list, types, top."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.screen.arguments import Number
from marathon_cli.screen.output import Column, Table, printable, say, table_lines, terminal_width
from marathon_cli.screen.units import NONE, amount, mebibytes
from marathon_cli.show.gpus import GpuLine, GpuType, GpuView, busiest, gpu_types
from mesos_gpu.errors import Unavailable

_NO_GPUS = (
    "no GPUs; `mesos-gpu doctor` says what an agent's machine lacks, `mesos-gpu agent list` which agents there are"
)
_LIST = (
    Column("AGENT"),
    Column("GPU", number=True),
    Column("MODEL", cut=True),
    Column("MEMORY", number=True, rank=2),
    Column("DRIVER", rank=3),
    Column("HEALTH"),
    Column("SHARED"),
    Column("HOLDER", cut=True),
    Column("NVLINK", rank=6),
    Column("UUID", rank=4),
    Column("TASK", rank=5),
    Column("REASON", rank=1, cut=True),
)
_TYPES = (
    Column("NAME"),
    Column("ZONE", rank=5),
    Column("DESCRIPTION", cut=True, rank=4),
    Column("MEMORY", number=True, rank=2),
    Column("GPUS", number=True, rank=1),
    Column("FREE", number=True),
    Column("AGENTS", number=True, rank=3),
    Column("PER AGENT", number=True, rank=3),
    Column("CONSTRAINT"),
)
_TOP = (
    Column("AGENT"),
    Column("GPU", number=True),
    Column("MODEL", cut=True, rank=2),
    Column("UTIL", number=True),
    Column("MEMORY", number=True),
    Column("POWER", number=True, rank=1),
    Column("TEMP", number=True, rank=1),
    Column("HOLDER", cut=True),
    Column("TASK", rank=3),
)
_CLEAR_LINE, _CLEAR_BELOW, _HOME = "\x1b[K", "\x1b[J", "\x1b[H"
_OTHER_SCREEN, _THIS_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@click.command(name="list")
@watch_options
@output_options()
@target_options
@pass_console
def list_gpus(console: Console) -> None:
    """List the GPUs of all agents: where, what, how they are, who holds them.

    SHARED is what keeps tasks to their part of the memory of a GPU that they share; others are given whole.
    NVLINK are the GPUs of the same agent with which one shares NVLink; narrow screens show it with -o wide.
    Agents of Mesos' own tell how many GPUs they have, and not which: those have no number here.
    """
    view = _view(console)

    def look() -> None:
        view.look_again()
        lines = view.lines()
        view.tell_silent(say)
        # Columns that would be empty are left out.
        some = {
            "SHARED": any(line.memory_level for line in lines),
            "REASON": any(line.reason for line in lines),
            "NVLINK": any(line.nvlink for line in lines),
        }
        shown = [at for at, column in enumerate(_LIST) if some.get(column.name, True)]
        columns = tuple(_LIST[at] for at in shown)
        rows = [[_listed(line)[at] for at in shown] for line in lines]
        names = [line.uuid for line in lines if line.uuid]
        console.show(
            [line.document() for line in lines], table=lambda: Table(columns, rows), names=names, none=_NO_GPUS
        )

    console.repeat(look)


@click.command()
@output_options()
@target_options
@pass_console
def types(console: Console) -> None:
    """List the kinds of GPUs, as GKE lists accelerator types, and how to ask for each.

    CONSTRAINT is what an app's `constraints` say to get that kind and no other.
    """
    view = _view(console)
    view.look_again()
    found = gpu_types(view.agents, view.lines())
    view.tell_silent(say)
    table = Table(_TYPES, [_type(one) for one in found])
    console.show([one.document() for one in found], table=lambda: table, names=[one.name for one in found])


@click.command()
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option(
    "--interval",
    type=Number(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@output_options()
@target_options
@pass_console
def top(console: Console, once: bool, interval: float) -> None:
    """Show what GPUs do now, the busiest first, with the tasks that hold them.

    Ctrl-C ends it. Where the output is not a terminal, or -o asks for another form than a table, it is shown once.
    """
    view = _view(console)
    view.look_again()
    if once or console.form != "table" or not sys.stdout.isatty():
        lines = busiest(view.lines())
        view.tell_silent(say)
        documents = [line.document() for line in lines]
        table = Table(_TOP, [_doing(line) for line in lines])
        console.show(documents, table=lambda: table, names=[line.uuid for line in lines if line.uuid])
        return
    _watch(view, interval)


def _watch(view: GpuView, interval_s: float) -> None:
    """Draw until Ctrl-C, which is how this ends. A master or Marathon that is away for a while is waited for."""
    lines: list[GpuLine] = []
    click.echo(_OTHER_SCREEN, nl=False)
    try:
        while True:
            silent = []
            try:
                lines = busiest(view.lines())
            except Unavailable as error:
                silent = [str(error)]
            _draw(lines, [*silent, *(f"agent {name}" for name in view.silent_agents())])
            time.sleep(interval_s)
            with suppress(Unavailable):
                view.look_again()
    except KeyboardInterrupt:
        return
    finally:
        click.echo(_THIS_SCREEN, nl=False)


def _view(console: Console) -> GpuView:
    view = GpuView(console.marathon())
    click.get_current_context().call_on_close(view.close)
    return view


def _draw(lines: list[GpuLine], silent: list[str]) -> None:
    held = [line for line in lines if line.held]
    busy = [line.utilization_percent for line in lines if line.utilization_percent is not None]
    average = f", {sum(busy) // len(busy)} % busy on average" if busy else ""
    head = [f"{len(lines)} GPUs, {len(held)} held{average}   {time.strftime('%H:%M:%S')}"]
    head += [printable(f"no answer: {name}") for name in silent]
    body = [
        *(line[: terminal_width()] for line in head),
        "",
        *table_lines(Table(_TOP, [_doing(line) for line in lines]), width=terminal_width()),
    ]
    height = shutil.get_terminal_size().lines
    if len(body) > height:
        body = [*body[: height - 1], f"... and {len(body) - height + 1} more"]
    click.echo(_HOME + "\n".join(line + _CLEAR_LINE for line in body) + _CLEAR_BELOW, nl=False)


def _listed(line: GpuLine) -> list[object]:
    return [
        line.agent,
        NONE if line.index is None else line.index,
        line.model or NONE,
        mebibytes(line.memory_mib),
        line.driver or NONE,
        line.condition,
        line.memory_level or NONE,
        line.holder,
        ",".join(map(str, line.nvlink)) or NONE,
        line.uuid or NONE,
        line.task or NONE,
        line.reason or "",
    ]


def _type(one: GpuType) -> list[object]:
    constraint = NONE if one.constraint is None else ":".join(one.constraint)
    memory = mebibytes(one.memory_mib)
    return [
        *(one.name, one.zone, one.description, memory, one.gpus, one.free),
        *(one.agents, one.most_per_agent, constraint),
    ]


def _doing(line: GpuLine) -> list[object]:
    used = NONE
    if line.memory_used_mib is not None and line.memory_mib:
        used = f"{line.memory_used_mib}/{line.memory_mib} MiB"
    return [
        line.agent,
        NONE if line.index is None else line.index,
        line.model or NONE,
        amount(line.utilization_percent, "%"),
        used,
        amount(line.power_w, "W"),
        amount(line.temperature_c, "°C"),
        line.holder,
        line.task or NONE,
    ]
