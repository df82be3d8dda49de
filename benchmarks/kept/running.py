"""Runs a benchmark as a program of its own, and returns the figures that it kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kept.figures import FILE_VARIABLE, Figure, read_figures
from benchmarks.kept.machine import ROOT

_ENDS_WITHIN_S = 60.0


class BenchFailed(Exception):
    """A benchmark could not be run, or kept no figure."""


class BenchCut(KeyboardInterrupt):
    """Somebody ended a benchmark before it was done; `figures` are those that it had kept by then."""

    def __init__(self, bench: str, figures: Sequence[Figure]) -> None:
        super().__init__(f"{bench} was ended before it was done")
        self.figures = figures


def run(bench: str, arguments: Sequence[str], *, quiet: bool = False) -> list[Figure]:
    """Run benchmarks/NAME.py with these arguments; `quiet`: what it prints is shown only when it fails.

    Raises BenchFailed, and BenchCut where a KeyboardInterrupt comes: it and its own programs are interrupted, too.
    """
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-figures-") as folder:
        file = Path(folder) / "figures"
        file.touch()
        with subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{bench}", *arguments],
            cwd=ROOT,
            env={**os.environ, FILE_VARIABLE: str(file)},
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate()
            except KeyboardInterrupt:
                _interrupt(process)
                raise BenchCut(bench, read_figures(file.read_text())) from None
        figures = read_figures(file.read_text())
    # Some end with 1 where an aim is missed; their figures are figures.
    if not figures:
        raise BenchFailed(f"{bench} ended with {process.returncode} and kept no figure\n{said or ''}".strip())
    return figures


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End a benchmark as Ctrl-C does, so that it clears up after itself; what does not end in time is killed."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
