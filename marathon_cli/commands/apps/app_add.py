"""`mesos-gpu app add` and `app validate`: a definition is checked here before it travels."""

from __future__ import annotations

import sys
from typing import Any

import click

from marathon_cli.api.apps import Apps
from marathon_cli.changes import rules
from marathon_cli.changes.advance_warnings import caution
from marathon_cli.changes.change_target import ChangeTarget
from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.client import Locked
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.document import check
from marathon_cli.document.check import Source
from marathon_cli.screen.output import Table, columns, say
from mesos_gpu.errors import BadInput, Conflict, MesosGpuError


@click.command()
@click.argument("file", required=False)
@wait_options()
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@click.option("--dry-run", is_flag=True, help="Check, say what would be created, and create nothing.")
@click.option(
    "--plan", "only_plan", is_flag=True, help="Say where it would start, or what it would wait for; status 5."
)
@force_option
@output_options()
@target_options
@pass_console
def add(
    console: Console,
    file: str | None,
    waiting: Waiting,
    no_validate: bool,
    dry_run: bool,
    only_plan: bool,
    force: bool,
) -> int:
    """Add the app that FILE defines.

    FILE is JSON or YAML; a URL, or - for standard input. It is checked first; unknown keys, which a server would
    overlook, are refused. What is likely to surprise (it fits no agent, it ends at once) is warned of.
    """
    source = _read(file)
    document = check.parse(source)
    try:
        marathon = console.marathon()
        known = rules.rules_of(marathon.info())
    except MesosGpuError:
        # What is wrong with the file comes first: it is nearer, and fixed without a server.
        if not no_validate:
            check.check_app(source, document, rules.OFFLINE)
        raise
    canonical = document if no_validate else check.check_app(source, document, known)
    if not no_validate:
        caution(marathon, canonical, say)
    if dry_run:
        _preview(console, canonical, {str(app.get("id")) for app in marathon.apps()})
        return 0
    if only_plan:
        from marathon_cli.api.plan import plan
        from marathon_cli.show.plan_view import show_plan

        with rules.explained(source, document, known, marathon.url):
            return show_plan(console, plan(marathon, [{"kind": "app", "document": document}], force=force))
    try:
        with rules.explained(source, document, known, marathon.url):
            created, change = Apps(marathon).add(document, force=force)
    except Locked:
        raise
    except Conflict as error:
        raise _explained(error, document) from None
    app_id = str(created.get("id"))
    finish(console, marathon, change, [ChangeTarget("app", app_id)], f"adds {app_id}", waiting, value={"id": app_id})
    return 0


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_options()
@target_options
@pass_console
def validate(console: Console, files: tuple[str, ...]) -> int:
    """Check files that define apps, and change nothing.

    A Marathon that can be reached says what it accepts; without one only what holds for all is checked. The exit
    status is 1 when a file has problems.
    """
    try:
        known = rules.rules_if_any(console.marathon())
    except MesosGpuError:
        known = rules.OFFLINE
    found: list[dict[str, Any]] = []
    for file in files:
        try:
            source = check.read_source(file)
            app = check.check_app(source, check.parse(source), known)
            found.append({"file": file, "id": app["id"], "valid": True})
        except BadInput as error:
            click.echo(str(error), err=True)
            found.append({"file": file, "id": None, "valid": False})

    def table() -> Table:
        rows = [[item["file"], item["id"] or "---", "valid" if item["valid"] else "has problems"] for item in found]
        return Table(columns("FILE", "APP", "VERDICT"), rows)

    console.show(found, table=table, names=[item["file"] for item in found if item["valid"]])
    return 0 if all(item["valid"] for item in found) else 1


def _read(file: str | None) -> Source:
    if file is None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe JSON in: mesos-gpu app add app.json")
    return check.read_source(file or "-")


def _preview(console: Console, app: dict[str, Any], taken: set[str]) -> None:
    app_id = "/" + str(app.get("id")).strip("/")
    if app_id in taken:
        raise _explained(Conflict(f"app {app_id} already exists"), {"id": app_id})
    count, gpus = app.get("instances", 1), app.get("gpus", 0)
    each = f"{gpus:g} GPUs, {app.get('cpus', 1):g} CPUs, {app.get('mem', 128):g} MiB"
    console.tell(f"Would add {app_id}: {count} x ({each})", app, names=[app_id])


def _explained(error: Conflict, document: Any) -> Conflict:
    name = document.get("id") if isinstance(document, dict) else None
    already = str(error) if "already exists" in str(error) else f"app {name} already exists: {error}"
    see, anew = f"mesos-gpu app show {name}", f"mesos-gpu app update {name} --file FILE"
    return Conflict(f"{already}\n  `{see}` shows it; `{anew}` changes it")
