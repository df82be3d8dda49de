"""Flags of a program as they stand in a shell, an environment file, or a unit of systemd. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

Flags = Mapping[str, "str | bool"]

_KILL_MODE = """\
# A stop of the agent leaves its containers running; the next start takes them up again.
KillMode=process
Delegate=true
"""


def words(flags: Flags) -> list[str]:
    """Return the flags as words of a command line."""
    shown = []
    for name, value in flags.items():
        if isinstance(value, bool):
            shown.append(f"--{name}" if value else f"--no-{name}")
        else:
            shown.append(f"--{name}={value}")
    return shown


def marathon_words(flags: Flags) -> list[str]:
    """Return the flags as Marathon of Mesosphere reads them: values stand as words of their own."""
    shown: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            shown.append(f"--{name}" if value else f"--disable_{name}")
        else:
            shown += [f"--{name}", value]
    return shown


def shell(program: str, arguments: list[str]) -> str:
    """Return a command for a POSIX shell, a flag on each line."""
    lines = [program]
    for word in arguments:
        if word.startswith("--") or not lines:
            lines.append(f"  {shlex.quote(word)}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines) + "\n"


def environment(prefix: str, flags: Flags) -> str:
    """Return lines for a file of variables, as /etc/default has them."""
    lines = []
    for name, value in flags.items():
        text = str(value).lower() if isinstance(value, bool) else value
        lines.append(f"{prefix}{name.upper()}={shlex.quote(text)}\n")
    return "".join(lines)


def unit(program: str, path: str, arguments: list[str], *, keeps_containers: bool) -> str:
    """Return a service unit of systemd. `path` is the program's, which must be absolute there.

    Source: systemd.service(5), "Command lines", and systemd.syntax(7), "Quoting".
    """
    command = " \\\n  ".join([path, *_joined(arguments)])
    return (
        f"[Unit]\nDescription={program}\nAfter=network-online.target\nWants=network-online.target\n\n"
        f"[Service]\nExecStart={command}\nRestart=always\nRestartSec=5\n{_KILL_MODE if keeps_containers else ''}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _joined(arguments: list[str]) -> list[str]:
    """Return one line for each flag, its value beside it."""
    lines: list[str] = []
    for word in arguments:
        if word.startswith("--") or not lines:
            lines.append(_systemd_quoted(word))
        else:
            lines[-1] += f" {_systemd_quoted(word)}"
    return lines


def _systemd_quoted(word: str) -> str:
    text = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./|{}$()-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
