"""`mesos-gpu gpu fragments`: GPUs that are free and that nothing could use, and the moves that would change that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.clients.mesos import Cluster
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import MesosGpuError

if TYPE_CHECKING:
    from mesos_gpu.marathon.why.fragments import Fragment, Remainder
    from mesos_gpu.marathon.why.moves import Gain


_COLUMNS = (Column("AGENT"), Column("FREE", number=True), Column("UNUSABLE", number=True), Column("FOR WANT OF"))


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
    console.show(documents, table=lambda: Table(_COLUMNS, _rows(found, cards, called)), names=())
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
