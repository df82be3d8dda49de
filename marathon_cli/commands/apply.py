"""`mesos-gpu apply`, `remove` and `plan`: files that define apps, pods, jobs and groups.

`apply` creates what a file defines, changes it if it differs, and otherwise leaves it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from marathon_cli.changes import rules as accepted
from marathon_cli.changes.changes import Waiting, force_option, wait_options
from marathon_cli.clients.marathon import Change, ChangeTarget, Document, Groups, Jobs, Marathon
from marathon_cli.commands.app import APP
from marathon_cli.commands.group import GROUP
from marathon_cli.commands.job import JOB
from marathon_cli.commands.kind import Kind
from marathon_cli.commands.pod import POD
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.document.definitions import without
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound

if TYPE_CHECKING:
    from marathon_cli.convert.manifests import Manifest, Manifests
    from marathon_cli.document.check import Source
    from mesos_gpu.marathon.definitions.app_settings import AppRules

Command = TypeVar("Command", bound=Callable[..., Any])
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (APP, POD, JOB, GROUP)}
CREATED, CONFIGURED, UNCHANGED, DELETED = "created", "configured", "unchanged", "deleted"
_ENDINGS = (".json", ".yaml", ".yml")
_PORTS = ("port", "hostPort", "servicePort")
_OF_ONE_MOMENT = ("version", "versionInfo")


def _file_options(command: Command) -> Command:
    """Let a command take -f FILE, as often as wanted, and -R."""
    for option in (
        click.option("--recursive", "-R", is_flag=True, help="Also folders in folders."),
        click.option(
            "--filename",
            "--file",
            "-f",
            "files",
            metavar="FILE",
            multiple=True,
            required=True,
            type=click.Path(allow_dash=True),
            help="A file, a folder of .json, .yaml and .yml, a URL, or - for standard input; may be repeated.",
        ),
    ):
        command = option(command)
    return command


_DRY_RUN = click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default="none",
    type=click.Choice(["none", "client", "server"]),
    help="Say what would be done, and do nothing.",
)


@click.command()
@_file_options
@_DRY_RUN
@wait_options(roll_back=False)
@force_option
@output_options()
@target_options
@pass_console
def apply(
    console: Console, files: tuple[str, ...], recursive: bool, dry_run: str, waiting: Waiting, force: bool
) -> int:
    """Create or change what files define: apps, pods, jobs and groups of ours, and objects of Kubernetes.

    What is not there is created; what is another is changed; each is told: created, configured or unchanged. A file is
    the whole definition of what is in it, but for the number of instances where it does not say that. Objects of
    Kubernetes are turned into ours as `convert` does; what is lost is said. Everything is checked before anything is
    sent.
    """
    marathon = console.marathon()
    found = read_files(files, recursive)
    applying = Applying(marathon, accepted.rules_of(marathon.info()), force, dry_run != "none")
    _check(applying, found)
    for one in found.all:
        KINDS[one.kind].warn(marathon, one.document)

    def act(one: Manifest) -> Outcome:
        return applying.apply(KINDS[one.kind], one.source, one.document)

    return _carry_out(console, marathon, found.all, act, applying, waiting)


@click.command()
@_file_options
@_DRY_RUN
@click.option("--ignore-not-found", is_flag=True, help="Ignore what does not exist.")
@wait_options(roll_back=False)
@force_option
@output_options()
@target_options
@pass_console
def remove(
    console: Console,
    files: tuple[str, ...],
    recursive: bool,
    dry_run: str,
    ignore_not_found: bool,
    waiting: Waiting,
    force: bool,
) -> int:
    """Remove what files define, and end its tasks: apps, pods, jobs, groups, and objects of Kubernetes.

    Only the kinds and ids in the files count. The exit status is 1 when something is not there.
    """
    from marathon_cli.convert.manifests import removal_order

    marathon = console.marathon()
    found = read_files(files, recursive)
    applying = Applying(marathon, accepted.rules_of(marathon.info()), force, dry_run != "none")

    def act(one: Manifest) -> Outcome | None:
        try:
            return applying.remove(KINDS[one.kind], one.document)
        except NotFound:
            if ignore_not_found:
                return None
            raise

    return _carry_out(console, marathon, removal_order(found.all), act, applying, waiting)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--force", is_flag=True, help="As if a deployment that is in progress were overridden.")
@output_options()
@target_options
@pass_console
def plan(console: Console, files: tuple[str, ...], force: bool) -> int:
    """Say what would happen if FILEs were applied; nothing is done.

    Where each instance would start, which tasks would end and why (replaced, one too many, giving way to others),
    and what would wait and for what. Marathon decides on what there is now as it would decide then; tasks that would
    start are taken to run and to be healthy, and nothing else is taken to begin or end. Files define apps, pods, jobs
    (a run of each) and groups. The exit status is 0 when all would start now, and 5 when something would wait.
    """
    from marathon_cli.clients.marathon import plan as asked
    from marathon_cli.show.plan import show_plan

    marathon = console.marathon()
    found = read_files(files, recursive=False)
    applying = Applying(marathon, accepted.rules_of(marathon.info()), force, dry_run=True)
    _check(applying, found)
    documents = [{"kind": one.kind, "document": applying.complete(KINDS[one.kind], one.document)} for one in found.all]
    return show_plan(console, asked(marathon, documents, force=force))


class Outcome(NamedTuple):
    """What was done to one definition, and the deployment that follows, if there is one."""

    kind: Kind
    id: str
    verb: str
    change: Change | None = None
    targets: tuple[ChangeTarget, ...] = ()


@dataclass(slots=True)
class Applying:
    """Applies definitions to one Marathon. With `dry_run` it only returns what it would do."""

    marathon: Marathon
    rules: AppRules
    force: bool = False
    dry_run: bool = False

    def apply(self, kind: Kind, source: Source, document: Document) -> Outcome:
        """Create or change what a document defines. Raises what the server refuses, BadInput with its place."""
        act = self._job if kind is JOB else self._group if kind is GROUP else self._deployed
        with accepted.explained(source, document, self.rules, self.marathon.url):
            return act(kind, kind.id_of(document), document)

    def remove(self, kind: Kind, document: Document) -> Outcome:
        """Remove what a document defines, with the runs of a job and despite a deployment. Raises NotFound."""
        name = kind.id_of(document)
        if self.dry_run:
            kind.api(self.marathon).show(name)
            change = None
        else:
            change = kind.api(self.marathon).remove(name, force=True)
        return Outcome(kind, name, DELETED, change, kind.targets(name, gone=True))

    def complete(self, kind: Kind, document: Document) -> Document:
        """Return a document as it would be sent: with the current instances if it does not set them."""
        before = None if kind.count_key is None else self._current(kind, kind.id_of(document))
        return document if before is None else _with_count(kind, before, document)

    def _deployed(self, kind: Kind, name: str, document: Document) -> Outcome:
        """Apply an app or a pod."""
        current = self._current(kind, name)
        if current is None:
            change = None if self.dry_run else kind.api(self.marathon).add(document, force=self.force)
            return Outcome(kind, name, CREATED, change, kind.targets(name))
        before = kind.editable(current)
        after = _with_count(kind, before, document)
        if same(kind.with_defaults(before, self.rules), kind.with_defaults(after, self.rules)):
            return Outcome(kind, name, UNCHANGED)
        change = None if self.dry_run else kind.api(self.marathon).put(name, after, force=self.force)
        return Outcome(kind, name, CONFIGURED, change, kind.targets(name))

    def _job(self, kind: Kind, name: str, document: Document) -> Outcome:
        jobs = Jobs(self.marathon)
        plain = {key: value for key, value in document.items() if key != "schedules"}
        wanted = _schedules_of(document)
        before = self._current(kind, name)
        if before is None:
            if not self.dry_run:
                jobs.add(document)
            return Outcome(kind, name, CREATED)
        verb = UNCHANGED
        if not same(kind.with_defaults(kind.editable(before), self.rules), kind.with_defaults(plain, self.rules)):
            verb = CONFIGURED
            if not self.dry_run:
                jobs.put(name, plain)
        if self._schedules(jobs, name, _schedules_of(before), wanted):
            verb = CONFIGURED
        return Outcome(kind, name, verb)

    def _schedules(self, jobs: Jobs, name: str, there: Mapping[str, Document], wanted: Mapping[str, Document]) -> bool:
        """Change the schedules of a job to those wanted; return whether they differed."""
        changed = False
        for schedule_id, schedule in wanted.items():
            now = there.get(schedule_id)
            if now is not None and all(now.get(key) == value for key, value in schedule.items()):
                continue
            changed = True
            if self.dry_run:
                continue
            if now is None:
                jobs.add_schedule(name, schedule)
            else:
                jobs.put_schedule(name, schedule_id, {**without(now, "nextRunAt"), **schedule})
        for schedule_id in there.keys() - wanted.keys():
            changed = True
            if not self.dry_run:
                jobs.remove_schedule(name, schedule_id)
        return changed

    def _group(self, kind: Kind, name: str, document: Document) -> Outcome:
        groups = Groups(self.marathon)
        current = self._current(kind, name)
        if current is None or (name == "/" and not any(current.get(key) for key in ("apps", "pods", "groups"))):
            change = None
            if not self.dry_run:
                put = name == "/"
                change = groups.put(name, document, force=self.force) if put else groups.add(document, force=self.force)
            return Outcome(kind, name, CREATED, change)
        rest = {key: value for key, value in document.items() if key != "id"}
        if not groups.steps(name, rest):
            return Outcome(kind, name, UNCHANGED)
        change = None if self.dry_run else groups.put(name, rest, force=self.force)
        return Outcome(kind, name, CONFIGURED, change)

    def _current(self, kind: Kind, name: str) -> Document | None:
        try:
            return kind.api(self.marathon).show(name)
        except NotFound:
            return None


def _with_count(kind: Kind, before: Document, document: Document) -> Document:
    """Return a document with the number of instances that there is, if it does not set one."""
    key = kind.count_key
    return {key: before[key], **document} if key is not None and key in before else document


def _schedules_of(job: Mapping[str, Any]) -> dict[str, Document]:
    return {str(one.get("id") or "default"): one for one in job.get("schedules") or []}


def same(before: object, after: object, key: str = "") -> bool:
    """Return whether two canonical documents are the same, but for ports that a server has chosen."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = {*before, *after} - {*_OF_ONE_MOMENT}
        return all(same(before.get(one), after.get(one), one) for one in keys)
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(same(*pair, key) for pair in zip(before, after, strict=True))
    if key in _PORTS and after in (0, None):
        return True
    return before == after or (before in ({}, [], None) and after in ({}, [], None))


def read_files(files: Sequence[str], recursive: bool) -> Manifests:
    """Return what files define, folders and standard input among them. Raises BadInput."""
    from marathon_cli.convert.manifests import read_manifests

    return read_manifests([source for path in files for source in _sources(path, recursive)], os.environ)


def _sources(path: str, recursive: bool) -> Iterator[Source]:
    """Yield the texts that -f PATH means: those of a folder by their names. Raises BadInput."""
    from marathon_cli.document.check import read_source

    if path == "-" or re.match("https?://", path) or not Path(path).is_dir():
        yield read_source(path)
        return
    every = sorted(Path(path).rglob("*") if recursive else Path(path).iterdir())
    found = [file for file in every if file.suffix.lower() in _ENDINGS and file.is_file()]
    if not found:
        below = "" if recursive else "; -R looks in the folders below, too"
        raise BadInput(f"{path}: no file in this folder ends with {', '.join(_ENDINGS)}{below}")
    for file in found:
        yield read_source(str(file))


def _check(applying: Applying, found: Manifests) -> None:
    """Validate all definitions, then print what was lost in conversion. Raises BadInput."""
    for one in found.all:
        KINDS[one.kind].check(one.source, one.document, applying.rules)
    for line in found.notes:
        say(line)


def _carry_out(
    console: Console,
    marathon: Marathon,
    manifests: Sequence[Manifest],
    act: Callable[[Manifest], Outcome | None],
    applying: Applying,
    waiting: Waiting,
) -> int:
    """Do one after the other, say what became of each, and wait for all; return the exit status."""
    done: list[Outcome] = []
    failed = 0
    suffix = " (dry run)" if applying.dry_run else ""
    people = console.form in ("table", "wide")
    for one in manifests:
        try:
            outcome = act(one)
        except MesosGpuError as error:
            name = KINDS[one.kind].id_of(one.document).lstrip("/")
            say(f"mesos-gpu: {one.kind}/{name}: {error}")
            failed = 1
            continue
        if outcome is not None:
            done.append(outcome)
            if people:
                click.echo(f"{_called(outcome)} {outcome.verb}{suffix}")
    if not people:
        console.tell("", [_value(outcome) for outcome in done], names=[_called(outcome) for outcome in done])
    if waiting.wanted:
        _wait(console, marathon, done, waiting)
    return failed


def _called(outcome: Outcome) -> str:
    return f"{outcome.kind.name}/{outcome.id.lstrip('/')}"


def _value(outcome: Outcome) -> dict[str, Any]:
    deployment_id = None if outcome.change is None else outcome.change.deployment_id
    return {"kind": outcome.kind.name, "id": outcome.id, "result": outcome.verb, "deploymentId": deployment_id}


def _wait(console: Console, marathon: Marathon, done: Sequence[Outcome], waiting: Waiting) -> None:
    from marathon_cli.changes.wait import wait_for

    left = [outcome for outcome in done if outcome.change is not None and outcome.change.deployment_id]
    for index, outcome in enumerate(left):
        console.goes_on = f"{', '.join(_called(other) for other in left[index:])}: what was sent continues"
        if outcome.change is not None:
            wait_for(marathon, outcome.change, outcome.targets, waiting.timeout_s)
    console.goes_on = ""
