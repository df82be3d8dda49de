"""`mesos-gpu apply` and `remove`: what files define, whatever it is, is brought about or taken away."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from marathon_cli.changes.changes import Waiting, force_option, wait_options
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound

if TYPE_CHECKING:
    from marathon_cli.changes.applying import Applying, Outcome
    from marathon_cli.clients.client import Marathon
    from marathon_cli.convert.manifests import Manifest, Manifests
    from marathon_cli.document.check import Source

Command = TypeVar("Command", bound=Callable[..., Any])
_ENDINGS = (".json", ".yaml", ".yml")


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
    applying = _applying(marathon, force=force, dry_run=dry_run != "none")
    for one in found.all:
        applying.check(one.kind, one.source, one.document)
    for line in found.notes:
        say(line)
    _warn(marathon, found.all)

    def act(one: Manifest) -> Outcome:
        return applying.apply(one.kind, one.source, one.document)

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
    applying = _applying(marathon, force=force, dry_run=dry_run != "none")

    def act(one: Manifest) -> Outcome | None:
        try:
            return applying.remove(one.kind, one.document)
        except NotFound:
            if ignore_not_found:
                return None
            raise

    return _carry_out(console, marathon, removal_order(found.all), act, applying, waiting)


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


def _applying(marathon: Marathon, *, force: bool, dry_run: bool) -> Applying:
    from marathon_cli.changes import rules
    from marathon_cli.changes.applying import Applying

    return Applying(marathon, rules.rules_of(marathon.info()), force, dry_run)


def _warn(marathon: Marathon, manifests: Sequence[Manifest]) -> None:
    from marathon_cli.changes.advance_warnings import caution

    for one in manifests:
        if one.kind == "app":
            caution(marathon, one.document, say)


def _carry_out(
    console: Console,
    marathon: Marathon,
    manifests: Sequence[Manifest],
    act: Callable[[Manifest], Outcome | None],
    applying: Applying,
    waiting: Waiting,
) -> int:
    """Do one after the other, say what became of each, and wait for all; return the exit status."""
    from marathon_cli.changes.applying import name_of

    done: list[Outcome] = []
    failed = 0
    suffix = " (dry run)" if applying.dry_run else ""
    people = console.form in ("table", "wide")
    for one in manifests:
        try:
            outcome = act(one)
        except MesosGpuError as error:
            name = name_of(one.kind, one.document).lstrip("/")
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
    return f"{outcome.kind}/{outcome.id.lstrip('/')}"


def _value(outcome: Outcome) -> dict[str, Any]:
    deployment_id = None if outcome.change is None else outcome.change.deployment_id
    return {"kind": outcome.kind, "id": outcome.id, "result": outcome.verb, "deploymentId": deployment_id}


def _wait(console: Console, marathon: Marathon, done: Sequence[Outcome], waiting: Waiting) -> None:
    from marathon_cli.changes.wait import wait_for

    left = [outcome for outcome in done if outcome.change is not None and outcome.change.deployment_id]
    for index, outcome in enumerate(left):
        console.goes_on = f"{', '.join(_called(other) for other in left[index:])}: what was sent continues"
        if outcome.change is not None:
            wait_for(marathon, outcome.change, outcome.targets, waiting.timeout_s)
    console.goes_on = ""
