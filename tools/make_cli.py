"""Writes docs/reference/cli.md's table of commands and cli-help.md beside it: .venv/bin/python tools/make_cli.py"""

from __future__ import annotations

from pathlib import Path

import click

from marathon_cli.aliases.table import ALIASES, TOOLS, Alias
from marathon_cli.lazy import load
from marathon_cli.main import PROGRAM, cli
from marathon_cli.registry import ROWS, Row

DOCS = Path(__file__).parents[1] / "docs" / "reference"
BEGIN, END = "<!-- commands -->\n", "<!-- end of commands -->\n"
_WIDTH = 100
_PLACEHOLDERS = {"delete files": "-f FILE", "describe thing": "NAME", "top task": "TASK"}
"""How those aliases are typed that stand for the absence of a word."""
_HELP_HEAD = """# What each command says of itself

`mesos-gpu COMMAND --help`, for every command; [cli.md](cli.md) tells what they have in common.
"""


def cli_page(page: str) -> str:
    """Return cli.md with its table of commands as it is now."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + _table() + END + rest.partition(END)[2]


def help_page() -> str:
    """Return cli-help.md."""
    parts = [_HELP_HEAD, _section(PROGRAM, cli)]
    parts += [_section(f"{PROGRAM} {row.path}", load(row)) for row in ROWS if row.where]
    return "".join(parts)


def _table() -> str:
    sections: dict[str, list[Row]] = {}
    section = ""
    for row in ROWS:
        section = row.section or section
        sections.setdefault(section, []).append(row)
    lines = []
    for name, rows in sections.items():
        lines.append(f"\n| {name} | |\n|---|---|\n")
        lines += [f"| `{row.path}` | {row.help.replace('|', chr(92) + '|')} |\n" for row in rows if row.where]
    for tool in TOOLS:
        lines.append(f"\n| as in {tool} | here |\n|---|---|\n")
        lines += [_alias_row(alias) for alias in ALIASES if alias.tool == tool]
    return "".join(lines) + "\n"


def _alias_row(alias: Alias) -> str:
    path = alias.path if alias.listed else f"{alias.path.rpartition(' ')[0]} {_PLACEHOLDERS[alias.path]}"
    if isinstance(alias.means, str):
        here = f"`{f'{alias.means} {alias.first}'.strip()}`"
    else:
        kinds = {kind: " and ".join(f"`{line}`" for line in lines) for kind, lines in alias.means.items()}
        here = "; ".join(f"{kind}: {lines}" for kind, lines in kinds.items())
    return f"| `{path}` | {here.replace(' {}', '')} |\n"


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"\n## {name}\n```text\n{text}\n```\n"


if __name__ == "__main__":
    page = DOCS / "cli.md"
    page.write_text(cli_page(page.read_text()))
    (DOCS / "cli-help.md").write_text(help_page())
