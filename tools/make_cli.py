"""Writes docs/reference/cli.md's table of commands and cli-help.md beside it: .venv/bin/python tools/make_cli.py"""

from __future__ import annotations

from pathlib import Path

import click

from marathon_cli.lazy import load
from marathon_cli.main import PROGRAM, cli
from marathon_cli.registry import DCOS, ROWS, Row

DOCS = Path(__file__).parents[1] / "docs" / "reference"
BEGIN, END = "<!-- commands -->\n", "<!-- end of commands -->\n"
_WIDTH = 100
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
    lines.append("\nAs in DC/OS: ")
    lines.append(
        "; ".join(f"`{name} {word}` is `{path}`" for name, held in DCOS.items() for word, path in held.items())
    )
    return "".join(lines) + ".\n\n"


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"\n## {name}\n```text\n{text}\n```\n"


if __name__ == "__main__":
    page = DOCS / "cli.md"
    page.write_text(cli_page(page.read_text()))
    (DOCS / "cli-help.md").write_text(help_page())
