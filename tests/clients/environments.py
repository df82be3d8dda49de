"""Throw-away environments in which other people's Mesos clients run, each with what it needs and nothing of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import places
from tests.support.saying import says

HTTP_PARSER = places.ROOT / "compat" / "http-parser"
PROGRAMS = Path(__file__).parent / "programs"


class Environment:
    """A virtual environment under `folder`. An install that fails fails the test, in pip's words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
        self.python = str(folder / "bin" / "python")
        self._installs: list[tuple[str, subprocess.Popen[str]]] = []

    def begin(self, *words: str) -> None:
        """Begin to install; several may go on at once, as long as none installs what another does."""
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--disable-pip-version-check"]
        # What is run once or twice is not worth compiling.
        command = [*pip, "--no-compile", *words]
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._installs.append((" ".join(words), started))

    def finish(self) -> None:
        """Wait until all is installed."""
        while self._installs:
            words, process = self._installs.pop()
            with process:
                said, _ = process.communicate()
            assert process.returncode == 0, f"{words}: {said}"

    def close(self) -> None:
        """End installs that nobody waited for."""
        for _, process in self._installs:
            with process:
                process.kill()

    def run(self, program: str, *words: str) -> str:
        """Run one of the programs beside this file to its end; return what it printed."""
        stand_ins = f"{PROGRAMS / 'stand_ins'}:{HTTP_PARSER}"
        return says([self.python, str(PROGRAMS / program), *words], Path("/"), {"PYTHONPATH": stand_ins})
