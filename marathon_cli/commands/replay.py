"""`mesos-gpu replay`: a history of jobs under several placement policies, without running anything."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from os import cpu_count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options
from marathon_cli.screen.output import Table, columns
from mesos_gpu.errors import BadInput
from mesos_gpu.placement.policies import BEST, POLICIES

if TYPE_CHECKING:
    from mesos_gpu.placement.demand import Machine
    from mesos_gpu.replay.history import Figures
    from mesos_gpu.replay.jobs import Job


_WORTH_IT = 1000
"""Jobs from which on a policy has a process of its own; that takes half a second to start."""


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--machines", "alike_texts", multiple=True, metavar="16x8[:CPUS:MIB[:MODEL]]", help="Machines with GPUs.")
@click.option(
    "--nodes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A table of machines: sn, cpu_milli, memory_mib, gpu, model.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(list(POLICIES)),
    default=("first_fit", BEST),
    show_default=True,
    help="A policy to try; several may be given.",
)
@click.option(
    "--jobs",
    "count",
    type=click.IntRange(min=1),
    help="Only the first so many jobs; where there are fewer, or with --load, so many drawn from them by chance.",
)
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    help="Draw jobs that ask for so many times all GPUs in the long run; default, where jobs are drawn: 1.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which jobs are drawn, and when they come.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE.svg",
    help="Draw GPUs in use, jobs that wait and waiting times (pip install 'mesos-gpu[plots]').",
)
@click.option(
    "--all-offers",
    is_flag=True,
    help="Offer every machine for every job, as a master does; as much slower as there are machines.",
)
@click.option(
    "--processes",
    "at_once",
    type=click.IntRange(min=1),
    metavar="N",
    help="Policies at a time; default: the processors.",
)
@debug_option
@output_options()
@pass_console
def replay(
    console: Console,
    trace: Path,
    alike_texts: tuple[str, ...],
    nodes: Path | None,
    policies: tuple[str, ...],
    count: int | None,
    load: float | None,
    seed: int,
    plot: Path | None,
    all_offers: bool,
    at_once: int | None,
) -> None:
    """Replay a history of jobs under placement policies, and compare them.

    TRACE is CSV, or Philly's cluster_job_log (.json), gzipped or not. The deciding cores of master and Marathon live
    through it in virtual time; nothing is started and no server is asked.
    Columns: arrival_s, gpus, and duration_s or end_s; name, nodes, priority, cpus, mem_mib and gpu_model where known.
    Pod lists of Alibaba's openb are read as they are. What asks for a part of a GPU takes a whole one.
    """
    from mesos_gpu.replay.history import alike, read_machines
    from mesos_gpu.replay.jobs import drawn, read_jobs

    machines = {} if nodes is None else read_machines(_rows(nodes))
    for text in alike_texts:
        machines |= alike(text)
    if not machines:
        raise BadInput("on which machines? --machines 16x8 (16 with 8 GPUs each), or --nodes FILE.csv")
    jobs, parts = read_jobs(_jobs(trace))
    if parts:
        click.echo(f"{parts} of {len(jobs)} jobs ask for a part of a GPU; each takes a whole one here.", err=True)
    if load is not None or (count or 0) > len(jobs):
        total = sum(len(machine.cards) for machine in machines.values())
        jobs = drawn(jobs, count or len(jobs), total, load or 1.0, Random(seed))
    found = _lived(
        machines, jobs[:count], policies, at_once=min(at_once or cpu_count() or 1, len(policies)), all_offers=all_offers
    )
    if plot is not None:
        _draw(plot, found, sum(len(machine.cards) for machine in machines.values()))
    _show(console, found)


def _show(console: Console, found: Sequence[Figures]) -> None:
    shape = columns(
        "POLICY", "JOBS", "ENDED", "GPUS USED", "MOST", "FREE WHILE WAITING", "WAITED", "P50", "P99", "DONE IN"
    )
    rows = [
        (
            each.policy,
            str(each.jobs),
            str(each.ended),
            *(f"{100 * part:.1f} %" for part in (each.gpus_used, each.most_used, each.fragments)),
            *(f"{s:.0f} s" for s in (each.waited_s, each.waited_p50_s, each.waited_p99_s, each.completed_s)),
        )
        for each in found
    ]
    from msgspec.structs import asdict

    documents: list[Mapping[str, Any]] = [
        {key: value for key, value in asdict(each).items() if key not in ("course", "waits_s")} for each in found
    ]
    console.show(documents, table=lambda: Table(shape, rows), names=[each.policy for each in found])


def _lived(
    machines: Mapping[str, Machine], jobs: Sequence[Job], policies: Sequence[str], *, at_once: int, all_offers: bool
) -> list[Figures]:
    """Live through a history under each policy, several at a time; the answers come in the order of the policies."""
    from mesos_gpu.replay.history import live_through

    live = partial(live_through, machines, jobs, all_offers=all_offers)
    if at_once < 2 or len(jobs) < _WORTH_IT:
        return [live(policy) for policy in policies]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(at_once, get_context("spawn")) as pool:
        return list(pool.map(live, policies))


def _draw(path: Path, found: Sequence[Figures], gpus: int) -> None:

    try:
        path.write_bytes(svg(found, gpus))
    except OSError as error:
        raise BadInput(f"the plot cannot be written: {error}") from None


def _jobs(path: Path) -> list[dict[str, str]]:
    """Return the rows of a history: those of a table, or made of Philly's log."""
    if ".json" not in path.suffixes and path.name != "cluster_job_log":
        return _rows(path)
    from mesos_gpu.replay.jobs import philly_rows

    try:
        return philly_rows(json.loads(_text(path)))
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}") from None


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(path).splitlines()))


def _text(path: Path) -> str:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            return lines.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as CSV: {error}") from None


_HOUR_S = 3600
_SIZE_INCHES = (9.0, 10.0)
_PLAIN: Any = {
    "svg.hashsalt": "mesos-gpu",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
"""Ids of the drawing are made of this salt and not of chance; letters stay text, so no fonts are drawn."""


def svg(found: Sequence[Figures], gpus: int) -> bytes:
    """Return three plots below each other: GPUs in use (of `gpus`), jobs that wait, and how long jobs waited.

    Raises BadInput where matplotlib is not there.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("plots are drawn by matplotlib, which is not here: pip install 'mesos-gpu[plots]'") from None
    with rc_context(_PLAIN):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        used, waiting, waited = figure.subplots(3)
        for each in found:
            hours = [at_s / _HOUR_S for at_s, _, _ in each.course]
            held = [100 * held / gpus if gpus else 0.0 for _, held, _ in each.course]
            used.step(hours, held, where="post", label=each.policy)
            waiting.step(hours, [count for _, _, count in each.course], where="post", label=each.policy)
            parts = [100 * place / max(1, len(each.waits_s)) for place in range(1, len(each.waits_s) + 1)]
            waited.step([s / _HOUR_S for s in each.waits_s], parts, where="post", label=each.policy)
        used.set(xlabel="hours", ylabel="GPUs in use, %", ylim=(0, 105))
        waiting.set(xlabel="hours", ylabel="jobs that wait", ylim=(0, None))
        waited.set(xlabel="hours waited, at most", ylabel="jobs, %", ylim=(0, 105))
        for axes in (used, waiting, waited):
            axes.legend(loc="best")
        drawn = BytesIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": "mesos-gpu replay"})
    return drawn.getvalue()
