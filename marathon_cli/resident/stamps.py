"""Whether what a process has read of the program is still what lies on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType

Stamp = tuple[int, int, int]


class Stamps:
    """The files of modules, and the folders that modules are found in, as they were."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._were = {path: _stamp(path) for path in paths}

    @classmethod
    def now(cls, modules: Mapping[str, ModuleType], more: Iterable[str] = ()) -> Stamps:
        """Return those of all modules that have a file, of sys.path's folders, and of `more` files."""
        files = {str(file) for module in list(modules.values()) if (file := getattr(module, "__file__", None))}
        return cls([*files, *(folder for folder in sys.path if folder), sys.executable, *more])

    def changed(self) -> bool:
        """Whether one of them is another now, or gone."""
        return any(_stamp(path) != stamp for path, stamp in self._were.items())


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
