"""`mesos-gpu doctor`: is this machine fit for GPU containers, and how to mend what is not."""

from __future__ import annotations

from typing import Any

import click

from marathon_cli.connection.access import Access, stranger
from marathon_cli.connection.http import HttpClient
from marathon_cli.console.console import Console, box_agents, pass_console
from marathon_cli.console.options import debug_option, output_options, work_dir_option
from marathon_cli.screen.output import Table, columns, printable, terminal, terminal_width, wrapped
from mesos_gpu.doctor.checks import examine
from mesos_gpu.doctor.facts import RunningAgent
from mesos_gpu.doctor.finding import Verdict
from mesos_gpu.errors import MesosGpuError, NotFound, Refused

_USUAL_AGENT = "http://127.0.0.1:5051"


@click.command()
@click.option(
    "--agent", "urls", multiple=True, metavar="URL", help="An agent to check; default: those of this machine."
)
@work_dir_option
@debug_option
@output_options()
@pass_console
def doctor(console: Console, urls: tuple[str, ...]) -> int:
    """Check this machine: driver, NVML, device nodes, cgroups, programs, ports, and the flags of its agents.

    Each line says what was found, and for what is wrong how to mend it. The exit status is 1 when there is a problem;
    warnings and notes leave it 0. Nothing is changed, and nothing but `crun --version` is started.
    """
    from mesos_gpu.doctor.gather import gather

    findings = examine(gather(agents=_agents(console, urls)))
    bad = [finding for finding in findings if finding.verdict is Verdict.PROBLEM]
    documents = [finding.document() for finding in findings]

    if console.form in ("table", "wide"):
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            color = {"problem": "red", "warning": "yellow", "ok": "green"}.get(finding.verdict.value)
            room = None if terminal() is None else max(30, terminal_width() - width - 11)
            lines = wrapped(printable(finding.found), room)
            lines += wrapped(printable(finding.mend), room) if finding.mend else []
            mark = click.style(f"{finding.verdict.value:<7}", fg=color)
            click.echo(f"{mark}  {finding.check:<{width}}  {lines[0]}")
            for line in lines[1:]:
                click.echo(f"{'':<{width + 11}}{line}")
        some = f"{len(bad)} problem{'s' if len(bad) != 1 else ''}"
        click.echo(f"\n{some if bad else 'No problem'} found.")
    else:
        shape = columns("VERDICT", "CHECK", "FOUND", "MEND")
        console.show(documents, table=lambda: Table(shape), names=[finding.check for finding in bad])
    return 1 if bad else 0


def _agents(console: Console, urls: tuple[str, ...]) -> list[RunningAgent]:
    """Return the agents that are named, else the box's and one at the usual port; those not named may be silent."""
    found = []
    for url in urls or _of_this_machine(console):
        try:
            # One that was not named may be anybody's: it is not shown who we are.
            found.append(_ask(url, console.connections().settings.mesos_access(url) if urls else None))
        except MesosGpuError:
            if urls:
                raise
    return found


def _of_this_machine(console: Console) -> list[str]:
    return list(dict.fromkeys([*box_agents(console), _USUAL_AGENT]))


def _ask(url: str, access: Access | None) -> RunningAgent:
    """Return what an agent says of itself. Raises what a silent one stands for, NotFound when it is no agent."""
    client = HttpClient(url, what="Mesos agent", access=access)
    try:
        shown = _get(client, "/flags")
        state = _get(client, "/state")
        gpus = _get(client, "/gpus")
    finally:
        client.close()
    if not isinstance(shown, dict) or not isinstance(state, dict) or "slave" not in str(state.get("pid")):
        raise NotFound(f"{url} is not a Mesos agent")
    ill = [gpu for gpu in gpus if gpu.get("condition") in ("draining", "unhealthy")] if isinstance(gpus, list) else []
    return RunningAgent(
        url=client.url,
        flags={str(name): str(value) for name, value in (shown.get("flags") or {}).items()},
        gpus=float((state.get("resources") or {}).get("gpus") or 0),
        withdrawn=tuple(f"GPU {gpu.get('index')}: {gpu.get('reason') or gpu['condition']}" for gpu in ill),
        version=str(state.get("version", "")),
    )


def _get(client: Any, path: str) -> Any:
    answer = client.ask("GET", path)
    if answer.status_code == 401:
        raise Refused(f"the agent {client.url} {stranger(client.access)}", status=401)
    return client.read(answer) if answer.ok else None
