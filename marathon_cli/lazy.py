"""A group of commands that knows them by the registry and imports one when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import click

from marathon_cli.aliases.table import ALIASES, GATHERINGS, KINDS, TOOLS, Alias, aliases_below, gathering, listed_below
from marathon_cli.registry import PROGRAM, ROWS, Row

_EPILOG = "Options of all commands, such as --marathon-url: mesos-gpu --help"


class LazyGroup(click.Group):
    """The commands of the registry one level below `path`, and what other tools call them; the root's path is empty."""

    def __init__(self, *args: Any, path: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.path = path
        self._rows = rows_below(path)
        self._aliases = aliases_below(path)
        gathers = gathering(path) if path else None
        self._default = gathers.default if gathers else next((row.default for row in ROWS if row.path == path), "")
        self._otherwise = gathers.otherwise if gathers else ""
        self.no_args_is_help = not self._default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a group that has a usual command for that command, when no other is named."""
        none_named = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if self._default and none_named and not ctx.resilient_parsing:  # a shell asks what may follow
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the registry's order, then those that other tools have for them."""
        above = [one.path for one in GATHERINGS] if not self.path else []
        return [*self._rows, *above, *(alias.names[0] for alias in listed_below(self.path))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or make the group of that name."""
        if (row := self._rows.get(cmd_name)) is not None:
            return load(row)
        if (alias := self._aliases.get(cmd_name)) is not None:
            return load_alias(alias.path)
        gathers = gathering(cmd_name) if not self.path else None
        return LazyGroup(name=cmd_name, path=cmd_name, help=gathers.help, epilog=_EPILOG) if gathers else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; one that is not there is refused, with the nearest that is."""
        args = self._spelled(args)
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            import difflib

            near = difflib.get_close_matches(word, self.list_commands(ctx), n=3)
            said = f"; did you mean {' or '.join(near)}?" if near else ""
            from marathon_cli.aliases.table import MEANT

            if meant := MEANT.get(f"{self.path} {word}".strip()):
                said = f"; here it is `{PROGRAM} {meant}`"
            ctx.fail(f"there is no command `{ctx.command_path} {word}`{said}")
        name, command, rest = super().resolve_command(ctx, args)
        if (alias := self._aliases.get(word)) is not None:
            from marathon_cli.aliases.commands import shows_one, words

            rest = words(alias, rest)
            if shows_one(alias, rest):
                command = load(_BY_PATH[alias.whole])
        return name, command, rest

    def _spelled(self, args: list[str]) -> list[str]:
        """Return words that begin with one of ours: `deployment/NAME` is two, and a NAME alone has a command, too."""
        if args[0] in self._rows or args[0] in self._aliases or not self._aliases:
            return args
        kind, slash, name = args[0].partition("/")
        if slash and name and kind in KINDS and kind in self._aliases:
            return [kind, name, *args[1:]]
        return [self._otherwise, *args] if self._otherwise and not args[0].startswith("-") else args

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options: commands are what one looks for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headlines, without importing any."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, row in self._rows.items():
            sections.setdefault(row.section or "Commands", []).append((name, row.help))
        if self._rows and self._aliases:
            sections["Words of other tools"] = self._words_of_others()
        for alias in () if self._rows else listed_below(self.path):
            sections.setdefault("Commands", []).append((alias.names[0], said_of(alias)))
        width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for headline, rows in sections.items():
            with formatter.section(headline):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def _words_of_others(self) -> list[tuple[str, str]]:
        """Return for each tool which of its words are understood here."""
        held = {tool: [one.path for one in GATHERINGS if one.tool == tool and not self.path] for tool in TOOLS}
        for alias in listed_below(self.path):
            held[alias.tool].append(alias.names[0])
        return [(tool, ", ".join(sorted(words))) for tool, words in held.items() if words]


def rows_below(path: str) -> Mapping[str, Row]:
    """Return the rows one level below a path, by their last word."""
    start = f"{path} " if path else ""
    return {
        row.path[len(start) :]: row for row in ROWS if row.path.startswith(start) and " " not in row.path[len(start) :]
    }


def load(row: Row) -> click.Command:
    """Return the command of a row, imported now."""
    if not row.where:
        return LazyGroup(name=row.path.rpartition(" ")[2], path=row.path, help=row.help, epilog=_EPILOG)
    module, _, attribute = row.where.partition(":")
    command = getattr(import_module(f"marathon_cli.commands.{module}"), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{row.where} is not a command")
    command.epilog = command.epilog or _EPILOG
    return command


@cache
def load_alias(alias_path: str) -> click.Command:
    """Return the command, or the group, of an alias, imported now and made once."""
    alias = next(alias for alias in ALIASES if alias.path == alias_path)
    if isinstance(alias.means, str):
        from marathon_cli.aliases.commands import renamed

        return renamed(alias, alias.means, load(_BY_PATH[alias.means]))
    from marathon_cli.aliases.commands import by_kind

    command = by_kind(alias, lambda path: load(_BY_PATH[path]))
    command.epilog = _EPILOG
    return command


def said_of(alias: Alias) -> str:
    """Return in one sentence what an alias does."""
    return _BY_PATH[alias.means].help if isinstance(alias.means, str) else alias.help


_BY_PATH = {row.path: row for row in ROWS}
