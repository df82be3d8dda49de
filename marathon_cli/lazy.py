"""A group of commands that knows them by the registry and imports one when it is run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from marathon_cli.registry import DCOS, ROWS, Row

_EPILOG = "Options of all commands, such as --marathon-url: mesos-gpu --help"


class LazyGroup(click.Group):
    """The commands of the registry one level below `path`; the root's path is empty."""

    def __init__(self, *args: Any, path: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.path = path
        self._rows = rows_below(path)
        self._default = next((row.default for row in ROWS if row.path == path), "")
        self.no_args_is_help = not self._default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a group that has a usual command for that command, when no other is named."""
        if self._default and (not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the registry's order."""
        return [*self._rows, *(DCOS if not self.path else ())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or make the group of that name."""
        if not self.path and cmd_name in DCOS:
            return _alias(cmd_name)
        row = self._rows.get(cmd_name)
        return None if row is None else load(row)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; one that is not there is refused, with the nearest that is."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            near = difflib.get_close_matches(word, self.list_commands(ctx), n=3)
            said = f"; did you mean {' or '.join(near)}?" if near else ""
            from marathon_cli.command_hints import MEANT

            if meant := MEANT.get(f"{self.path} {word}".strip()):
                said = f"; here it is `mesos-gpu {meant}`"
            ctx.fail(f"there is no command `{ctx.command_path} {word}`{said}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options: commands are what one looks for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headlines, without importing any."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, row in self._rows.items():
            sections.setdefault(row.section or "Commands", []).append((name, row.help))
        if not self.path:
            aliases = [
                (name, f"The commands of `dcos {name}`: {', '.join(sorted(held))}.") for name, held in DCOS.items()
            ]
            sections["As in DC/OS"] = aliases
        width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for headline, rows in sections.items():
            with formatter.section(headline):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


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
        raise TypeError(f"{row.where} is no command")
    command.epilog = command.epilog or _EPILOG
    return command


def _alias(name: str) -> click.Group:
    rows = {row.path: row for row in ROWS}
    group = click.Group(name, help=f"The commands of `dcos {name}`.", epilog=_EPILOG)
    for word, path in DCOS[name].items():
        group.add_command(load(rows[path]), word)
    return group
