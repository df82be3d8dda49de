"""How values reach the screen: tables for people, plain columns for pipes, and what programs read.

A command hands over one value with its table and its names; `-o` and `-q` decide which of them is seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from marathon_cli.screen.language import told
from mesos_gpu.errors import BadInput

if TYPE_CHECKING:
    from marathon_cli.document.jsonpath import Template


FORMS = ("table", "wide", "json", "yaml", "name", "jsonpath=")
_GAP = 2
_NARROWEST = 12
"""What a cell that may be cut keeps at least."""


class Output(NamedTuple):
    """A form that -o names; `template` is jsonpath's."""

    form: str
    template: Template | None = None

    @classmethod
    def of(cls, text: str) -> Output:
        """Return what `-o TEXT` means. Raises BadInput."""
        form, equals, expression = text.partition("=")
        if form == "jsonpath":
            from marathon_cli.document.jsonpath import parse_template

            if not expression:
                raise BadInput("jsonpath wants a template, as in -o jsonpath='{[*].id}'")
            return cls(form, parse_template(expression))
        if equals or f"{form}=" in FORMS or form not in FORMS:
            raise BadInput(f"{text!r} is none of {', '.join(FORMS)}TEMPLATE")
        return cls(form)


DEFAULT = Output("table")


class Column(NamedTuple):
    """A column of a table. On a terminal too narrow for all, those with the highest `rank` are left out first."""

    name: str
    number: bool = False
    rank: int = 0
    cut: bool = False
    """Whether its cells may be cut on a terminal, as long text may; ids may not."""
    short: Callable[[Sequence[str]], Sequence[str]] | None = None
    """What its cells become, all together, on a terminal too narrow for the whole table: names that mean the same."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; None is an empty cell."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]] = field(default_factory=list)


def columns(*names: str, numbers: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return plain columns of these names; those in `numbers` are right-aligned."""
    return tuple(Column(name, number=name in numbers) for name in names)


def render(value: Any, output: Output, *, table: Callable[[], Table], names: Sequence[str]) -> str:
    """Return a value in the form that was asked for, as whole lines. `names` is what -o name gives, one a line.

    Elsewhere than on a terminal every row of a table is one line, and nothing is left out or cut.
    """
    if output.form == "json":
        import json

        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if output.form == "yaml":
        from marathon_cli.document.yaml_text import write_yaml

        return write_yaml(value)
    if output.form == "name":
        return "".join(f"{printable(name)}\n" for name in names)
    if output.template is not None:
        text = output.template.render(value)
        return text if not text or text.endswith("\n") else text + "\n"
    width = terminal_width() if sys.stdout.isatty() and output.form != "wide" else None
    return "".join(f"{line}\n" for line in table_lines(table(), width=width))


def table_lines(table: Table, *, width: int | None) -> list[str]:
    """Return the lines of a table; for a terminal of `width` characters its header is bold, unless NO_COLOR is set.

    When it is too narrow, columns that have short forms take them, then columns are left out by rank, then cells cut
    that may be; ids and numbers never are. When that is not enough, the first column has a line of its own.
    """
    cells = [["" if cell is None else printable(cell) for cell in row] for row in table.rows]
    if width is not None and sum(_widths(table.columns, cells)) + _GAP * (len(table.columns) - 1) > width:
        cells = _shortened(table.columns, cells)
    lines, fits = _rows(table.columns, cells, width)
    if width is None or fits or len(table.columns) < 2:
        return lines
    # Each row in two lines: what it is about and, indented, the rest.
    below, fits = _rows(table.columns[1:], [row[1:] for row in cells], width - _GAP, narrowest=_NARROWEST // 2)
    if not fits:
        return lines
    names = [_header(table.columns[0].name), *(row[0] for row in cells)]
    return [line for name, rest in zip(names, below, strict=True) for line in (name, " " * _GAP + rest)]


def _rows(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None, narrowest: int = _NARROWEST
) -> tuple[list[str], bool]:
    """Return a line for the header and each row, and whether they are as narrow as they are to be."""
    kept, widths = _fit(columns, cells, width, narrowest)

    def line(row: Sequence[str]) -> str:
        return (" " * _GAP).join(_padded(row[i], widths[i], number=columns[i].number) for i in kept).rstrip()

    header = line([column.name for column in columns])
    fits = width is None or 0 < sum(widths[i] for i in kept) + _GAP * (len(kept) - 1) <= width
    return [header if width is None else _header(header), *(line(row) for row in cells)], fits


def _header(line: str) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return line
    return click.style(line, bold=True)


def _fit(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None, narrowest: int
) -> tuple[list[int], list[int]]:
    """Return which columns are shown, and how wide every column is."""
    widths = _widths(columns, cells)
    kept = list(range(len(columns)))
    if width is None:
        return kept, widths

    def excess(shown: Sequence[int], narrow: bool) -> int:
        return sum(least(i) if narrow else widths[i] for i in shown) + _GAP * (len(shown) - 1) - width

    def least(i: int) -> int:
        return min(widths[i], max(narrowest, len(columns[i].name))) if columns[i].cut else widths[i]

    for rank in sorted({column.rank for column in columns if column.rank > 0}, reverse=True):
        if excess(kept, narrow=True) <= 0:
            break
        kept = [i for i in kept if columns[i].rank != rank]
    for i in reversed([i for i in kept if columns[i].cut]):
        widths[i] = max(least(i), widths[i] - max(0, excess(kept, narrow=False)))
    return kept, widths


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(display_width(row[i]) for row in ([c.name for c in columns], *cells)) for i in range(len(columns))]


def _shortened(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the cells with the short forms of the columns that have some."""
    upright = [[row[i] for row in cells] for i in range(len(columns))]
    shown = [column.short(each) if column.short else each for column, each in zip(columns, upright, strict=True)]
    return [list(row) for row in zip(*shown, strict=True)]


def _padded(text: str, width: int, *, number: bool) -> str:
    if display_width(text) > width:
        while text and display_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    space = " " * (width - display_width(text))
    return space + text if number else text + space


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def printable(value: object) -> str:
    """Return a value as one line of text that cannot steer a terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def terminal_width() -> int:
    """Return how many columns the terminal has; COLUMNS says otherwise."""
    import shutil

    return shutil.get_terminal_size().columns


def say(message: str) -> None:
    """Print a message that is not the command's result, to stderr."""
    # Not click.echo, which goes round sys.stderr: while a progress bar is shown, that is what keeps lines above it.
    print(told(message), file=sys.stderr, flush=True)


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
