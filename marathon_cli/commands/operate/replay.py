"""`mesos-gpu replay`: a history of jobs under several placement policies, without running anything."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import debug_option, output_options
from marathon_cli.screen.output import Table, columns
from mesos_gpu.errors import BadInput
from mesos_gpu.placement.policies import BEST, POLICIES

if TYPE_CHECKING:
    from mesos_gpu.placement.demand import Machine
    from mesos_gpu.replay.history import Figures, Job

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
@click.option("--jobs", "most", type=click.IntRange(min=1), help="Only the first so many jobs.")
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
    most: int | None,
    all_offers: bool,
    at_once: int | None,
) -> None:
    """Replay a history of jobs under placement policies, and compare them.

    TRACE is CSV, gzipped or not. The deciding cores of master and Marathon live through it in virtual time; nothing is
    started and no server is asked.
    Columns: arrival_s, gpus, and duration_s or end_s; name, cpus, mem_mib and gpu_model where known. Pod lists of
    Alibaba's openb are read as they are. What asks for a part of a GPU takes a whole one.
    """
    from mesos_gpu.replay.history import alike, read_jobs, read_machines

    machines = {} if nodes is None else read_machines(_rows(nodes))
    for text in alike_texts:
        machines |= alike(text)
    if not machines:
        raise BadInput("on which machines? --machines 16x8 (16 with 8 GPUs each), or --nodes FILE.csv")
    jobs, parts = read_jobs(_rows(trace))
    if parts:
        click.echo(f"{parts} of {len(jobs)} jobs ask for a part of a GPU; each takes a whole one here.", err=True)
    found = _lived(
        machines, jobs[:most], policies, at_once=min(at_once or cpu_count() or 1, len(policies)), all_offers=all_offers
    )
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
    documents: list[Mapping[str, Any]] = [asdict(each) for each in found]
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


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            return list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as CSV: {error}") from None
