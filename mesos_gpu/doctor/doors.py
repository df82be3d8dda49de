"""The doors that are set up on this machine: whether each is of an installation that is there, and has an agent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from mesos_gpu.doctor.facts import Door
from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.errors import MesosGpuError

PROGRAMS = {
    "nvidia-container-runtime-hook": "docker run --gpus",
    "nvidia-container-runtime": "docker run --runtime=nvidia",
    "nvidia-docker": "nvidia-docker run",
    "nvidia-docker-plugin": "volumes of nvidia-docker",
}
_AGENT, _SETTINGS = re.compile(r"agent='([^']*)'"), re.compile(r"settings='([^']*)'")


def find_doors(root: Path = Path("/")) -> Iterator[Door]:
    """Yield every door that is set up: programs of ours under others' names, and the CDI file of an agent."""
    folders = [*os.environ.get("PATH", "").split(":"), "/usr/local/bin"]
    for name, gives in PROGRAMS.items():
        for folder in dict.fromkeys(folders):
            path = root / folder.lstrip("/") / name
            text = _text(path)
            if "from mesos_gpu.doors." in text:
                python = Path(text.partition("\n")[0].removeprefix("#!").partition(" ")[0])
                agent, settings = _AGENT.search(text), _SETTINGS.search(text)
                where = SETTINGS if settings is None else Path(settings[1])
                yield _door(gives, path, python, None if agent is None else agent[1], where)
                break
    for folder in ("etc/cdi", "var/run/cdi"):
        path = root / folder / "mesos-gpu.json"
        if text := _text(path):
            try:
                words = json.loads(text)["devices"][0]["containerEdits"]["hooks"][0]["args"]
                yield _door("CDI: podman run --device nvidia.com/gpu=0", path, Path(words[0]), _after(words, "--agent"))
            except (ValueError, LookupError, TypeError):
                yield Door("CDI", str(path), "it is no CDI file of GPUs")


def _door(gives: str, path: Path, python: Path, agent: str | None, settings: Path = SETTINGS) -> Door:
    if not os.access(python, os.X_OK):
        return Door(gives, str(path), f"it is of an installation that is gone ({python})")
    try:
        address = find_agent(agent, settings=settings)
        Book(address).leases()
    except MesosGpuError as error:
        return Door(gives, str(path), f"its agent gives no GPU: {error}")
    return Door(gives, str(path))


def _after(words: list[str], option: str) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8") if path.stat().st_size < 1 << 20 else ""
    except (OSError, ValueError):
        return ""
