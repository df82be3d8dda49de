"""Where figures are taken: the machine, its load, the day and the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load() -> float:
    """Return how many processes wanted a processor in the last minute."""
    return round(os.getloadavg()[0], 1)


def today() -> str:
    """Return the date, in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


def commit() -> str:
    """Return the commit of the tree, with `+` where files differ from it; empty where there is no git."""
    described = _said("git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD")
    changed = _said("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return described + "+" if described and changed else described


def facts() -> dict[str, Any]:
    """Return what figures depend on, and nothing that names this machine."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE)
    crun = re.search(r"version (\S+)", _said("crun", "--version"))
    return {
        "processors": os.cpu_count(),
        "cpu": cpu[1] if cpu else platform.machine(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "system": system[1] if system else platform.system(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "cgroups": cgroups(),
        "python": platform.python_version(),
        "crun": crun[1] if crun else None,
    }


def cgroups() -> str:
    """Return which cgroups this machine has: v1, v2 or hybrid."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "v2"
    return "hybrid" if Path("/sys/fs/cgroup/unified").exists() else "v1"


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
