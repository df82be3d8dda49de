"""How a definition is changed by a file and KEY=VALUE: what is there, what is asked for, what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from marathon_cli.changes.changes import Consent, confirm, show_difference
from marathon_cli.console.console import Console
from marathon_cli.screen.output import say
from mesos_gpu.errors import BadInput, Problem

if TYPE_CHECKING:
    from marathon_cli.document.check import Source
    from marathon_cli.document.properties import Property

Command = Callable[..., Any]


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


def document_options(command: Command) -> Command:
    """Let a command take KEY=VALUE words, --file, --replace and --no-validate."""
    for option in (
        click.option("--no-validate", is_flag=True, help="Leave all checks to the server."),
        click.option(
            "--replace", is_flag=True, help="The file is the whole new definition; what it does not have is gone."
        ),
        click.option("--file", "-f", metavar="FILE", help="JSON or YAML with what is to change; - is standard input."),
        click.argument("properties", metavar="[KEY=VALUE]...", nargs=-1),
    ):
        command = option(command)
    return command


def read_wish(
    file: str | None,
    words: Sequence[str],
    schema: Mapping[str, Any],
    name: str,
    *,
    replace: bool,
    canonical: Callable[[str], str] = str,
) -> Wish:
    """Return what a file and words ask for; without both, what standard input does.

    Raises BadInput (for a file that defines something else than `name`, too), UsageError when nothing is asked for.
    """
    from marathon_cli.document import check
    from marathon_cli.document.properties import parse_properties

    if replace and file is None:
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
    return Wish(source, {key: value for key, value in document.items() if key != "id"}, given, replace)


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
        console.tell(f"{name} is so already; nothing changes", {"id": name, "deploymentId": None}, names=[])
        return False
    if consent.dry_run:
        show_difference(lines)
        console.tell(f"Would change {name}: {means}", {"id": name, "definition": dict(after)}, names=[name])
        return False
    if not confirm(lines, means, diff=consent.diff, yes=consent.yes):
        say("nothing was changed")
        click.get_current_context().exit(1)
    return True
