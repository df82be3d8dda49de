"""`mesos-gpu app update`: what is there, what is asked for, the difference, and then the change."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from marathon_cli.changes import (
    Waiting,
    confirm,
    finish,
    force_option,
    show_difference,
    update_options,
    wait_options,
)
from marathon_cli.console import Console, output_options, pass_console, target_options
from marathon_cli.names import app_id, hints
from marathon_cli.output import say
from mesos_gpu.errors import BadInput, Conflict, InvalidApp, Problem

if TYPE_CHECKING:
    from marathon_cli.check import Source
    from marathon_cli.client import Marathon
    from marathon_cli.properties import Property
    from mesos_gpu.marathon.app_settings import AppRules


@click.command()
@click.argument("name", metavar="APP")
@click.argument("properties", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--file", "-f", metavar="FILE", help="JSON or YAML with what is to change; - is standard input.")
@click.option("--replace", is_flag=True, help="The file is the whole new definition; what it does not have is gone.")
@click.option("--no-validate", is_flag=True, help="Leave all checks to the server.")
@update_options
@wait_options()
@force_option
@output_options()
@target_options
@pass_console
def update(
    console: Console,
    name: str,
    properties: tuple[str, ...],
    file: str | None,
    replace: bool,
    no_validate: bool,
    dry_run: bool,
    diff: bool,
    yes: bool,
    waiting: Waiting,
    force: bool,
) -> None:
    """Change APP by KEY=VALUE, by a file, or by both.

    \b
      mesos-gpu app update train instances=3 env.MODE=fast
      mesos-gpu app update train container.docker.image=train:2 --wait --rollback-on-failure
      mesos-gpu app update train labels.old=null
      mesos-gpu app update train --file train.yaml --diff --yes

    Keys may lead inwards, and what is not named stays; null takes a key away. `version=...` goes back to an
    earlier version (-1 is the one before). On a terminal the difference is shown first.
    """
    from marathon_cli import definitions, rules
    from marathon_cli.api.apps import Apps
    from marathon_cli.inquiry import caution
    from marathon_cli.properties import parse_properties
    from marathon_cli.rollout import Aim
    from mesos_gpu.marathon.app_schema import APP

    wanted = app_id(name)
    if replace and file is None:
        raise click.UsageError("--replace takes the whole definition from --file")
    source, asked = _asked(file, properties, wanted)
    given = parse_properties(properties, APP.schema)
    marathon = console.marathon()
    with hints(wanted, marathon.app_ids):
        current = marathon.app(wanted)
    before = definitions.editable(current)
    if (text := _only_version(asked, given)) is not None:
        version = resolve_version(marathon, wanted, text)
        after = definitions.editable(Apps(marathon).version(wanted, version))
        body, partial = {"version": version}, True
    else:
        after = _after(before, asked, given, replace=replace)
        known = rules.rules_of(marathon.info())
        if not no_validate:
            _check(source, asked, before, after, known)
        body, partial = definitions.to_send(before, after)
    lines, means = definitions.difference(before, after), definitions.consequence(before, after)
    if lines and not no_validate:
        caution(marathon, {"id": wanted, **after}, say)
    if not lines:
        console.tell(f"{wanted} is so already; nothing changes", {"id": wanted, "deploymentId": None}, names=[])
        return
    if dry_run:
        show_difference(lines)
        console.tell(f"Would change {wanted}: {means}", {"id": wanted, "definition": after}, names=[wanted])
        return
    if not confirm(console, lines, means, diff=diff, yes=yes):
        say("nothing was changed")
        raise click.Abort
    _guard(marathon, wanted, current)
    with rules.explained(source, asked, rules.OFFLINE, marathon.url):
        change = Apps(marathon).put(wanted, body, force=force, partial=partial)
    sentence = f"changes {wanted}: {means}"
    finish(console, marathon, change, [Aim("app", wanted)], sentence, waiting, value={"id": wanted})


def resolve_version(marathon: Marathon, name: str, text: str) -> str:
    """Return the version that a text means: a timestamp, or -n for the n-th before the present one. Raises BadInput."""
    from marathon_cli.api.apps import Apps

    try:
        back = int(text)
    except ValueError:
        return text
    if back >= 0:
        raise BadInput(f"{text} is no version: give its timestamp, or -1 for the one before the present one")
    versions = Apps(marathon).versions(name)
    if -back >= len(versions):
        raise BadInput(f"{name} has {len(versions)} versions; {text} goes too far back")
    return versions[-back]


def _asked(file: str | None, words: Sequence[str], wanted: str) -> tuple[Source | None, dict[str, Any]]:
    """Return what a file asks for, and where it came from."""
    from marathon_cli import check

    if file is None and not words:
        if sys.stdin.isatty():
            raise click.UsageError("say what to change: KEY=VALUE, --file FILE, or JSON on standard input")
        file = "-"
    if file is None:
        return None, {}
    source = check.read_source(file)
    document = check.parse(source)
    if not isinstance(document, dict):
        raise BadInput(f"{source.name}: an object was expected, with the keys that are to change")
    if "id" in document and app_id(str(document["id"])) != wanted:
        raise BadInput(f"{source.name}: defines {document['id']}, not {wanted}")
    return source, {key: value for key, value in document.items() if key != "id"}


def _only_version(asked: Mapping[str, Any], given: Sequence[Property]) -> str | None:
    """Return the version to go back to, when that is all that is asked for."""
    if not given:
        return str(asked["version"]) if set(asked) == {"version"} else None
    return given[0].text if not asked and [item.path for item in given] == [("version",)] else None


def _after(
    before: Mapping[str, Any], asked: Mapping[str, Any], given: Sequence[Property], *, replace: bool
) -> dict[str, Any]:
    from marathon_cli.definitions import OLDER_FORMS
    from marathon_cli.properties import deep_merge, with_properties

    named = {*asked, *(item.path[0] for item in given)}
    # An older form says what the newer one would, and contradicts it when both are there.
    replaced = {newer for older, newer in OLDER_FORMS if older in named and newer not in named}
    base = {"id": before.get("id")} if replace else {k: v for k, v in before.items() if k not in replaced}
    return with_properties(deep_merge(base, asked), given)


def _check(
    source: Source | None,
    asked: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    rules: AppRules,
) -> None:
    """Raise BadInput for what the change makes wrong; what was so before is the server's own affair."""
    from marathon_cli import check

    old = {(problem.path, problem.code) for problem in _problems(before, rules)}
    problems = [problem for problem in _problems(after, rules) if (problem.path, problem.code) not in old]
    if source is not None:
        check.refuse_duplicates(source)
    if problems and source is not None:
        raise BadInput(check.report(source, problems))
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{count}; nothing was changed"]
        for problem in problems:
            lines.append(f"{problem.path}: {problem.message}")
            lines += [f"    {problem.suggestion}"] if problem.suggestion else []
        raise BadInput("\n".join(lines))


def _problems(app: Mapping[str, Any], rules: AppRules) -> list[Problem]:
    from mesos_gpu.marathon.app import read_app, unknown_keys

    found = unknown_keys(app)
    try:
        read_app(app, rules)
    except InvalidApp as error:
        found += error.problems
    return found


def _guard(marathon: Marathon, name: str, seen: Mapping[str, Any]) -> None:
    """Raise Conflict when somebody else has changed the app since we looked: Marathon itself would not notice."""
    if marathon.app(name).get("version") != seen.get("version"):
        raise Conflict(f"{name} was changed by somebody else meanwhile; nothing was done. Look at it and try again")
