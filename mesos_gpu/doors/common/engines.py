"""Where engines keep a folder for each of their containers: what shows how long one exists."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

PODMAN_FORMAT = "{{.Store.GraphRoot}}/{{.Store.GraphDriverName}}-containers"
ASK_S = 10.0


def containers_folder(engine: str, command: Sequence[str] = ()) -> str | None:
    """Return the folder of `docker`'s or `podman`'s containers, None when the engine does not answer.

    `command` is how it is called, where that is not by its name.
    """
    words = [*(command or (engine,)), "info", "--format"]
    said = _ask([*words, PODMAN_FORMAT if engine == "podman" else "{{.DockerRootDir}}"])
    if said is None:
        return None
    folder = Path(said) if engine == "podman" else Path(said) / "containers"
    return str(folder) if folder.is_absolute() and folder.is_dir() else None


def _ask(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
