"""`mesos-gpu gpu`: the GPUs of a cluster, their use and fragmentation, and MIG layouts of this machine."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.clients.mesos import Cluster
from marathon_cli.console.console import Console, local_agent, pass_console
from marathon_cli.console.options import debug_option, output_options, target_options, watch_options, work_dir_option
from marathon_cli.screen.arguments import Number
from marathon_cli.screen.output import Column, Table, printable, say, table_lines, terminal_width
from marathon_cli.screen.units import NONE, amount, mebibytes
from marathon_cli.show.gpus import GpuLine, GpuType, GpuView, busiest, gpu_types
from mesos_gpu.errors import BadInput, MesosGpuError, Unavailable

if TYPE_CHECKING:
    from mesos_gpu.gpu.mig_layout import MigPlan
    from mesos_gpu.marathon.why.fragments import Fragment, Remainder
    from mesos_gpu.marathon.why.moves import Gain


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


_FRAGMENT_COLUMNS = (
    Column("AGENT"),
    Column("FREE", number=True),
    Column("UNUSABLE", number=True),
    Column("FOR WANT OF"),
)


@click.command("fragments")
@output_options()
@target_options
@pass_console
def fragments(console: Console) -> None:
    """Show GPUs that are free and that nothing that is asked for could use, by machine, with the cause.

    The mix is the sizes of apps, pods and jobs that ask for GPUs. Each machine is filled with them in thought, the
    largest first; GPUs that are left have too few CPUs or too little memory beside them, or are fewer than any size.
    Of GPUs that tasks share it is their memory, card by card. Below it stand the fewest tasks to move that would make
    such GPUs usable, and where to; nothing is done about it.
    """
    from marathon_cli.clients.marathon import Jobs, Pods
    from mesos_gpu.marathon.why.fragments import fragments as found_on
    from mesos_gpu.marathon.why.fragments import parts_of, remainders, sizes_of
    from mesos_gpu.marathon.why.moves import movable_of, plan_moves
    from mesos_gpu.marathon.why.request import spec_of

    marathon = console.marathon()
    apps = marathon.apps(tasks=True)
    mix = list(apps)
    try:
        mix += [status["spec"] for status in Pods(marathon).statuses() if isinstance(status.get("spec"), dict)]
        jobs = Jobs(marathon).all()
    except MesosGpuError as error:
        say(f"pods and jobs are left out: {error}")
        jobs = []
    cluster = Cluster(marathon.mesos())
    try:
        machines = cluster.machines()
    finally:
        cluster.close()
    specs = [spec_of(document) for document in mix]
    called = {str(machine.id): machine.called for machine in machines}
    sizes = sizes_of(specs, jobs)
    found, cards = found_on(machines, sizes), remainders(machines, parts_of(specs))
    gains = plan_moves(machines, sizes, movable_of(apps))
    if not sizes and found:
        say("nothing asks for GPUs, so of none that is free is it known that nothing could use it")
    documents = [*_whole(found, called), *_cards(cards, called)]
    if console.form not in ("table", "wide"):
        console.show(
            {"fragments": documents, "moves": _moves(gains, called)},
            table=lambda: Table(()),
            names=[str(one["agent"]) for one in documents],
        )
        return
    console.show(documents, table=lambda: Table(_FRAGMENT_COLUMNS, _rows(found, cards, called)), names=())
    for line in suggested(gains, called):
        click.echo(line)


def suggested(gains: Sequence[Gain], called: Mapping[str, str]) -> list[str]:
    """Return in sentences what could be moved; nothing where nothing would help."""
    lines = []
    for gain in gains:
        gpus = "1 GPU more usable" if gain.gpus == 1 else f"{gain.gpus} GPUs more usable"
        moved = [f"{move.task.task_id} from {called[move.task.agent_id]} to {called[move.to]}" for move in gain.moves]
        lines.append(f"{gpus} if you move {' and '.join(moved)}")
    return ["", *lines] if lines else []


def _rows(found: Sequence[Fragment], cards: Sequence[Remainder], called: Mapping[str, str]) -> list[list[object]]:
    from mesos_gpu.marathon.why.fragments import CARD_CAUSES as OF_CARDS
    from mesos_gpu.marathon.why.fragments import CAUSES

    rows: list[list[object]] = [
        [called[one.agent_id], one.free, one.stranded, ", ".join(CAUSES[cause] for cause in one.causes) or "---"]
        for one in found
    ]
    for one in cards:
        causes = ", ".join(OF_CARDS[cause] for cause in one.causes) or "---"
        name = f"{called[one.agent_id]} card {one.card}"
        rows.append([name, f"{one.free_gib} GiB", f"{one.stranded_gib} GiB", causes])
    return rows


def _whole(found: Sequence[Fragment], called: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "agent": called[one.agent_id],
            "agentId": one.agent_id,
            "free": one.free,
            "unusable": one.stranded,
            "lacks": list(one.causes),
        }
        for one in found
    ]


def _cards(cards: Sequence[Remainder], called: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "agent": called[one.agent_id],
            "agentId": one.agent_id,
            "card": one.card,
            "freeGiB": one.free_gib,
            "unusableGiB": one.stranded_gib,
            "lacks": list(one.causes),
        }
        for one in cards
    ]


def _moves(gains: Sequence[Gain], called: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "gpus": gain.gpus,
            "moves": [
                {
                    "app": move.task.app,
                    "task": move.task.task_id,
                    "from": called[move.task.agent_id],
                    "to": called[move.to],
                }
                for move in gain.moves
            ],
        }
        for gain in gains
    ]


_MIG_COLUMNS = (Column("STEP"), Column("PROFILE"), Column("SLICES"), Column("USED BY", cut=True))

_division = click.argument("division", metavar="PROFILE[,PROFILE...]")
_gpu = click.option("--gpu", default="0", show_default=True, metavar="ID", help="Which GPU, by index or UUID.")
_agent = click.option(
    "--agent", "url", metavar="URL", help="The agent of this machine; default: the box's, else http://127.0.0.1:5051."
)


@click.command()
@_division
@_gpu
@click.option("--model", metavar="NAME", help="Plan for an empty GPU of this model, such as A100-40GB; needs no GPU.")
@_agent
@output_options()
@work_dir_option
@debug_option
@pass_console
def plan(console: Console, division: str, gpu: str, model: str | None, url: str | None) -> None:
    """Show which MIG instances would be destroyed and made so that the GPU has these, and no others.

    A PROFILE is a name such as 3g.20gb or 2x1g.5gb; `none` wishes for no instance. What a container holds or a process
    uses stays where it is, and counts as one of those wished for. Nothing is changed.
    """
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.mig_models import MODELS

    wanted = read_wanted(division)
    if model is not None:
        profiles = {name.lower(): found for name, found in MODELS.items()}.get(model.lower())
        if profiles is None:
            raise BadInput(f"no profiles of a '{model}' are known; known are {', '.join(MODELS)}")
        _show(console, _told(planned(profiles, (), wanted)))
        return
    try:
        made = Book(local_agent(console, url)).divide(gpu, division, plan=True)
    except Unavailable as error:
        say(f"only processes count as use: {error}")
        made = _by_nvml(gpu, division, change=False)
    _show(console, made)


@click.command()
@_division
@_gpu
@_agent
@click.option(
    "--without-agent", is_flag=True, help="No agent hands out GPUs here: what no process uses may be destroyed."
)
@output_options()
@work_dir_option
@debug_option
@pass_console
def apply(console: Console, division: str, gpu: str, url: str | None, without_agent: bool) -> None:
    """Divide a GPU of this machine into MIG instances; none that is used is touched.

    `plan` shows what that does. Needs a GPU in MIG mode, and root where no agent does it.

    The agent divides, so that it gives what is to be ended to nobody meanwhile, and offers the new instances at once.
    """
    from mesos_gpu.doors.common.agent import Book
    from mesos_gpu.gpu.mig_layout import read_wanted

    read_wanted(division)
    if without_agent:
        _show(console, _by_nvml(gpu, division, change=True))
        return
    try:
        made = Book(local_agent(console, url)).divide(gpu, division, plan=False)
    except Unavailable as error:
        raise Unavailable(f"{error}. Where no agent hands out GPUs: --without-agent") from None
    _show(console, made)


def _by_nvml(gpu: str, division: str, *, change: bool) -> dict[str, Any]:
    """Plan, or divide, without an agent; what no process uses is idle."""
    from mesos_gpu.gpu.mig_device import apply as applied
    from mesos_gpu.gpu.mig_layout import plan as planned
    from mesos_gpu.gpu.mig_layout import read_wanted
    from mesos_gpu.gpu.nvml import open_mig_device

    with open_mig_device(gpu) as device:
        made = planned(device.profiles, device.instances(), read_wanted(division))
        if change:
            applied(device, made.destroy, made.create)
    return _told(made)


def _told(made: MigPlan) -> dict[str, Any]:
    from mesos_gpu.gpu.mig_layout import plan_shown

    return plan_shown(made)


def _show(console: Console, made: Mapping[str, Any]) -> None:
    documents = [{"step": step, "used_by": "", **one} for step in ("keep", "destroy", "create") for one in made[step]]
    table = [(one["step"], one["profile"], _slices(one), one["used_by"]) for one in documents]
    console.show(documents, table=lambda: Table(_MIG_COLUMNS, table), names=[one["profile"] for one in documents])
    if made["beyond"]:
        beyond = ", ".join(f"{one['profile']} at {one['start']}" for one in made["beyond"])
        say(f"kept besides, because it is in use: {beyond}")


def _slices(place: Mapping[str, Any]) -> str:
    last = place["start"] + place["size"] - 1
    return str(last) if place["size"] == 1 else f"{place['start']}-{last}"
