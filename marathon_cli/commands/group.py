"""`mesos-gpu group`: trees of apps and pods, changed as one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.marathon import Document, Groups, Marathon, walk
from marathon_cli.commands.kind import (
    Command,
    Consent,
    Edit,
    Kind,
    Row,
    UpdateOptions,
    list_command,
    read_definition,
    remove_command,
    show_command,
    update_command,
)
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.arguments import Number, group_id, hints
from marathon_cli.screen.output import Column, Table
from marathon_cli.show.gpus import pod_gpus
from mesos_gpu.errors import BadInput, Conflict, Problem

if TYPE_CHECKING:
    from mesos_gpu.marathon.definitions.app_settings import AppRules

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps it would take, and take none.")


class GroupKind(Kind):
    """Groups. The server computes what a change of a group means, so an update shows no difference."""

    name = "group"
    api = Groups
    columns = (
        Column("ID"),
        Column("APPS", number=True),
        Column("PODS", number=True, rank=1),
        Column("INSTANCES", number=True),
        Column("GPUS", number=True),
        Column("ENFORCE_ROLE", rank=1),
        Column("VERSION", rank=2),
    )
    none = "no groups; `mesos-gpu group add FILE` adds one, and so does an app whose id has a / in it"
    help: ClassVar = {
        "list": "List the groups, with all that is in each.",
        "show": "Print everything that is in GROUP; without one, in the root.",
        "update": """Change GROUP by KEY=VALUE, by a file, or by both.

        Lists of apps, pods and groups that are given replace what was there. version=TIMESTAMP, alone, goes back to how
        the group was. --dry-run shows the steps.
        """,
        "remove": """Remove GROUP and everything in it.

        Asked first on a terminal; the root, `/`, which is everything, wants --yes everywhere else.
        """,
    }
    selects = False
    default_name = "/"
    version_option = ("TIMESTAMP", "The version to show.")
    is_target = False
    confirms = True

    def canonical(self, name: str) -> str:
        return group_id(name)

    def documents(self, marathon: Marathon, label: str | None, **filters: Any) -> list[Document]:
        return [group for group in walk(Groups(marathon).show("/")) if group.get("id") != "/"]

    def version(self, marathon: Marathon, name: str, version: str) -> Document:
        return Groups(marathon).show(name, version)

    def rows(self, marathon: Marathon, documents: Sequence[Document]) -> list[Row]:
        return [_row(group) for group in documents]

    def details(self, marathon: Marathon, document: Document) -> Table:
        return Table(self.columns, self.rows(marathon, list(walk(document))))

    def problems(self, document: Any, rules: AppRules) -> list[Problem]:
        from marathon_cli.document.check import group_problems

        return group_problems(document, rules)

    def contents(self, marathon: Marathon, name: str) -> str:
        row = _row(Groups(marathon).show(name))
        return f" with {row[1]} apps and {row[2]} pods with {row[3]} instances"

    def update_options(self, command: Command) -> Command:
        """Let `update` take a file; its --dry-run shows steps, and it never asks."""

        @wraps(command)
        def inner(*args: Any, dry_run: bool, **others: Any) -> Any:
            return command(*args, consent=Consent(dry_run=dry_run), **others)

        dry_run_option(inner)
        click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")(inner)
        click.option("--file", "-f", metavar="FILE", help="JSON or YAML; - is standard input.")(inner)
        return inner

    def update(
        self, console: Console, marathon: Marathon, name: str, current: Document, edit: Edit, options: UpdateOptions
    ) -> None:
        from marathon_cli.changes.rules import OFFLINE, explained
        from marathon_cli.document.properties import with_properties

        if edit.source is not None and not options.no_validate:
            self.check(edit.source, {"id": name, **edit.asked}, self.rules(marathon))
        document = with_properties(edit.asked, edit.given)
        with explained(edit.source, document, OFFLINE, marathon.url):
            if options.consent.dry_run:
                show_steps(console, Groups(marathon).steps(name, document))
                return
            change = Groups(marathon).put(name, document, force=options.force)
        sentence = f"changes the group {name}"
        finish(console, marathon, change, self.targets(name), sentence, options.waiting, value={"id": name})


GROUP = GroupKind()
list_groups, show, update, remove = (
    list_command(GROUP),
    show_command(GROUP),
    update_command(GROUP),
    remove_command(GROUP),
)
name_argument = GROUP.argument


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
    from marathon_cli.changes import rules

    if (file is None) == (new_id is None) and (file is not None or sys.stdin.isatty()):
        raise click.UsageError("give either a FILE or --id GROUP, or pipe JSON in")
    if new_id is not None:
        source, document = None, {"id": group_id(new_id)}
        marathon = console.marathon()
    else:
        source, document = read_definition(GROUP, file)
        marathon = console.marathon()
        if not no_validate:
            GROUP.check(source, document, GROUP.rules(marathon))
        if not isinstance(document, dict):
            raise BadInput(f"{source.name}: a group is an object in {{ }}")
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
    with hints(wanted, Groups(marathon).ids):
        if dry_run:
            show_steps(console, groups.steps(wanted, {"scaleBy": factor}))
            return
        groups.show(wanted)
        change = groups.put(wanted, {"scaleBy": factor}, force=force)
    finish(console, marathon, change, (), f"scales {wanted} by {factor:g}", waiting, value={"id": wanted})


def show_steps(console: Console, steps: Sequence[Mapping[str, Any]]) -> None:
    """Show the steps that a deployment would take."""
    rows: list[Sequence[object]] = [
        [number, action.get("action"), action.get("app", action.get("pod"))]
        for number, step in enumerate(steps, 1)
        for action in step.get("actions") or []
    ]
    columns = (Column("STEP", number=True), Column("ACTION"), Column("OF"))
    console.show(list(steps), table=lambda: Table(columns, rows), names=[str(row[2]) for row in rows])


def _row(group: Document) -> list[object]:
    inside = list(walk(group))
    apps = [app for one in inside for app in one.get("apps") or []]
    pods = [pod for one in inside for pod in one.get("pods") or []]
    copies = [int((pod.get("scaling") or {}).get("instances", 1)) for pod in pods]
    instances = sum(int(app.get("instances") or 0) for app in apps) + sum(copies)
    gpus = sum(int(app.get("instances") or 0) * (app.get("gpus") or 0) for app in apps)
    gpus += sum(count * pod_gpus(pod) for count, pod in zip(copies, pods, strict=True))
    enforce = str(bool(group.get("enforceRole"))).lower()
    return [group.get("id"), len(apps), len(pods), instances, gpus, enforce, group.get("version")]
