"""Calls that fail on demand in a running service: a full disk, a read-only one, one that is broken; a wrong clock."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
SIZE = 128


class Faults:
    """A library to preload, and what it obeys."""

    def __init__(self, folder: Path) -> None:
        self.library, self._file = folder / "faults.so", folder / "faults"
        compiler = shutil.which("cc") or "cc"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self.library, SOURCE, "-ldl"], check=True)
        self._file.write_bytes(bytes(SIZE))
        with self._file.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), SIZE)

    @property
    def environment(self) -> dict[str, str]:
        """Return what a program is started with."""
        return {"LD_PRELOAD": str(self.library), "FAULTS_FILE": str(self._file)}

    def fail(self, victim: str, number: int, one_in: int = 1) -> None:
        """Let calls of programs with this word in their command line fail with an errno, one in so many."""
        self._control[:SIZE] = struct.pack("iii116s", 0, one_in, 0, victim.encode())
        self._control[:4] = struct.pack("i", number)

    def shift(self, victim: str, seconds: int) -> None:
        """Let the clock of programs with this word in their command line go wrong by so many seconds."""
        self._control[:SIZE] = struct.pack("iii116s", 0, 1, 0, victim.encode())
        self._control[8:12] = struct.pack("i", seconds)

    def heal(self) -> None:
        """Let all be well."""
        self._control[:12] = struct.pack("iii", 0, 1, 0)
