"""`mesos-gpu app list, show, versions`: what Marathon knows of apps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import click

from marathon_cli.api.apps import Apps
from marathon_cli.changes.versions import resolve_version
from marathon_cli.clients.client import Marathon
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.screen.names import app_id, hints, named
from marathon_cli.screen.numbers import Whole
from marathon_cli.screen.output import Column, Table, columns
from marathon_cli.show.gpu_lines import GpuLine, by_agent
from marathon_cli.show.gpu_view import held_gpus
from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.marathon.why.failure import failing, in_short
from mesos_gpu.marathon.why.suspended import is_suspended

_NONE = "no apps; `mesos-gpu app add FILE` adds one, `mesos-gpu run -- nvidia-smi` runs a command once"
_COLUMNS = (
    Column("ID"),
    Column("GPUS", number=True),
    Column("DEVICES", rank=1, cut=True),
    Column("CPUS", number=True, rank=1),
    Column("MEM", number=True, rank=1),
    Column("TASKS", number=True),
    Column("STATUS", cut=True),
    Column("HEALTH", rank=2),
    Column("DEPLOYMENT"),
    Column("WAITING", rank=2),
    Column("CONTAINER", rank=4),
    Column("ROLE", rank=4),
    Column("CMD", rank=3, cut=True),
)


@click.command(name="list")
@click.argument("app_ids", metavar="[APP]...", nargs=-1)
@selector_option
@watch_options
@output_options()
@target_options
@pass_console
def list_apps(console: Console, app_ids: tuple[str, ...], label: str | None) -> None:
    """List the apps."""
    marathon = console.marathon()
    wanted = [app_id(name) for name in app_ids]

    def look() -> None:
        apps = named(marathon.apps(label=label, failures=True), wanted, "app")

        def table() -> Table:
            beside = _beside(marathon, apps)
            return Table(_COLUMNS, [_row(item, beside) for item in apps])

        console.show(apps, table=table, names=[str(item.get("id")) for item in apps], none=_NONE)

    console.repeat(look)


@click.command()
@click.argument("name", metavar="APP")
@click.option(
    "--version",
    "--app-version",
    metavar="VERSION",
    help="An earlier version: its timestamp, or -1 for the one before this.",
)
@output_options(default="json")
@target_options
@pass_console
def show(console: Console, name: str, version: str | None) -> None:
    """Print everything that Marathon knows of APP."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        if version is None:
            app = marathon.app(wanted)
        else:
            app = Apps(marathon).version(wanted, resolve_version(marathon, wanted, version))

    def table() -> Table:
        return Table(_COLUMNS, [_row(app, _beside(marathon, [app]))])

    console.show(app, table=table, names=[str(app.get("id"))])


@click.command()
@click.argument("name", metavar="APP")
@click.option("--max-count", type=Whole(min=1), metavar="N", help="Only the newest N.")
@output_options()
@target_options
@pass_console
def versions(console: Console, name: str, max_count: int | None) -> None:
    """List the versions of APP, newest first."""
    marathon, wanted = console.marathon(), app_id(name)
    with hints(wanted, marathon.app_ids):
        found = Apps(marathon).versions(wanted)[:max_count]
    rows = [[text, -back if back else "now"] for back, text in enumerate(found)]
    console.show(found, table=lambda: Table(columns("VERSION", "BACK", numbers=("BACK",)), rows), names=found)


class _Beside(NamedTuple):
    """What is known of apps beside what they say themselves, each by the app's id."""

    actions: Mapping[str, str]
    waiting: Mapping[str, str]
    devices: Mapping[str, str]
    suspended: Mapping[str, int]
    """How many of its tasks have their GPUs put away."""


_GIVES = ("gpus", "gpuShare", "preemptible")


def _beside(marathon: Marathon, apps: Sequence[Mapping[str, Any]]) -> _Beside:
    # What has GPUs may be suspended: its tasks tell, and hold devices.
    asks = any(any(map(item.get, _GIVES)) and item.get("tasksRunning") for item in apps)
    tasks = marathon.tasks() if asks else []
    suspended = Counter(str(task.get("appId")) for task in tasks if is_suspended(task))
    return _Beside(_actions(marathon), _waiting(marathon), _devices(marathon, apps, tasks), suspended)


def _actions(marathon: Marathon) -> dict[str, str]:
    """Return what deployments are doing to each app."""
    found: dict[str, set[str]] = {}
    try:
        deployments = marathon.deployments()
    except (NotFound, Unavailable):
        deployments = []
    for deployment in deployments:
        for action in deployment.get("currentActions", []):
            word = str(action.get("action", "")).removesuffix("Application").lower()
            found.setdefault(str(action.get("app")), set()).add(word)
    return {name: ",".join(sorted(words)) for name, words in found.items()}


def _devices(
    marathon: Marathon, apps: Sequence[Mapping[str, Any]], tasks: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return which GPUs the tasks of each app hold, `0,1@host`; nothing of agents of Mesos' own, which do not tell."""
    wanting = {str(item.get("id")) for item in apps if item.get("gpus") and item.get("tasksRunning")}
    if not wanting:
        return {}
    theirs = [task for task in tasks if str(task.get("appId")) in wanting]
    held: dict[str, list[GpuLine]] = {}
    for lines in held_gpus(marathon, theirs).values():
        for line in lines:
            held.setdefault(str(line.app), []).append(line)
    return {app_id: by_agent(lines) for app_id, lines in held.items()}


def _waiting(marathon: Marathon) -> dict[str, str]:
    """Return how many instances of each app wait for an offer, and how long they are held back."""
    try:
        queue: Iterable[Mapping[str, Any]] = marathon.queue()
    except (NotFound, Unavailable):
        return {}
    found = {}
    for item in queue:
        left = (item.get("delay") or {}).get("timeLeftSeconds") or 0
        order = item.get("order") or {}
        gang = (
            f", {order.get('membersThatFit')} of {order['members']} fit" if int(order.get("members") or 1) > 1 else ""
        )
        found[str((item.get("app") or {}).get("id"))] = f"{item.get('count')}{f' in {left:g} s' if left else gang}"
    return found


def _status(item: Mapping[str, Any], beside: _Beside) -> str:
    """Return how an app is, in as few words as tell what to look at: what fails comes before all else."""
    running, wanted = int(item.get("tasksRunning") or 0), int(item.get("instances") or 0)
    failure = failing(item, running=running, wanted=wanted, now=datetime.now(timezone.utc))
    if failure is not None:
        return in_short(failure)
    if wanted == 0 and running == 0:
        return "stopped"
    if item.get("tasksUnhealthy"):
        return "unhealthy"
    if away := beside.suspended.get(str(item.get("id"))):
        return "suspended" if away >= running else f"{away} of {running} suspended"
    if running >= wanted:
        return "running"
    return "waiting" if str(item.get("id")) in beside.waiting else "starting"


def _row(item: Mapping[str, Any], beside: _Beside) -> list[object]:
    name = str(item.get("id"))
    running, healthy, sick = item.get("tasksRunning", 0), item.get("tasksHealthy", 0), item.get("tasksUnhealthy", 0)
    cmd = item.get("cmd") or (f"[{', '.join(item['args'])}]" if item.get("args") else "---")
    return [
        name,
        item.get("gpus", 0),
        beside.devices.get(name, "---"),
        item.get("cpus"),
        item.get("mem"),
        f"{running}/{item.get('instances', 0)}",
        _status(item, beside),
        f"{healthy}/{running}" if healthy or sick else "---",
        beside.actions.get(name, "waiting" if item.get("deployments") else "---"),
        beside.waiting.get(name, "---"),
        (item.get("container") or {}).get("type", "MESOS"),
        item.get("role", "---"),
        " ".join(str(cmd).split()),
    ]
