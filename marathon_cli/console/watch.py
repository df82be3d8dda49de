"""--watch: look again and again, and show what has changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


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
