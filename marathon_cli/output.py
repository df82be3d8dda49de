"""How values reach the screen: tables for people, plain columns for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()) -> None:
    """Print rows under their columns; those named in `numbers` are right-aligned.

    On a terminal cells wrap to its width; elsewhere every row is one line and nothing is cut.
    """
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _show_rich(columns, cells, numbers)
        return
    widths = [max(len(row[i]) for row in (list(columns), *cells)) for i in range(len(columns))]
    for row in (list(columns), *cells):
        padded = [
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def say(message: str) -> None:
    """Print a message that is not the command's result, to stderr."""
    # Not click.echo, which goes round sys.stderr: while a progress bar is shown, that is what keeps lines above it.
    print(message, file=sys.stderr, flush=True)


def _show_rich(columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
