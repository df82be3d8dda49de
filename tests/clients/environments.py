"""Throw-away environments in which other people's Mesos clients run, each with what it needs and nothing of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HTTP_PARSER = Path(__file__).parent.parent.parent / "compat" / "http-parser"
PROGRAMS = Path(__file__).parent / "programs"


class Environment:
    """A virtual environment under `folder`. An install that fails fails the test, in pip's words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
        self.python = str(folder / "bin" / "python")

    def install(self, *wanted: str) -> None:
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *wanted], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{wanted}: {done.stderr}"

    def run(self, program: str, *words: str) -> str:
        """Run one of the programs beside this file to its end; return what it printed."""
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROGRAMS / "stand_ins")}
        done = subprocess.run(
            [self.python, str(PROGRAMS / program), *words],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout
