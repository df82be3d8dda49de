"""`mesos-gpu gpu fragments`: GPUs that are free and that nothing could use."""

from __future__ import annotations

import click

from marathon_cli.clients.cluster import Cluster
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import MesosGpuError

_COLUMNS = (Column("AGENT"), Column("FREE", number=True), Column("UNUSABLE", number=True), Column("FOR WANT OF"))


@click.command("fragments")
@output_options()
@target_options
@pass_console
def fragments(console: Console) -> None:
    """Show GPUs that are free and that nothing that is asked for could use, by machine, with the cause.

    The mix is the sizes of apps, pods and jobs that ask for GPUs. Each machine is filled with them in thought, the
    largest first; GPUs that are left have too few CPUs or too little memory beside them, or are fewer than any size.
    """
    from marathon_cli.api.jobs import Jobs
    from marathon_cli.api.pods import Pods
    from mesos_gpu.marathon.why.fragments import CAUSES, sizes_of
    from mesos_gpu.marathon.why.fragments import fragments as found_on
    from mesos_gpu.mesos.clients.agents import names

    marathon = console.marathon()
    apps = marathon.apps()
    try:
        apps += [status["spec"] for status in Pods(marathon).statuses() if isinstance(status.get("spec"), dict)]
        jobs = Jobs(marathon).all()
    except MesosGpuError as error:
        say(f"pods and jobs are left out: {error}")
        jobs = []
    cluster = Cluster.of(marathon)
    try:
        agents = cluster.agents()
    finally:
        cluster.close()
    called, sizes = names(agents), sizes_of(apps, jobs)
    found = found_on(agents, sizes)
    documents = [
        {
            "agent": called[one.agent_id],
            "agentId": one.agent_id,
            "free": one.free,
            "unusable": one.stranded,
            "lacks": list(one.causes),
        }
        for one in found
    ]
    rows = [
        [called[one.agent_id], one.free, one.stranded, ", ".join(CAUSES[cause] for cause in one.causes) or "---"]
        for one in found
    ]
    if not sizes:
        say("nothing asks for GPUs, so nothing could use those that are free")
    console.show(documents, table=lambda: Table(_COLUMNS, rows), names=[str(one["agent"]) for one in documents])
