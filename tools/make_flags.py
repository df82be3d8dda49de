"""Writes docs/reference/flags.md from the programs' own flags: .venv/bin/python tools/make_flags.py"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.agent.flags import ISOLATORS_IGNORED
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.flags import CommandLine, Flag, InertFlag, flags_of
from mesos_gpu.mesos.security.tls_settings import OLD_PREFIX, PREFIX, TlsFlags

HEAD = """# Flags of the services

Each flag may also be given in the environment, as the prefix and its name in capitals: `MESOS_WORK_DIR=/srv/mesos`.
A value `file:///path` stands for the content of that file. Booleans are switched off by `--no-NAME`. All services take
`--ready_file=PATH`, written once they can be used, and `--max_log_size=10MB`: where standard error is a file, a new one
is begun when it is full, and four older ones are kept.
`MESOS_GPU_PURE_PYTHON=1` in the environment does without the compiled codec
([install.md](../start/install.md#the-compiled-codec)).
"""
AGENT_HEAD = """
## Flags of mesos-agent that mesos-gpu-agent knows and does not act on

So that an existing unit file's line can be kept. What only tunes, watches or logs is accepted, and named in the log at
start; what somebody relies on is refused, unless the value means "without".

| flag | accepted values | why |
|---|---|---|
"""
MASTER_HEAD = """
## Flags of mesos-master that mesos-gpu-master knows and does not act on

The same rule.

| flag | accepted values | why |
|---|---|---|
"""
MARATHON_HEAD = """
## Flags of Marathon that mesos-gpu-marathon knows and does not act on

The same rule. Those with any value are named on standard error at start.

| flag | accepted values | why |
|---|---|---|
"""
TLS_HEAD = f"""
## TLS of mesos-gpu-master, mesos-gpu-agent and mesos-gpu-marathon

Variables of the environment alone, as for every libprocess program: [tls.md](../do/tls.md). Where one is not set, its
name from before Mesos 1.0 is read (`{OLD_PREFIX}` in place of `{PREFIX}`). Marathon's are for its way to the master.

| variable | default | what it does |
|---|---|---|
"""


def flags_page() -> str:
    """Return the whole page."""
    programs = "".join(map(_section, (MASTER, AGENT, MARATHON)))
    return HEAD + programs + _tls() + _agent() + _master() + MARATHON_HEAD + "".join(_rows(MARATHON.inert))


def _agent() -> str:
    lines = [AGENT_HEAD, *_rows(AGENT.inert), "\nIsolators, of those in `--isolation`, that do nothing here: "]
    return "".join(lines) + ", ".join(f"`{name}` ({why})" for name, why in sorted(ISOLATORS_IGNORED.items())) + ".\n"


def _master() -> str:
    old = ", ".join(f"`--{name}` ({new})" for name, new in sorted(MASTER.old_names.items()))
    return "".join([MASTER_HEAD, *_rows(MASTER.inert), f"\nOlder names, taken for the newer ones: {old}.\n"])


def _rows(inert: Sequence[InertFlag]) -> Iterator[str]:
    for row in sorted(inert, key=lambda row: row.name):
        accepted = " or ".join(f"`{value}`" for value in row.accepted or ()) or "none"
        yield f"| `--{row.name}` | {'any' if row.accepted is None else accepted} | {row.why} |\n"


def _tls() -> str:
    lines = (f"| `{PREFIX}{flag.name.upper()}` | {_default(flag)} | {flag.help} |\n" for flag in flags_of(TlsFlags))
    return TLS_HEAD + "".join(lines)


def _section(line: CommandLine[Any]) -> str:
    lines = [f"\n## {line.program}\n\nEnvironment: `{line.prefix}*`.\n\n"]
    lines += ["| flag | default | what it does |\n|---|---|---|\n"]
    for flag in sorted(line.service_flags, key=lambda flag: flag.name):
        lines.append(f"| `--{flag.name}` | {_default(flag)} | {flag.help.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


def _default(flag: Flag) -> str:
    return "" if flag.default is None else f"`{flag.default_text}`".replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "reference" / "flags.md").write_text(flags_page())
