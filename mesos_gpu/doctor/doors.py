"""The doors that are set up on this machine: whether each is of an installation that is there, and has an agent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mesos_gpu.doctor.facts import Door
from mesos_gpu.doors.common.agent import SETTINGS, Book, find_agent
from mesos_gpu.errors import MesosGpuError

PROGRAMS = {
    "nvidia-container-runtime-hook": "docker run --gpus",
    "nvidia-container-runtime": "docker run --runtime=nvidia",
    "nvidia-docker": "nvidia-docker run",
    "nvidia-docker-plugin": "volumes of nvidia-docker",
}
_FRESH = "the agent writes its CDI file anew whenever it starts: systemctl restart mesos-gpu-agent, or start it again"
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
                document = json.loads(text)
                words = document["devices"][0]["containerEdits"]["hooks"][0]["args"]
                yield _cdi(document, path, Path(words[0]), _after(words, "--agent"))
            except (ValueError, LookupError, TypeError):
                yield Door("CDI", str(path), "it is not a CDI file of GPUs")


def _door(gives: str, path: Path, python: Path, agent: str | None, settings: Path = SETTINGS) -> Door:
    if not os.access(python, os.X_OK):
        return Door(gives, str(path), f"it is of an installation that is gone ({python})")
    try:
        address = find_agent(agent, settings=settings)
        Book(address).leases()
    except MesosGpuError as error:
        return Door(gives, str(path), f"its agent gives no GPU: {error}")
    return Door(gives, str(path))


def _cdi(document: Mapping[str, Any], path: Path, python: Path, agent: str | None) -> Door:
    """Judge an agent's CDI file: as a door, and by what it says against what is so."""
    door = _door("CDI: podman run --device nvidia.com/gpu=0", path, python, agent)
    if door.problem:
        return door
    try:
        gpus = Book(find_agent(agent)).driver()["gpus"]
    except MesosGpuError as error:
        return replace(door, problem=f"its agent does not say which GPUs there are: {error}")
    return replace(door, problem=stale(document, [str(gpu["uuid"]) for gpu in gpus]), mend=_FRESH)


def stale(document: Mapping[str, Any], uuids: Sequence[str]) -> str:
    """Return in what a CDI file of an agent's GPUs is not so any more; empty when nothing is."""
    listed = {str(device["name"]) for device in document["devices"]}
    named = {name for name in listed if name.startswith(("GPU-", "MIG-"))}
    found = []
    if gone := sorted(named - set(uuids)):
        found.append(f"it has {', '.join(gone)}, which the agent does not have any more")
    if new := sorted(set(uuids) - named):
        found.append(f"it lacks {', '.join(new)}, which the agent has")
    edits = document.get("containerEdits") or {}
    sources = [str(mount["hostPath"]) for mount in edits.get("mounts") or ()]
    if missing := next((source for source in sources if not Path(source).exists()), None):
        found.append(f"it mounts {missing}, which is gone, as after a change of the driver")
    return "; ".join(found)


def _after(words: list[str], option: str) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8") if path.stat().st_size < 1 << 20 else ""
    except (OSError, ValueError):
        return ""
