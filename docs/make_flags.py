"""Writes docs/flags.md from the programs' own flags: .venv/bin/python docs/make_flags.py"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.agent.flags import FLAGS as AGENT
from mesos_gpu.marathon.configuration import FLAGS as MARATHON
from mesos_gpu.master.flags import FLAGS as MASTER
from mesos_gpu.mesos.flags import Flag, default_text

HEAD = """# Flags of the services

Each flag may also be given in the environment, as the prefix and its name in capitals: `MESOS_WORK_DIR=/srv/mesos`.
A value `file:///path` stands for the content of that file. Booleans are switched off by `--no-NAME`.
"""
PROGRAMS = (("mesos-gpu-master", "MESOS_", MASTER), ("mesos-gpu-agent", "MESOS_", AGENT))
PROGRAMS += (("mesos-gpu-marathon", "MARATHON_", MARATHON),)


def flags_page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_section(name, prefix, flags) for name, prefix, flags in PROGRAMS)


def _section(name: str, prefix: str, flags: Sequence[Flag]) -> str:
    lines = [f"\n## {name}\n\nEnvironment: `{prefix}*`.\n\n| flag | default | what it does |\n|---|---|---|\n"]
    for flag in sorted(flags, key=lambda flag: flag.name):
        default = "" if flag.default is None else f"`{default_text(flag)}`".replace("|", "\\|")
        lines.append(f"| `--{flag.name}` | {default} | {flag.help.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


if __name__ == "__main__":
    (Path(__file__).parent / "flags.md").write_text(flags_page())
