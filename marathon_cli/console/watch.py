"""--watch: look again and again, and show what has changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from marathon_cli.screen.numbers import Number

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_S = 2.0


def watch_options(command: Command) -> Command:
    """Let a command take --watch and --interval; its look is then given to `Console.repeat`."""
    from marathon_cli.console.console import Console

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            console = context.ensure_object(Console)
            console.watch_s = (console.watch_s or DEFAULT_S) if value is True else float(value or 0)

    for option in (
        click.option(
            "--interval",
            type=Number(min=0.1),
            metavar="SECONDS",
            expose_value=False,
            callback=keep,
            help=f"With --watch (implied): how often; default: {DEFAULT_S:g}.",
        ),
        click.option(
            "--watch",
            "-w",
            is_flag=True,
            default=None,
            expose_value=False,
            callback=keep,
            help="Look again and again until Ctrl-C.",
        ),
    ):
        command = option(command)
    return command


class Watcher:
    """Shows one text after the other: in place on a terminal, else each that differs from the one before."""

    def __init__(self, *, terminal: tuple[int, int] | None) -> None:
        """`terminal` is columns and lines of the terminal, None when there is none."""
        self._terminal, self._shown, self._last = terminal, 0, ""

    def show(self, text: str) -> None:
        """Show what is there now."""
        if self._terminal is None:
            if text != self._last:
                click.echo(("\n" if self._last else "") + text, nl=False)
                sys.stdout.flush()
            self._last = text
            return
        width, height = self._terminal
        lines = text.splitlines()
        if len(lines) > height - 1:
            lines = [*lines[: height - 2], f"... {len(lines) - height + 2} more"]
        up = f"\x1b[{self._shown}A" if self._shown else ""
        # A line longer than the terminal takes several rows there.
        rows = [max(1, -(-len(click.unstyle(line)) // width)) for line in lines]
        sys.stdout.write(up + "\r\x1b[J" + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._shown = sum(rows)


def repeat(look: Callable[[], str], every_s: float, watcher: Watcher) -> None:
    """Show what `look` returns, again and again, until an exception ends it."""
    while True:
        watcher.show(look())
        time.sleep(every_s)
