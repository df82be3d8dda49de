"""`mesos-gpu agent describe`."""

from __future__ import annotations

import sys
import time

import click

from marathon_cli.clients.cluster import Cluster, owners
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Table, say, terminal_width
from marathon_cli.show import description
from marathon_cli.show.gpu_lines import gpu_lines, untold
from mesos_gpu.mesos.clients.agents import find_agent, names


@click.command()
@click.argument("name", metavar="AGENT")
@output_options()
@target_options
@pass_console
def describe(console: Console, name: str) -> None:
    """Show all about one agent: its GPUs, what is taken, and by which tasks.

    AGENT is a hostname, hostname:port, an id, or the end of one, such as S3. The view is that of `kubectl describe
    node`: capacity is the machine's, allocatable what the agent offers, allocated what tasks have of it.
    """
    marathon = console.marathon()
    cluster = Cluster.of(marathon)
    click.get_current_context().call_on_close(cluster.close)
    agents = cluster.agents()
    agent = find_agent(agents, name)
    called = names(agents)[agent.id]
    tasks = cluster.tasks([agent])[agent.id]
    apps = owners(marathon.tasks())
    shown = cluster.gpus([agent])[agent.id]
    gpus = gpu_lines(agent, called, shown, tasks, apps)
    machine = cluster.machine(agent)
    for reason in cluster.silent.values():
        say(f"agent {called} does not tell of its tasks and GPUs: {reason}")
    if gpus and shown is None and not cluster.silent:
        say(untold([called]))
    described = description.describe(agent, called, gpus, tasks, machine, apps, now_s=time.time())
    if console.form in ("table", "wide"):
        narrow = console.form == "table" and sys.stdout.isatty()
        for line in description.lines_of(described, width=terminal_width() if narrow else None):
            click.echo(line)
    else:
        console.show(described, table=lambda: Table(()), names=[agent.id])
