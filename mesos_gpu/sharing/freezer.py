"""Freezing and thawing a container by one file of its cgroup, version 1 (`freezer.state`) or 2 (`cgroup.freeze`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from mesos_gpu.base.files import write_whole

FROZEN = "frozen.json"
"""The record's name in the folder of an agent's turns."""
_WORDS = {"freezer.state": ("FROZEN", "THAWED"), "cgroup.freeze": ("1", "0")}


def freeze(file: str) -> bool:
    """Freeze what is in the cgroup of this file; return whether the kernel took it. One that is gone is no error."""
    return _write(file, 0)


def thaw(file: str) -> bool:
    """Thaw it; return whether the kernel took it."""
    return _write(file, 1)


def is_frozen(file: str) -> bool:
    """Return whether it is frozen, or about to be; a cgroup that is gone is not."""
    try:
        text = Path(file).read_text().strip()
    except OSError:
        return False
    return text in ("1", "FROZEN", "FREEZING")


class FrozenRecord:
    """On disk, which files may say frozen: written before the first of them does, for whoever has to thaw them all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: frozenset[str] = frozenset()

    def note(self, files: Iterable[str]) -> None:
        """Have exactly these on record. Raises OSError."""
        wanted = frozenset(files)
        if wanted == self._known and self._path.exists():
            return
        # Not durable: cgroups end with the machine.
        write_whole(self._path, json.dumps(sorted(wanted)).encode(), durable=False, folder_mode=0o700)
        self._known = wanted

    def thaw_all(self) -> list[str]:
        """Thaw what is on record; return what was frozen."""
        try:
            files = [str(file) for file in json.loads(self._path.read_text())]
        except (OSError, ValueError):
            return []
        frozen = [file for file in files if is_frozen(file)]
        for file in files:
            thaw(file)
        return frozen


def _write(file: str, word: int) -> bool:
    try:
        descriptor = os.open(file, os.O_WRONLY)
        try:
            os.write(descriptor, _WORDS[file.rpartition("/")[2]][word].encode())
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return True
