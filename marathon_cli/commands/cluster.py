"""`mesos-gpu leader, about, ping, plugin`: the Marathon itself."""

from __future__ import annotations

import time

import click

from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Table, columns
from mesos_gpu.errors import NotFound, ProtocolError, Refused


@click.command()
@output_options(default="json")
@target_options
@pass_console
def about(console: Console) -> None:
    """Print what Marathon says of itself: version, leader, flags."""
    info = console.marathon().info()
    rows = [["name", info.get("name")], ["version", info.get("version")], ["leader", info.get("leader")]]
    rows += [[key, _plain(value)] for key, value in sorted((info.get("marathon_config") or {}).items())]
    names = [f"{info.get('name')} {info.get('version')}"]
    console.show(info, table=lambda: Table(columns("WHAT", "IS"), rows), names=names)


@click.command()
@click.option(
    "--once", is_flag=True, hidden=True, expose_value=False, help="Accepted for those used to `dcos`; it has no effect."
)
@output_options()
@target_options
@pass_console
def ping(console: Console) -> None:
    """Check that Marathon answers."""
    marathon = console.marathon()
    begun = time.monotonic()
    said = marathon.ping()
    took_ms = round((time.monotonic() - begun) * 1000, 1)
    if said != "pong":
        raise ProtocolError(f"{marathon.url} does not answer as a Marathon does: {said[:60]!r}, not pong")
    console.tell(f"{said} from {marathon.url} in {took_ms:g} ms", {"answer": said, "ms": took_ms}, names=[said])


@click.command(name="show")
@output_options()
@target_options
@pass_console
def show_leader(console: Console) -> None:
    """Print host and port of the leading Marathon."""
    leader = console.marathon().leader()
    console.tell(leader, {"leader": leader}, names=[leader])


@click.command(name="delete")
@output_options()
@target_options
@pass_console
def delete_leader(console: Console) -> None:
    """Have the leading Marathon step down, so that another one leads."""
    said = console.marathon().abdicate()
    console.tell(said, {"message": said}, names=[])


@click.command(name="list")
@output_options()
@target_options
@pass_console
def list_plugins(console: Console) -> None:
    """List the plugins that Marathon runs."""
    marathon = console.marathon()
    try:
        found = marathon.plugins()
    except (NotFound, Refused) as error:
        raise NotFound(f"the Marathon at {marathon.url} does not list plugins ({error})") from None
    rows = [[item.get("id"), item.get("implementation"), item.get("plugin")] for item in found]
    names = [str(item.get("id")) for item in found]
    none = "no plugins run in this Marathon; ours takes none"
    console.show(found, table=lambda: Table(columns("ID", "IMPLEMENTATION", "PLUGIN"), rows), names=names, none=none)


def _plain(value: object) -> object:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else value
