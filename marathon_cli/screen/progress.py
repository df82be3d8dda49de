"""Where waiting is shown: bars that move on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from marathon_cli.screen.language import told
from marathon_cli.screen.output import printable, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Screen(Protocol):
    """What a wait tells its user."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def status(self, name: str, text: str, done: int = 0, total: int = 0) -> None:
        """Show how far `name` is; it takes the place of what was shown of it before."""

    def close(self) -> None:
        """Give the terminal back."""


class Lines:
    """Says a line whenever it is another than the last one of its name."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Show a line that stays."""
        say(printable(text))

    def status(self, name: str, text: str, done: int = 0, total: int = 0) -> None:
        """Say the line, unless it was said."""
        if self._last.get(name) != text:
            self._last[name] = text
            self.say(text)

    def close(self) -> None:
        """There is nothing to give back."""


class Bars:
    """A bar for each name, at the bottom of the terminal; the last state stays as plain lines."""

    def __init__(self) -> None:
        self.progress: Progress = new_progress()
        self._bars: dict[str, TaskID] = {}
        self._last: dict[str, str] = {}
        self._begun = False

    def say(self, text: str) -> None:
        """Show a line that stays, above the bars."""
        say(printable(text))

    def status(self, name: str, text: str, done: int = 0, total: int = 0) -> None:
        """Move the bar of `name`; what is said of no name stays as a line."""
        if self._last.get(name) == text:
            return
        self._last[name] = text
        if not name:
            self.say(text)
            return
        if not self._begun:
            self.progress.start()
            self._begun = True
        if name not in self._bars:
            self._bars[name] = self.progress.add_task(printable(name), total=None, info="")
        info = printable(told(text.removeprefix(f"{name}: ")))
        self.progress.update(self._bars[name], completed=done, total=total or None, info=info)

    def close(self) -> None:
        """Take the bars away, and leave the last state of each in words."""
        if self._begun:
            self.progress.stop()
            self._begun = False
            for name in self._bars:
                self.say(self._last[name])


def new_screen() -> Screen:
    """Return bars for a terminal, lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()


def new_progress() -> Progress:
    """Return bars that vanish when they stop; each has a description and a field `info`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[info]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
        transient=True,
    )
