"""`mesos-gpu image`: list, pull, prune; the images that agents keep."""

from __future__ import annotations

import time
from typing import Any

import click

from marathon_cli.connection.http import HttpClient
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import Table, columns
from marathon_cli.screen.units import read_size, read_span, size, span
from marathon_cli.show.pulls import PullDisplay
from mesos_gpu.errors import BadInput, MesosGpuError, Refused, Unavailable

_NONE = "no images; `mesos-gpu image pull IMAGE` has the agents pull one"


@click.command(name="list")
@output_options()
@target_options
@pass_console
def list_images(console: Console) -> None:
    """List the images of all agents."""
    found = [
        {"agent": name, **item} for name, agent in _agents(console) for item in _get_images(agent).get("images", [])
    ]
    now_s = time.time()
    rows = [
        [
            item["reference"],
            str(item["digest"]).partition(":")[2][:12],
            size(item["bytes"]),
            item["layers"],
            f"{span(now_s - item['used_at_s'])} ago",
            len(item["used_by"]),
            item["agent"],
        ]
        for item in found
    ]
    numbers = ("SIZE", "LAYERS", "CONTAINERS")
    shape = columns("IMAGE", "DIGEST", "SIZE", "LAYERS", "LAST USED", "CONTAINERS", "AGENT", numbers=numbers)
    console.show(found, table=lambda: Table(shape, rows), names=[str(item["reference"]) for item in found], none=_NONE)


@click.command()
@click.argument("name", metavar="IMAGE")
@click.option(
    "--again", is_flag=True, help="Ask the registry even when the image is in the store: its tag may have moved."
)
@target_options
@pass_console
def pull(console: Console, name: str, again: bool) -> None:
    """Have every agent pull IMAGE, so that the first container in it starts at once."""
    for agent_name, agent in _agents(console):
        display, outcome = PullDisplay(), None
        try:
            for line in agent.lines("POST", "/images/pull", body={"reference": name, "cached": not again}):
                if "progress" in line:
                    display.show([line["progress"]], time.monotonic())
                else:
                    outcome = line
        finally:
            display.close()
        if outcome is None:
            raise Unavailable(f"agent {agent_name} broke off while it pulled {name}")
        if "error" in outcome:
            raise Unavailable(f"agent {agent_name}: {outcome['error']}")
        click.echo(f"{outcome['image']['reference']} {outcome['image']['digest']} is on {agent_name}")


@click.command()
@click.option(
    "--max-size", metavar="SIZE", help="Leave at most this much, such as 20g; what was unused longest goes first."
)
@click.option("--max-age", metavar="AGE", help="Remove what was unused for longer, such as 12h or 7d.")
@target_options
@pass_console
def prune(console: Console, max_size: str | None, max_age: str | None) -> None:
    """Remove images that no container uses.

    All of them, or as --max-size and --max-age say.
    """
    asked: dict[str, Any] = {"max_bytes": _bytes(max_size), "max_age_s": _seconds(max_age)}
    if max_size is None and max_age is None:
        asked["max_bytes"] = 0
    for name, agent in _agents(console):
        answer = agent.ask("POST", "/images/prune", body=asked)
        if not answer.ok:
            raise _refused(agent, answer.text, answer.status_code)
        removed = agent.read(answer)
        for reference in removed["images"]:
            click.echo(f"removed {reference} from {name}")
        click.echo(f"{size(removed['bytes'])} are free again on {name}")


def _agents(console: Console) -> list[tuple[str, HttpClient]]:
    return console.mesos().agents()


def _get_images(agent: HttpClient) -> dict[str, Any]:
    answer = agent.ask("GET", "/images")
    if not answer.ok:
        raise _refused(agent, answer.text, answer.status_code)
    found = agent.read(answer)
    return found if isinstance(found, dict) else {}


def _refused(agent: HttpClient, said: str, status: int) -> MesosGpuError:
    if status == 404:
        return Refused(f"{agent.url} is not an agent of mesos-gpu: it does not show its images", status=status)
    return Refused(f"{agent.url} refuses this: {said.strip()}", status=status)


def _bytes(text: str | None) -> int | None:
    try:
        return None if text is None else int(read_size(text))
    except ValueError as error:
        raise BadInput(f"--max-size: {error}") from None


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else read_span(text)
    except ValueError as error:
        raise BadInput(f"--max-age: {error}") from None
