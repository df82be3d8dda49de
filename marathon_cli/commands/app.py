"""`mesos-gpu app`: add, list, show, remove."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.console import Console, output_options, pass_console, target_options
from marathon_cli.output import Column, Table, say
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError, NotFound, Problem, Unavailable

if TYPE_CHECKING:
    from marathon_cli.client import Marathon
    from marathon_cli.gpu_lines import GpuLine
    from mesos_gpu.marathon.app import AppRules

_COLUMNS = (
    Column("ID"),
    Column("GPUS", number=True),
    Column("DEVICES", rank=3),
    Column("CPUS", number=True),
    Column("MEM", number=True),
    Column("TASKS", number=True),
    Column("HEALTH"),
    Column("DEPLOYMENT"),
    Column("CONTAINER", rank=1),
    Column("ROLE", rank=1),
    Column("CMD", rank=2, cut=True),
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long --wait waits; 0 = without end.",
)


@click.command()
@click.argument("file", required=False)
@click.option("--wait", is_flag=True, help="Return when the app runs.")
@timeout_option
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--force", is_flag=True, help="Replace a deployment that holds the app.")
@target_options
@pass_console
def add(console: Console, file: str | None, wait: bool, timeout: float, no_validate: bool, force: bool) -> None:
    """Add the app that FILE defines.

    FILE is JSON; - is standard input. It is checked first; unknown keys, which a server would overlook, are refused.
    """
    from marathon_cli import check
    from marathon_cli.client import InvalidForServer, Locked
    from mesos_gpu.marathon.app import AppRules

    if file is None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe JSON in: mesos-gpu app add app.json")
    source = check.read_source(file or "-")
    document = check.parse(source)
    try:
        marathon = console.marathon()
        rules = _rules(marathon.info())
    except MesosGpuError:
        # What is wrong with the file comes first: it is nearer, and fixed without a server.
        if not no_validate:
            check.check_app(source, document, AppRules(known=False))
        raise
    if not no_validate:
        check.check_app(source, document, rules)
    try:
        created, deployment_id = marathon.add_app(document, force=force)
    except InvalidForServer as error:
        if not error.problems:
            raise
        problems = [_with_hint(problem, document, rules) for problem in error.problems]
        raise BadInput(check.report(source, problems, by=f" found by {marathon.url}")) from None
    except Locked:
        raise
    except Conflict as error:
        raise _explained(error, document) from None
    app_id = str(created.get("id"))
    click.echo(f"Created deployment {deployment_id} of {app_id}")
    if wait and deployment_id is not None:
        _wait(marathon, app_id, deployment_id, timeout)


@click.command(name="list")
@output_options()
@target_options
@pass_console
def list_apps(console: Console) -> None:
    """List the apps."""
    marathon = console.marathon()
    apps = marathon.apps()

    def table() -> Table:
        actions, devices = _actions(marathon), _devices(marathon, apps)
        return Table(_COLUMNS, [_row(item, actions, devices) for item in apps])

    console.show(apps, table=table, names=[str(item.get("id")) for item in apps])


@click.command()
@click.argument("app_id", metavar="APP")
@output_options(default="json")
@target_options
@pass_console
def show(console: Console, app_id: str) -> None:
    """Print everything that Marathon knows of APP."""
    marathon = console.marathon()
    app = marathon.app(_id(app_id))

    def table() -> Table:
        return Table(_COLUMNS, [_row(app, _actions(marathon), _devices(marathon, [app]))])

    console.show(app, table=table, names=[str(app.get("id"))])


@click.command()
@click.argument("app_id", metavar="APP")
@click.option("--wait", is_flag=True, help="Return when the app's tasks have ended.")
@timeout_option
@click.option(
    "--force/--no-force",
    default=True,
    show_default=True,
    help="Also while a deployment holds the app, as Marathon does.",
)
@target_options
@pass_console
def remove(console: Console, app_id: str, wait: bool, timeout: float, force: bool) -> None:
    """Remove APP and end its tasks."""
    marathon = console.marathon()
    deployment_id = marathon.remove_app(_id(app_id), force=force)
    click.echo(f"Created deployment {deployment_id}: removes {_id(app_id)}")
    if wait and deployment_id is not None:
        _wait(marathon, _id(app_id), deployment_id, timeout, removing=True)


def _id(text: str) -> str:
    from mesos_gpu.marathon.app_ids import canonical_id

    app_id = canonical_id(text)
    if app_id == "/":
        raise BadInput("/ is the root group; an app needs a name")
    return app_id


def _wait(marathon: Marathon, app_id: str, deployment_id: str, timeout_s: float, *, removing: bool = False) -> None:
    from marathon_cli.pulls import PullWatch
    from marathon_cli.wait import Wait

    pulls = PullWatch(marathon)
    wait = Wait(marathon, app_id, deployment_id, say, time.monotonic, time.sleep, show_pulls=pulls.look)
    try:
        wait.until_done(timeout_s, removing=removing)
    finally:
        pulls.close()


def _rules(info: Mapping[str, Any]) -> AppRules:
    """Return what this Marathon accepts, as far as it says so."""
    from mesos_gpu.marathon.app import FEATURES, AppRules

    config = info.get("marathon_config") or {}
    features = config.get("features")
    if isinstance(features, str):
        features = [item for item in features.split(",") if item]
    version = [int(part) for part in str(info.get("version", "")).split(".")[:2] if part.isdigit()]
    return AppRules(
        mesos_role=config.get("mesos_role") or "*",
        features=FEATURES if features is None else frozenset(features),
        default_network_name=config.get("default_network_name"),
        bridge_name=config.get("mesos_bridge_name") or "mesos-bridge",
        enforced_groups=None,
        # Before 1.10 a Marathon accepted any role, or dropped those that were not its own.
        known=len(version) < 2 or version >= [1, 10],
    )


def _with_hint(problem: Problem, document: Any, rules: AppRules) -> Problem:
    """Say what to do about roles also where only the server could know that they are not accepted."""
    from dataclasses import replace

    from mesos_gpu.marathon.app_rules import role_hint

    accepted = document.get("acceptedResourceRoles") if isinstance(document, dict) else None
    strange = [str(role) for role in accepted if role not in ("*", rules.mesos_role)] if accepted else []
    if strange and problem.path.startswith("/acceptedResourceRoles"):
        return replace(problem, suggestion=role_hint(strange, rules.mesos_role))
    return problem


def _explained(error: Conflict, document: Any) -> Conflict:
    name = document.get("id") if isinstance(document, dict) else None
    already = str(error) if "already exists" in str(error) else f"app {name} already exists: {error}"
    see, anew = f"mesos-gpu app show {name}", f"mesos-gpu app remove {name}"
    return Conflict(f"{already}\n  `{see}` shows it; `{anew}` makes room for a new one")


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


def _devices(marathon: Marathon, apps: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return which GPUs the tasks of each app hold, `0,1@host`; nothing of agents of Mesos' own, which do not tell."""
    wanting = {str(item.get("id")) for item in apps if item.get("gpus") and item.get("tasksRunning")}
    if not wanting:
        return {}
    from marathon_cli.gpu_lines import by_agent
    from marathon_cli.gpu_view import held_gpus

    tasks = [task for task in marathon.tasks() if str(task.get("appId")) in wanting]
    held: dict[str, list[GpuLine]] = {}
    for lines in held_gpus(marathon, tasks).values():
        for line in lines:
            held.setdefault(str(line.app), []).append(line)
    return {app_id: by_agent(lines) for app_id, lines in held.items()}


def _row(item: Mapping[str, Any], actions: Mapping[str, str], devices: Mapping[str, str]) -> list[object]:
    running, healthy, sick = item.get("tasksRunning", 0), item.get("tasksHealthy", 0), item.get("tasksUnhealthy", 0)
    cmd = item.get("cmd") or (f"[{', '.join(item['args'])}]" if item.get("args") else "---")
    default = "waiting" if item.get("deployments") else "---"
    return [
        item.get("id"),
        item.get("gpus", 0),
        devices.get(str(item.get("id")), "---"),
        item.get("cpus"),
        item.get("mem"),
        f"{running}/{item.get('instances', 0)}",
        f"{healthy}/{running}" if healthy or sick else "---",
        actions.get(str(item.get("id")), default),
        (item.get("container") or {}).get("type", "MESOS"),
        item.get("role", "---"),
        " ".join(str(cmd).split()),
    ]
