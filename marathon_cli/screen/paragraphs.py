"""Sentences on a terminal: broken between words. Elsewhere each stays one line."""

from __future__ import annotations

import sys

import click

from marathon_cli.screen.output import printable, terminal_width


def terminal() -> int | None:
    """Return how many columns the terminal has that is written to; None where there is none."""
    return terminal_width() if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return the lines of a sentence; those after its first begin with `indent`. Words stay whole."""
    import textwrap

    if width is None:
        return [text]
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def say_paragraph(text: str, *, first: str = "", later: str | None = None) -> None:
    """Print a sentence behind `first`, its other lines behind `later` (as many spaces, where it is not given)."""
    indent = " " * len(first) if later is None else later
    columns = terminal()
    width = None if columns is None else max(20, columns - len(first))
    for index, line in enumerate(wrapped(printable(text), width)):
        click.echo(f"{first if index == 0 else indent}{line}")
