"""`mesos-gpu task metrics`: what a task uses."""

from __future__ import annotations

import time

import click

from marathon_cli.commands.tasks.task_exec import container_of, find_task
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.numbers import Number
from marathon_cli.screen.output import Column, Table, columns
from marathon_cli.show import task_metrics
from mesos_gpu.errors import NotFound, Refused


@click.command()
@click.option("--details", is_flag=True, help="Show every number that the agent measures.")
@click.option(
    "--interval",
    type=Number(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long CPU use is watched.",
)
@click.argument("task", metavar="TASK")
@output_options()
@target_options
@pass_console
def metrics(console: Console, details: bool, interval: float, task: str) -> None:
    """Show what TASK uses: CPUs, memory, disk, and each of its GPUs.

    GPUs are shown by this project's agents; Mesos' own do not measure them.
    """
    agent, found = find_task(console, task)
    container_id = container_of(found)

    def measure() -> task_metrics.Document:
        answer = agent.ask("GET", "/containers", query={"show_nested": "true"})
        if not answer.ok:
            said = answer.text.strip() or answer.reason
            raise Refused(f"{agent.url} does not tell what tasks use: {said}", status=answer.status_code)
        measured = task_metrics.container(agent.read(answer), container_id)
        if measured is None:
            raise NotFound(f"the agent {agent.url} has no container of task {found.id} (any more)")
        return measured

    before = measure()

    def table() -> Table:
        if details:
            return Table(columns("NAME", "VALUE"), task_metrics.details(before))
        time.sleep(interval)
        rows = task_metrics.summary(before, measure())
        return Table((Column("RESOURCE"), Column("USED", number=True), Column("OF", number=True)), rows)

    console.show(before, table=table, names=[found.id])
