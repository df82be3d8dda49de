"""How a definition is changed by a file and KEY=VALUE: what is there, what is asked for, what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from marathon_cli.changes.changes import (
    Consent,
    Waiting,
    confirm,
    force_option,
    show_difference,
    update_options,
    wait_options,
)
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, target_options
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, Problem

if TYPE_CHECKING:
    from marathon_cli.document.check import Source
    from marathon_cli.document.properties import Property

Command = Callable[..., Any]
_REPLACE = "The file is the whole new definition; what it does not have is gone."


class Wish(NamedTuple):
    """What is to change: the keys of a file, then properties. `whole` says that the file is all there is to be."""

    source: Source | None
    asked: Mapping[str, Any]
    given: Sequence[Property]
    whole: bool = False

    @property
    def only_version(self) -> str | None:
        """The version to go back to, when that is all that is asked for."""
        if not self.given:
            return str(self.asked["version"]) if set(self.asked) == {"version"} else None
        alone = not self.asked and [item.path for item in self.given] == [("version",)]
        return self.given[0].text if alone else None

    def applied(self, before: Mapping[str, Any], *, older_forms: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return what a definition becomes. Raises BadInput for a property that leads nowhere.

        An older form of a key says what the newer one would, and takes its place.
        """
        from marathon_cli.document.properties import deep_merge, with_properties

        named = {*self.asked, *(item.path[0] for item in self.given)}
        replaced = {newer for older, newer in older_forms if older in named and newer not in named}
        kept = {key: value for key, value in before.items() if key not in replaced}
        base = {"id": before.get("id")} if self.whole else kept
        return with_properties(deep_merge(base, self.asked), self.given)


class Order(NamedTuple):
    """What the command line of an `update` says: KEY=VALUE words, a file, and how to go about it."""

    properties: tuple[str, ...]
    file: str | None
    replace: bool = False
    """The file is the whole new definition."""
    no_validate: bool = False
    consent: Consent = Consent()
    waiting: Waiting = Waiting()
    force: bool = False


def definition_options(command: Command) -> Command:
    """Let an `update` take a file and say how to go about it."""
    for option in (
        update_options,
        click.option("--no-validate", is_flag=True, help="Leave all checks to the server."),
        click.option("--replace", is_flag=True, help=_REPLACE),
        click.option("--file", "-f", metavar="FILE", help="JSON or YAML with what is to change; - is standard input."),
    ):
        command = option(command)
    return command


def update_command(
    name: Callable[[Command], Command],
    *,
    options: Callable[[Command], Command] = definition_options,
    deploys: bool = True,
) -> Callable[[Callable[[Console, str, Order], Any]], click.Command]:
    """Make the command `update` of a function of the console, the argument `name` and an Order.

    `options` give what else an Order has; --wait and --force are there where a deployment follows.
    """

    def decorate(function: Callable[[Console, str, Order], Any]) -> click.Command:
        @wraps(function)
        def told(console: Console, /, name: str, **said: Any) -> Any:
            return function(console, name, Order(**said))

        command: Command = target_options(pass_console(told))
        command = output_options()(command)
        if deploys:
            command = wait_options()(force_option(command))
        command = click.argument("properties", metavar="[KEY=VALUE]...", nargs=-1)(options(command))
        return click.command(name="update")(name(command))

    return decorate


def read_wish(order: Order, schema: Mapping[str, Any], name: str, *, canonical: Callable[[str], str] = str) -> Wish:
    """Return what the file and the words of an order ask for; without both, what standard input does.

    Raises BadInput (for a file that defines something else than `name`, too), UsageError when nothing is asked for.
    """
    from marathon_cli.document import check
    from marathon_cli.document.properties import parse_properties

    file, words = order.file, order.properties
    if order.replace and file is None:
        raise click.UsageError("--replace takes the whole definition from --file")
    if file is None and not words:
        if sys.stdin.isatty():
            raise click.UsageError("say what to change: KEY=VALUE, --file FILE, or JSON on standard input")
        file = "-"
    given = parse_properties(words, schema)
    if file is None:
        return Wish(None, {}, given)
    source = check.read_source(file)
    document = check.parse(source)
    if not isinstance(document, dict):
        raise BadInput(f"{source.name}: an object was expected, with the keys that are to change")
    if "id" in document and canonical(str(document["id"])) != name:
        raise BadInput(f"{source.name}: defines {document['id']}, not {name}")
    return Wish(source, {key: value for key, value in document.items() if key != "id"}, given, order.replace)


def refuse_new_problems(
    problems_of: Callable[[Mapping[str, Any]], Sequence[Problem]],
    source: Source | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Raise BadInput for what a change makes wrong; what was so before is the server's own affair."""
    from marathon_cli.document import check

    old = {(problem.path, problem.code) for problem in problems_of(before)}
    new = [problem for problem in problems_of(after) if (problem.path, problem.code) not in old]
    if source is not None:
        check.refuse_duplicates(source)
    if not new:
        return
    if source is not None:
        raise BadInput(check.report(source, new))
    lines = [f"{'1 problem' if len(new) == 1 else f'{len(new)} problems'}; nothing was changed"]
    for problem in new:
        lines.append(f"{problem.path}: {problem.message}")
        lines += [f"    {problem.suggestion}"] if problem.suggestion else []
    raise BadInput("\n".join(lines))


def agreed(
    console: Console,
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    means: str,
    consent: Consent,
) -> bool:
    """Show what changes, as the options say; return whether it is to be done.

    Ends the program with status 1 when somebody says no.
    """
    from marathon_cli.document.definitions import difference

    lines = difference(before, after)
    if not lines:
        console.tell(f"{name} is already as asked; nothing was changed", {"id": name, "deploymentId": None}, names=[])
        return False
    if consent.dry_run:
        show_difference(lines)
        console.tell(f"Would change {name}: {means}", {"id": name, "definition": dict(after)}, names=[name])
        return False
    if not confirm(lines, means, diff=consent.diff, yes=consent.yes):
        say("nothing was changed")
        click.get_current_context().exit(1)
    return True
