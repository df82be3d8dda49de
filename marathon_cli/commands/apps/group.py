"""`mesos-gpu group`: trees of apps and pods."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from marathon_cli.api.groups import Groups
from marathon_cli.changes import rules
from marathon_cli.changes.changes import Consent, Waiting, finish, force_option, wait_options
from marathon_cli.changes.updating import Command, Order, update_command
from marathon_cli.clients.client import Marathon
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options, watch_options
from marathon_cli.document import check
from marathon_cli.document.check import Source
from marathon_cli.document.properties import parse_properties, with_properties
from marathon_cli.screen.names import group_id, hints
from marathon_cli.screen.numbers import Number
from marathon_cli.screen.output import Column, Table, say
from marathon_cli.show.gpu_lines import pod_gpus
from mesos_gpu.errors import BadInput, Conflict

_NONE = "no groups; `mesos-gpu group add FILE` adds one, and so does an app whose id has a / in it"
_COLUMNS = (
    Column("ID"),
    Column("APPS", number=True),
    Column("PODS", number=True, rank=1),
    Column("INSTANCES", number=True),
    Column("GPUS", number=True),
    Column("ENFORCE_ROLE", rank=1),
    Column("VERSION", rank=2),
)
name_argument = click.argument("name", metavar="GROUP")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps it would take, and take none.")


@click.command(name="list")
@watch_options
@output_options()
@target_options
@pass_console
def list_groups(console: Console) -> None:
    """List the groups, with all that is in each."""
    groups = Groups(console.marathon())

    def look() -> None:
        found = [group for group in walk(groups.show("/")) if group.get("id") != "/"]
        names = [str(group.get("id")) for group in found]
        console.show(found, table=lambda: Table(_COLUMNS, [_row(group) for group in found]), names=names, none=_NONE)

    console.repeat(look)


@click.command()
@click.argument("name", metavar="[GROUP]", default="/")
@click.option("--version", "--group-version", metavar="TIMESTAMP", help="The version to show.")
@output_options(default="json")
@target_options
@pass_console
def show(console: Console, name: str, version: str | None) -> None:
    """Print everything that is in GROUP; without one, in the root."""
    marathon, wanted = console.marathon(), group_id(name)
    with hints(wanted, lambda: group_ids(marathon)):
        found = Groups(marathon).show(wanted, version)
    rows = [_row(group) for group in walk(found)]
    console.show(found, table=lambda: Table(_COLUMNS, rows), names=[str(found.get("id"))])


@click.command()
@click.argument("file", required=False)
@click.option("--id", "new_id", metavar="GROUP", help="Add an empty group of this id.")
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@dry_run_option
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def add(
    console: Console,
    file: str | None,
    new_id: str | None,
    no_validate: bool,
    dry_run: bool,
    waiting: Waiting,
    force: bool,
) -> None:
    """Add the group that FILE (JSON or YAML) defines, with all its apps."""
    if (file is None) == (new_id is None) and (file is not None or sys.stdin.isatty()):
        raise click.UsageError("give either a FILE or --id GROUP, or pipe JSON in")
    if new_id is not None:
        source, document = None, {"id": group_id(new_id)}
        marathon = console.marathon()
    else:
        source, document, marathon = _checked(console, file or "-", no_validate=no_validate)
    wanted = group_id(str(document.get("id") or "/"))
    if dry_run:
        show_steps(console, Groups(marathon).steps(wanted, {k: v for k, v in document.items() if k != "id"}))
        return
    try:
        with rules.explained(source, document, rules.OFFLINE, marathon.url):
            change = Groups(marathon).add(document, force=force)
    except Conflict as error:
        if "already" in str(error):
            raise Conflict(f"{error}\n  `mesos-gpu group update {wanted} --file FILE` changes it") from None
        raise
    finish(console, marathon, change, (), f"adds the group {wanted}", waiting, value={"id": wanted})


def _options(command: Command) -> Command:
    """Let `group update` take a file; its --dry-run shows steps, and it never asks."""

    @wraps(command)
    def inner(*args: Any, dry_run: bool, **others: Any) -> Any:
        return command(*args, consent=Consent(dry_run=dry_run), **others)

    dry_run_option(inner)
    click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")(inner)
    click.option("--file", "-f", metavar="FILE", help="JSON or YAML; - is standard input.")(inner)
    return inner


@update_command(name_argument, options=_options)
def update(console: Console, name: str, order: Order) -> None:
    """Change GROUP by KEY=VALUE, by a file, or by both.

    Lists of apps, pods and groups that are given replace what was there. version=TIMESTAMP, alone, goes back to how
    the group was. --dry-run shows the steps.
    """
    wanted = group_id(name)
    if not order.properties and order.file is None and sys.stdin.isatty():
        raise click.UsageError("say what to change: KEY=VALUE, --file FILE, or JSON on standard input")
    given = parse_properties(order.properties)
    source: Source | None = None
    document: dict[str, Any] = {}
    if order.file is not None or not order.properties:
        source, document, marathon = _checked(console, order.file or "-", no_validate=order.no_validate, base=wanted)
    else:
        marathon = console.marathon()
    document = with_properties({key: value for key, value in document.items() if key != "id"}, given)
    groups = Groups(marathon)
    with hints(wanted, lambda: group_ids(marathon)):
        groups.show(wanted)
    with rules.explained(source, document, rules.OFFLINE, marathon.url):
        if order.consent.dry_run:
            show_steps(console, groups.steps(wanted, document))
            return
        change = groups.put(wanted, document, force=order.force)
    finish(console, marathon, change, (), f"changes the group {wanted}", order.waiting, value={"id": wanted})


@click.command()
@name_argument
@click.argument("factor", type=Number(min=0))
@dry_run_option
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def scale(console: Console, name: str, factor: float, dry_run: bool, waiting: Waiting, force: bool) -> None:
    """Multiply the instances of every app in GROUP by FACTOR, rounded up."""
    marathon, wanted = console.marathon(), group_id(name)
    groups = Groups(marathon)
    with hints(wanted, lambda: group_ids(marathon)):
        if dry_run:
            show_steps(console, groups.steps(wanted, {"scaleBy": factor}))
            return
        groups.show(wanted)
        change = groups.put(wanted, {"scaleBy": factor}, force=force)
    finish(console, marathon, change, (), f"scales {wanted} by {factor:g}", waiting, value={"id": wanted})


@click.command()
@name_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@wait_options(roll_back=False)
@force_option
@output_options()
@target_options
@pass_console
def remove(console: Console, name: str, yes: bool, waiting: Waiting, force: bool) -> None:
    """Remove GROUP and everything in it.

    Asked first on a terminal; the root, `/`, which is everything, wants --yes everywhere else.
    """
    marathon, wanted = console.marathon(), group_id(name)
    groups = Groups(marathon)
    with hints(wanted, lambda: group_ids(marathon)):
        row = _row(groups.show(wanted))
    inside = f"{row[1]} apps and {row[2]} pods with {row[3]} instances"
    if not yes and sys.stdin.isatty():
        if not click.confirm(f"Remove {wanted} with {inside}?", default=False, err=True):
            say("nothing was removed")
            click.get_current_context().exit(1)
    elif not yes and wanted == "/":
        raise BadInput(f"this would remove everything: {inside}; --yes confirms that")
    change = groups.remove(wanted, force=force)
    finish(console, marathon, change, (), f"removes {wanted} with {inside}", waiting, value={"id": wanted})


def group_ids(marathon: Marathon) -> list[str]:
    """Return the ids of all groups."""
    return [str(group.get("id")) for group in walk(Groups(marathon).show("/"))]


def walk(group: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a group and all groups in it, parents first."""
    yield group
    for inner in sorted(group.get("groups") or [], key=lambda one: str(one.get("id"))):
        yield from walk(inner)


def show_steps(console: Console, steps: Sequence[Mapping[str, Any]]) -> None:
    """Show the steps that a deployment would take."""
    rows: list[Sequence[object]] = [
        [number, action.get("action"), action.get("app", action.get("pod"))]
        for number, step in enumerate(steps, 1)
        for action in step.get("actions") or []
    ]
    columns = (Column("STEP", number=True), Column("ACTION"), Column("OF"))
    console.show(list(steps), table=lambda: Table(columns, rows), names=[str(row[2]) for row in rows])


def _checked(
    console: Console, file: str, *, no_validate: bool, base: str | None = None
) -> tuple[Source, dict[str, Any], Marathon]:
    """Return a file that defines a group, read and checked; a group that stands alone keeps its `version`."""
    source = check.read_source(file)
    document = check.parse(source)
    marathon = console.marathon()
    if not no_validate:
        check.check_group(source, document, rules.rules_if_any(marathon))
    if not isinstance(document, dict):
        raise BadInput(f"{source.name}: a group is an object in {{ }}")
    if base is not None and "id" in document and group_id(str(document["id"])) != base:
        raise BadInput(f"{source.name}: defines {document['id']}, not {base}")
    return source, document, marathon


def _row(group: Mapping[str, Any]) -> list[object]:
    inside = list(walk(group))
    apps = [app for one in inside for app in one.get("apps") or []]
    pods = [pod for one in inside for pod in one.get("pods") or []]
    copies = [int((pod.get("scaling") or {}).get("instances", 1)) for pod in pods]
    instances = sum(int(app.get("instances") or 0) for app in apps) + sum(copies)
    gpus = sum(int(app.get("instances") or 0) * (app.get("gpus") or 0) for app in apps)
    gpus += sum(count * pod_gpus(pod) for count, pod in zip(copies, pods, strict=True))
    enforce = str(bool(group.get("enforceRole"))).lower()
    return [group.get("id"), len(apps), len(pods), instances, gpus, enforce, group.get("version")]
