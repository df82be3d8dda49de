"""Runs a benchmark as a program of its own, and returns the figures that it kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kept.figures import FILE_VARIABLE, Figure, read_figures
from benchmarks.kept.machine import ROOT


class BenchFailed(Exception):
    """A benchmark could not be run, or kept no figure."""


def run(bench: str, arguments: Sequence[str], *, quiet: bool = False) -> list[Figure]:
    """Run benchmarks/NAME.py with these arguments; `quiet`: what it prints is shown only when it fails.

    Raises BenchFailed.
    """
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-figures-") as folder:
        file = Path(folder) / "figures"
        file.touch()
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{bench}", *arguments],
            cwd=ROOT,
            env={**os.environ, FILE_VARIABLE: str(file)},
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            check=False,
        )
        figures = read_figures(file.read_text())
    # Some end with 1 where an aim is missed; their figures are figures.
    if not figures:
        raise BenchFailed(f"{bench} ended with {done.returncode} and kept no figure\n{done.stdout or ''}".strip())
    return figures
