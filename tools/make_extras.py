"""Writes the man pages and the shells' completions into packaging/: .venv/bin/python tools/make_extras.py

They are made from the programs themselves, before a wheel or a package is built, and are not kept in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from marathon_cli.completion import SHELLS, script
from marathon_cli.lazy import load
from marathon_cli.main import PROGRAM, cli
from marathon_cli.registry import ROWS
from mesos_gpu import __version__
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import BOOLEAN, CommandLine

PACKAGING = Path(__file__).resolve().parents[1] / "packaging"
SERVICES = (
    ("master", MASTER, "Mesos master that offers whole GPUs to those who ask for them"),
    ("agent", AGENT, "Mesos agent that hands out whole GPUs"),
    ("marathon", MARATHON, "Marathon-compatible scheduler that runs apps on GPUs"),
)
COMPLETIONS = {"bash": "mesos-gpu.bash", "zsh": "_mesos-gpu", "fish": "mesos-gpu.fish"}
_WIDTH = 78


def main() -> None:
    """Write them all."""
    man, completions = PACKAGING / "man", PACKAGING / "completions"
    man.mkdir(exist_ok=True)
    completions.mkdir(exist_ok=True)
    (man / f"{PROGRAM}.1").write_text(command_page())
    for name, line, what in SERVICES:
        (man / f"{PROGRAM}-{name}.8").write_text(service_page(name, line, what))
    for shell in SHELLS:
        (completions / COMPLETIONS[shell]).write_text(script(cli, shell, PROGRAM) + "\n")


def command_page() -> str:
    """Return mesos-gpu(1): what each command says of itself."""
    lines = [*_head(PROGRAM, 1, "GPUs on Apache Mesos and Marathon"), ".SH SYNOPSIS", f".B {PROGRAM}"]
    lines += [".I COMMAND", "[options]", ".SH DESCRIPTION", *_verbatim(_help(PROGRAM, cli)), ".SH COMMANDS"]
    for row in ROWS:
        if row.where:
            lines += [f'.SS "{PROGRAM} {row.path}"', *_verbatim(_help(f"{PROGRAM} {row.path}", load(row)))]
    services = ", ".join(f"\\fB{PROGRAM}-{name}\\fR(8)" for name, *_ in SERVICES)
    return "\n".join([*lines, ".SH SEE ALSO", services, ""])


def service_page(name: str, line: CommandLine[Any], what: str) -> str:
    """Return the page of one service: its flags."""
    program = f"{PROGRAM}-{name}"
    lines = [*_head(program, 8, what), ".SH SYNOPSIS", f".B {program}", "[\\-\\-flag=value ...]", ".SH DESCRIPTION"]
    lines += [
        _escaped(f"Each flag may also be given as {line.prefix}<NAME> in the environment."),
        _escaped(f"As a service of systemd it reads them from /etc/mesos-gpu/{name}.conf."),
        ".SH OPTIONS",
    ]
    for flag in sorted(line.service_flags, key=lambda flag: flag.name):
        shown = f"--[no-]{flag.name}" if flag.kind is BOOLEAN else f"--{flag.name}=VALUE"
        default = "" if flag.default is None else f" (default: {flag.default_text})"
        lines += [".TP", f".B {_escaped(shown)}", _escaped(flag.help + default)]
    return "\n".join([*lines, ".SH SEE ALSO", f"\\fB{PROGRAM}\\fR(1)", ""])


def _head(name: str, section: int, what: str) -> list[str]:
    return [f'.TH {name.upper()} {section} "" "mesos-gpu {__version__}"', ".SH NAME", f"{name} \\- {what}"]


def _help(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    return command.get_help(context)


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_escaped(line.rstrip()) for line in text.splitlines()), ".fi"]


def _escaped(text: str) -> str:
    """Return text that groff prints as it is: man(7), roff(7)."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


if __name__ == "__main__":
    main()
