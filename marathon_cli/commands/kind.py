"""The commands `list`, `show`, `update` and `remove` of apps, pods, jobs and groups, written once.

A module of this folder describes its noun as a `Kind` and creates its commands from that description.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

from marathon_cli.changes.changes import Waiting, finish, force_option, wait_options
from marathon_cli.clients.marathon import ChangeTarget
from marathon_cli.console.console import Console, pass_console
from marathon_cli.console.options import output_options, selector_option, target_options, watch_options
from marathon_cli.document.definitions import without
from marathon_cli.screen.arguments import hints, named
from marathon_cli.screen.output import Column, Table, say
from mesos_gpu.errors import BadInput, Conflict, Problem

if TYPE_CHECKING:
    from marathon_cli.clients.marathon import Definitions, Document, Marathon
    from marathon_cli.document.check import Source
    from marathon_cli.document.properties import Property
    from mesos_gpu.marathon.definitions.app_settings import AppRules

Command = Callable[..., Any]
Row = Sequence[object]


class Kind(ABC):
    """What the commands know about one noun. A subclass sets the attributes and overrides what differs.

    Methods that call a server raise what the call raises: NotFound, Locked, Refused, Unavailable.
    """

    name: ClassVar[str]
    """The noun, such as `app`."""
    api: ClassVar[type[Definitions]]
    """The part of the API that has its definitions."""
    columns: ClassVar[Sequence[Column]]
    none: ClassVar[str]
    """What `list` reports, with the next step, if there is none."""
    help: ClassVar[Mapping[str, str]]
    """The help text of each command."""
    selects: ClassVar[bool] = True
    """Whether `list` takes names and a label selector."""
    default_name: ClassVar[str | None] = None
    """What `show` shows without a name; None if a name is required."""
    version_option: ClassVar[tuple[str, str] | None] = None
    """The placeholder and help text of `show --version`; None if earlier versions cannot be shown."""
    table_only: ClassVar[Sequence[str]] = ()
    """Keys that `list` reads for its table and leaves out of other forms."""
    server_keys: ClassVar[Sequence[str]] = ()
    """Keys of a definition that only the server sets."""
    count_key: ClassVar[str | None] = None
    """The key of the number of instances, which `apply` leaves unchanged if a file does not set it."""
    older_forms: ClassVar[Sequence[tuple[str, str]]] = ()
    """Pairs of an older key and the newer key that replaces it."""
    deploys: ClassVar[bool] = True
    """Whether a change is a deployment, which --wait can wait for."""
    is_target: ClassVar[bool] = True
    """Whether a deployment is waited for by this name; otherwise by the apps and pods that Marathon reports."""
    confirms: ClassVar[bool] = False
    """Whether `remove` asks for confirmation; `contents` is what it shows."""

    def canonical(self, name: str) -> str:
        """Return the id that a user's text means. Raises BadInput."""
        return name

    def id_of(self, document: Mapping[str, Any]) -> str:
        """Return the id of what a document defines. Raises BadInput."""
        return self.canonical(str(document.get("id") or self.default_name))

    def explained(self) -> AbstractContextManager[None]:
        """Return a context that explains errors of a server that does not have this kind."""
        return nullcontext()

    # --- read

    @abstractmethod
    def documents(self, marathon: Marathon, label: str | None, **filters: Any) -> list[Document]:
        """Return all definitions with their state that match a label selector, by id."""

    def status(self, marathon: Marathon, name: str) -> Document:
        """Return what `show` shows."""
        return self.api(marathon).show(name)

    def resolved(self, marathon: Marathon, name: str, text: str) -> str:
        """Return the version that a user's text means. Raises BadInput."""
        return text

    def version(self, marathon: Marathon, name: str, version: str) -> Document:
        """Return an earlier version. A kind with a `version_option` overrides this."""
        raise NotImplementedError

    @abstractmethod
    def rows(self, marathon: Marathon, documents: Sequence[Document]) -> list[Row]:
        """Return a table row for each document."""

    def details(self, marathon: Marathon, document: Document) -> Table:
        """Return the table of `show`."""
        return Table(self.columns, self.rows(marathon, [document]))

    def names(self, document: Document) -> list[str]:
        """Return what `show -o name` prints."""
        return [str(document.get("id"))]

    # --- validate

    def schema(self) -> Mapping[str, Any] | None:
        """Return the JSON schema of a definition, by which KEY=VALUE is read."""
        return None

    def rules(self, marathon: Marathon) -> AppRules:
        """Return what this Marathon accepts, or the rules that hold for all if it does not answer."""
        from marathon_cli.changes.rules import rules_if_any

        return rules_if_any(marathon)

    @abstractmethod
    def problems(self, document: Any, rules: AppRules) -> list[Problem]:
        """Return all problems of a definition."""

    def check(self, source: Source, document: Any, rules: AppRules) -> None:
        """Raise BadInput that lists every problem of a document with its place in the source."""
        from marathon_cli.document.check import refuse_problems

        refuse_problems(source, self.problems(document, rules))

    # --- change

    def with_defaults(self, document: Document, rules: AppRules) -> Document:
        """Return a valid definition with all defaults. A kind that does not override `update` overrides this."""
        raise NotImplementedError

    def remove_option(self, command: Command) -> Command:
        """Let `remove` take the option that sets `force`."""
        return force_option(command)

    def editable(self, document: Mapping[str, Any]) -> Document:
        """Return a definition without the keys that only the server sets."""
        return without(document, *self.server_keys)

    def requested(self, document: Document) -> Document:
        """Return a definition that a user asks for without the keys that the server would refuse."""
        return document

    def consequence(self, before: Document, after: Document) -> str:
        """Return what an update does to instances. A kind that does not override `update` overrides this."""
        raise NotImplementedError

    def body(self, before: Document, after: Document) -> tuple[Document, bool]:
        """Return what `update` sends, and whether it is a partial definition."""
        return after, False

    def warn(self, marathon: Marathon, document: Document) -> None:  # noqa: B027 - most kinds have no warnings
        """Print warnings about a definition before it is sent."""

    def refused(self, error: Conflict, *, force: bool) -> Conflict:
        """Return what `remove` reports in place of a conflict."""
        return error

    def contents(self, marathon: Marathon, name: str) -> str:
        """Return what is removed together with it, for the question and the message of `remove`."""
        return ""

    def update(
        self, console: Console, marathon: Marathon, name: str, current: Document, edit: Edit, options: UpdateOptions
    ) -> None:
        """Show what a user's edit changes, and change it if the user agrees."""
        from marathon_cli.changes.rules import OFFLINE, explained

        before = self.editable(current)
        if (text := edit.only_version) is not None and self.version_option is not None:
            version = self.resolved(marathon, name, text)
            after = self.editable(self.version(marathon, name, version))
            body, partial = {"version": version}, True
        else:
            after = self.requested(edit.applied(before, older_forms=self.older_forms))
            if not options.no_validate:
                rules = self.rules(marathon)
                refuse_new_problems(lambda one: self.problems(one, rules), edit.source, before, after)
            body, partial = self.body(before, after)
        means = self.consequence(before, after)
        if after != before and not options.no_validate:
            self.warn(marathon, {"id": name, **after})
        if not agreed(console, name, before, after, means, options.consent):
            return
        if "version" in current and self.api(marathon).show(name).get("version") != current["version"]:
            # Marathon itself does not notice that another user has changed the definition in the meantime.
            raise Conflict(f"{name} was changed by another user meanwhile; nothing was done. Look at it and try again")
        with explained(edit.source, dict(edit.asked), OFFLINE, marathon.url):
            change = self.api(marathon).put(name, body, force=options.force, partial=partial)
        if not self.deploys:
            console.tell(f"Changed {name}", change.document, names=[name])
            return
        sentence = f"changes {name}: {means}"
        finish(console, marathon, change, self.targets(name), sentence, options.waiting, value={"id": name})

    def update_options(self, command: Command) -> Command:
        """Let `update` take a file, and options that say how to make the change."""
        return definition_options(command)

    def targets(self, name: str, *, gone: bool = False) -> tuple[ChangeTarget, ...]:
        """Return what a deployment is waited for by."""
        return (ChangeTarget(self.name, name, gone=gone),) if self.is_target else ()

    @property
    def argument(self) -> Callable[[Command], Command]:
        """The argument that names one."""
        return click.argument("name", metavar=self.name.upper())


def list_command(kind: Kind, *options: Callable[[Command], Command]) -> click.Command:
    """Return the command `list`. The values of further `options` are passed to `Kind.documents`."""

    def run(console: Console, names: tuple[str, ...] = (), label: str | None = None, **filters: Any) -> None:
        marathon = console.marathon()
        wanted = [kind.canonical(name) for name in names]

        def look() -> None:
            found = named(kind.documents(marathon, label, **filters), wanted, kind.name)
            console.show(
                [without(one, *kind.table_only) for one in found] if kind.table_only else found,
                table=lambda: Table(kind.columns, kind.rows(marathon, found)),
                names=[str(one.get("id")) for one in found],
                none=kind.none,
            )

        with kind.explained():
            console.repeat(look)

    names = click.argument("names", metavar=f"[{kind.name.upper()}]...", nargs=-1)
    selection = (names, selector_option) if kind.selects else ()
    return _command(kind, "list", run, *selection, *options, watch_options, output_options())


def show_command(kind: Kind) -> click.Command:
    """Return the command `show`."""

    def run(console: Console, name: str, version: str | None = None) -> None:
        marathon, wanted = console.marathon(), kind.canonical(name)
        with kind.explained():
            with hints(wanted, kind.api(marathon).ids):
                if version is None:
                    found = kind.status(marathon, wanted)
                else:
                    found = kind.version(marathon, wanted, kind.resolved(marathon, wanted, version))
            console.show(found, table=lambda: kind.details(marathon, found), names=kind.names(found))

    name = kind.argument
    if kind.default_name is not None:
        name = click.argument("name", metavar=f"[{kind.name.upper()}]", default=kind.default_name)
    options = [name]
    if kind.version_option is not None:
        metavar, text = kind.version_option
        options.append(click.option("--version", f"--{kind.name}-version", "version", metavar=metavar, help=text))
    return _command(kind, "show", run, *options, output_options(default="json"))


def remove_command(kind: Kind) -> click.Command:
    """Return the command `remove`."""

    def run(
        console: Console,
        name: str,
        *,
        force: bool,
        yes: bool = False,
        waiting: Waiting = Waiting(),  # noqa: B008
    ) -> None:
        marathon, wanted = console.marathon(), kind.canonical(name)
        with kind.explained(), hints(wanted, kind.api(marathon).ids):
            inside = kind.contents(marathon, wanted)
            if kind.confirms and not yes:
                _confirm_removal(wanted, inside)
            try:
                change = kind.api(marathon).remove(wanted, force=force)
            except Conflict as error:
                raise kind.refused(error, force=force) from None
        if not kind.deploys:
            console.tell(f"Removed {wanted}", {"id": wanted}, names=[wanted])
            return
        targets = kind.targets(wanted, gone=True)
        finish(console, marathon, change, targets, f"removes {wanted}{inside}", waiting, value={"id": wanted})

    options = [kind.argument]
    if kind.confirms:
        options.append(click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."))
    if kind.deploys:
        options.append(wait_options(roll_back=False))
    return _command(kind, "remove", run, *options, kind.remove_option, output_options())


def update_command(kind: Kind) -> click.Command:
    """Return the command `update`."""

    def run(console: Console, name: str, **given: Any) -> None:
        options, wanted = UpdateOptions(**given), kind.canonical(name)
        edit = read_edit(options, kind.schema(), wanted, canonical=kind.canonical)
        marathon = console.marathon()
        with kind.explained():
            with hints(wanted, kind.api(marathon).ids):
                current = kind.api(marathon).show(wanted)
            kind.update(console, marathon, wanted, current, edit, options)

    properties = click.argument("properties", metavar="[KEY=VALUE]...", nargs=-1)
    waits = (wait_options(), force_option) if kind.deploys else ()
    return _command(kind, "update", run, kind.argument, properties, kind.update_options, *waits, output_options())


def _command(kind: Kind, name: str, run: Command, *options: Callable[[Command], Command]) -> click.Command:
    """Return a command with its options in this order."""
    command: Command = target_options(pass_console(run))
    for option in reversed(options):
        command = option(command)
    return click.command(name=name, help=kind.help[name])(command)


def _confirm_removal(name: str, inside: str) -> None:
    """Ask on a terminal; elsewhere require --yes for the root group. Ends the program if the answer is no."""
    if sys.stdin.isatty():
        if not click.confirm(f"Remove {name}{inside}?", default=False, err=True):
            say("nothing was removed")
            click.get_current_context().exit(1)
    elif name == "/":
        raise BadInput(f"this would remove everything:{inside.removeprefix(' with')}; --yes confirms that")


def read_definition(kind: Kind, file: str | None) -> tuple[Source, Any]:
    """Return the text and the document of the FILE of `add`; without one, of standard input. Raises BadInput."""
    from marathon_cli.document import check

    if file is None and sys.stdin.isatty():
        raise click.UsageError(f"give a FILE, or pipe JSON in: mesos-gpu {kind.name} add {kind.name}.json")
    source = check.read_source(file or "-")
    return source, check.parse(source)


class Edit(NamedTuple):
    """What a user wants changed: the keys of a file, then KEY=VALUE. `whole`: the file is the whole new definition."""

    source: Source | None
    asked: Mapping[str, Any]
    given: Sequence[Property]
    whole: bool = False

    @property
    def only_version(self) -> str | None:
        """The version to return to, if nothing else is to change."""
        if not self.given:
            return str(self.asked["version"]) if set(self.asked) == {"version"} else None
        alone = not self.asked and [item.path for item in self.given] == [("version",)]
        return self.given[0].text if alone else None

    def applied(self, before: Mapping[str, Any], *, older_forms: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the changed definition. Raises BadInput for a property whose path does not exist.

        An older form of a key replaces the newer one.
        """
        from marathon_cli.document.properties import deep_merge, with_properties

        named = {*self.asked, *(item.path[0] for item in self.given)}
        replaced = {newer for older, newer in older_forms if older in named and newer not in named}
        kept = {key: value for key, value in before.items() if key not in replaced}
        base = {"id": before.get("id")} if self.whole else kept
        return with_properties(deep_merge(base, self.asked), self.given)


class Consent(NamedTuple):
    """Whether a change is only shown, is shown even without a question, and is made without a question."""

    dry_run: bool = False
    diff: bool = False
    yes: bool = False


def consent_options(command: Command) -> Command:
    """Let a command take --dry-run, --diff and --yes; it gets them as `consent`."""

    @wraps(command)
    def inner(*args: Any, dry_run: bool, diff: bool, yes: bool, **others: Any) -> Any:
        return command(*args, consent=Consent(dry_run, diff, yes), **others)

    click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(inner)
    click.option("--diff", is_flag=True, help="Show the changes even when no question is asked.")(inner)
    click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")(inner)
    return inner


class UpdateOptions(NamedTuple):
    """The command line of an `update`: KEY=VALUE words, a file, and how to make the change."""

    properties: tuple[str, ...]
    file: str | None
    replace: bool = False
    """The file is the whole new definition."""
    no_validate: bool = False
    consent: Consent = Consent()
    waiting: Waiting = Waiting()
    force: bool = False


_REPLACE = "The file is the whole new definition; what it does not have is gone."


def definition_options(command: Command) -> Command:
    """Let an `update` take a file and options that say how to make the change."""
    for option in (
        consent_options,
        click.option("--no-validate", is_flag=True, help="Leave all checks to the server."),
        click.option("--replace", is_flag=True, help=_REPLACE),
        click.option("--file", "-f", metavar="FILE", help="JSON or YAML with what is to change; - is standard input."),
    ):
        command = option(command)
    return command


def read_edit(
    options: UpdateOptions, schema: Mapping[str, Any] | None, name: str, *, canonical: Callable[[str], str] = str
) -> Edit:
    """Return what the file and KEY=VALUE change; without both, what standard input changes.

    Raises BadInput (for a file that defines something else than `name`, too), UsageError when nothing is asked for.
    """
    from marathon_cli.document import check
    from marathon_cli.document.properties import parse_properties

    file, words = options.file, options.properties
    if options.replace and file is None:
        raise click.UsageError("--replace takes the whole definition from --file")
    if file is None and not words:
        if sys.stdin.isatty():
            raise click.UsageError("say what to change: KEY=VALUE, --file FILE, or JSON on standard input")
        file = "-"
    given = parse_properties(words, schema)
    if file is None:
        return Edit(None, {}, given)
    source = check.read_source(file)
    document = check.parse(source)
    if not isinstance(document, dict):
        raise BadInput(f"{source.name}: an object was expected, with the keys that are to change")
    if "id" in document and canonical(str(document["id"])) != name:
        raise BadInput(f"{source.name}: defines {document['id']}, not {name}")
    return Edit(source, {key: value for key, value in document.items() if key != "id"}, given, options.replace)


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
        check.refuse_problems(source, ())
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

    Ends the program with status 1 when the user declines.
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


def confirm(lines: Sequence[str], consequence: str, *, diff: bool, yes: bool) -> bool:
    """Show a difference, and ask whether to go on where somebody can answer. Return whether to go on."""
    ask = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    if ask or diff:
        show_difference(lines)
        say(f"This means: {consequence}.")
    return not ask or click.confirm("Go on?", default=False, err=True)


def show_difference(lines: Sequence[str]) -> None:
    """Print the lines of a diff to stderr, in colours on a terminal."""
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(line, fg=colour, err=True)
