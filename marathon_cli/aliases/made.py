"""Commands under the names that other tools give them: the registry's own, with options as the table maps them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from marathon_cli.aliases.table import KINDS, NOTHING, Alias
from marathon_cli.screen.output import say

Find = Callable[[str], click.Command]
"""Returns the command of the registry at a path."""


def renamed(alias: Alias, path: str, command: click.Command) -> click.Command:
    """Return a command under another name, whose options have the names of the other tool as well."""
    made = copy.copy(command)
    made.name = alias.names[0]
    made.epilog = f"Here it is `mesos-gpu {path}`. {command.epilog or ''}".strip()
    made.params = [copy.copy(parameter) for parameter in command.params]
    made.params += mapped(alias, made.params)
    return made


def mapped(alias: Alias, params: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Give options their names in another tool; return those that are to be added to them."""
    options = [parameter for parameter in params if isinstance(parameter, click.Option)]
    added: list[click.Parameter] = []
    for name, meant in alias.options.items():
        flag = name.removesuffix("=")
        for option in options:
            option.opts = [known for known in option.opts if known != flag or known == meant]
        if meant.startswith("--"):
            own = next(option for option in options if meant in option.opts)
            own.opts = [*own.opts, flag]
            continue
        effect = _words(meant, options) if meant and not meant.startswith("!") else _told(meant)
        hidden = [flag, f"_{flag.strip('-')}"]
        takes_none = not name.endswith("=")
        added.append(click.Option(hidden, is_flag=takes_none, expose_value=False, hidden=True, callback=effect))
    return added


def _told(meant: str) -> Callable[..., None]:
    """Return what an option does that changes nothing: where that is news, it is said."""

    def effect(_context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value and meant != NOTHING:
            say(f"note: {meant[1:]}")

    return effect


def _words(meant: str, options: Iterable[click.Option]) -> Callable[..., None]:
    """Return what an option does that stands for another one with its value."""
    name, _, text = meant.partition(" ")
    other = next(option for option in options if name in option.opts)

    def effect(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value and other.callback is not None:
            other.callback(context, other, other.type_cast_value(context, text))

    return effect


def words(alias: Alias, args: list[str]) -> list[str]:
    """Return the words that the command behind an alias is to read.

    `pod/NAME` and `deployment/NAME` are kubectl's ways to write NAME; an app's id that begins so is written with a
    slash in front.
    """
    end = args.index("--") if "--" in args else len(args)
    before = [_plain(word) for word in args[:end]] if isinstance(alias.means, str) else args[:end]
    return [*alias.first.split(), *before, *args[end:]]


def shows_one(alias: Alias, args: Sequence[str]) -> bool:
    """Return whether one NAME is to be shown in a form for programs: then it is the thing itself, not a list."""
    if not alias.whole or any(word in ("-w", "--watch") for word in args):
        return False
    text, names, skip = "", 0, False
    for word, following in zip(args, [*args, ""][1:], strict=True):
        if skip:
            skip = False
        elif word in ("-o", "--output"):
            text, skip = following, True
        elif word.startswith(("-o", "--output=")):
            text = word.removeprefix("--output").removeprefix("-o").removeprefix("=")
        elif word in ("-l", "--label", "--selector", "--interval"):
            return False
        elif not word.startswith("-"):
            names += 1
    return names == 1 and text.startswith(("json", "yaml"))


def _plain(word: str) -> str:
    kind, slash, name = word.partition("/")
    return name if slash and name and kind in KINDS else word
