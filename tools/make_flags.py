"""Writes docs/reference/flags.md from the programs' own flags: .venv/bin/python tools/make_flags.py"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mesos_gpu.agent.flags import FLAGS as AGENT
from mesos_gpu.agent.mesos_flags import FOREIGN, ISOLATORS_IGNORED
from mesos_gpu.marathon.flags import FLAGS as MARATHON
from mesos_gpu.marathon.marathon_flags import FOREIGN as MARATHON_FOREIGN
from mesos_gpu.master.flags import FLAGS as MASTER
from mesos_gpu.master.mesos_flags import FOREIGN as MASTER_FOREIGN
from mesos_gpu.master.mesos_flags import OLD_NAMES as MASTER_OLD_NAMES
from mesos_gpu.mesos.flags import Flag, default_text
from mesos_gpu.mesos.foreign import Foreign
from mesos_gpu.mesos.security.tls_settings import FLAGS as TLS
from mesos_gpu.mesos.security.tls_settings import OLD_PREFIX, PREFIX

HEAD = """# Flags of the services

Each flag may also be given in the environment, as the prefix and its name in capitals: `MESOS_WORK_DIR=/srv/mesos`.
A value `file:///path` stands for the content of that file. Booleans are switched off by `--no-NAME`. All services take
`--ready_file=PATH`, written once they can be used, and `--max_log_size=10MB`: where standard error is a file, a new one
is begun when it is full, and four older ones are kept.
`MESOS_GPU_PURE_PYTHON=1` in the environment does without the compiled codec
([install.md](../start/install.md#the-compiled-codec)).
"""
FOREIGN_HEAD = """
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
PROGRAMS = (("mesos-gpu-master", "MESOS_", MASTER), ("mesos-gpu-agent", "MESOS_", AGENT))
PROGRAMS += (("mesos-gpu-marathon", "MARATHON_", MARATHON),)


def flags_page() -> str:
    """Return the whole page."""
    programs = "".join(_section(name, prefix, flags) for name, prefix, flags in PROGRAMS)
    return HEAD + programs + _tls() + _foreign() + _master() + _marathon()


def _foreign() -> str:
    lines = [FOREIGN_HEAD, *_rows(FOREIGN, AGENT), "\nIsolators, of those in `--isolation`, that do nothing here: "]
    return "".join(lines) + ", ".join(f"`{name}` ({why})" for name, why in sorted(ISOLATORS_IGNORED.items())) + ".\n"


def _master() -> str:
    old = ", ".join(f"`--{name}` ({new})" for name, new in sorted(MASTER_OLD_NAMES.items()))
    return "".join([MASTER_HEAD, *_rows(MASTER_FOREIGN, MASTER), f"\nOlder names, taken for the newer ones: {old}.\n"])


def _rows(foreign: Sequence[Foreign], own: Sequence[Flag]) -> Iterator[str]:
    names = {flag.name for flag in own}
    for row in sorted((row for row in foreign if row.name not in names), key=lambda row: row.name):
        accepted = " or ".join(f"`{value}`" for value in row.without or ()) or "none"
        yield f"| `--{row.name}` | {'any' if row.without is None else accepted} | {row.why} |\n"


def _tls() -> str:
    defaults = {flag.name: "" if flag.default is None else f"`{default_text(flag)}`" for flag in TLS}
    lines = (f"| `{PREFIX}{flag.name.upper()}` | {defaults[flag.name]} | {flag.help} |\n" for flag in TLS)
    return TLS_HEAD + "".join(lines)


def _marathon() -> str:
    lines = [MARATHON_HEAD]
    for row in sorted(MARATHON_FOREIGN, key=lambda row: row.name):
        accepted = " or ".join(f"`{value}`" for value in row.accepted or ()) or "none"
        lines.append(f"| `--{row.name}` | {'any' if row.accepted is None else accepted} | {row.why} |\n")
    return "".join(lines)


def _section(name: str, prefix: str, flags: Sequence[Flag]) -> str:
    lines = [f"\n## {name}\n\nEnvironment: `{prefix}*`.\n\n| flag | default | what it does |\n|---|---|---|\n"]
    for flag in sorted(flags, key=lambda flag: flag.name):
        default = "" if flag.default is None else f"`{default_text(flag)}`".replace("|", "\\|")
        lines.append(f"| `--{flag.name}` | {default} | {flag.help.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "reference" / "flags.md").write_text(flags_page())
