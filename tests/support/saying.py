"""Other people's programs that are run to their end for what they print."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def says(command: Sequence[str], folder: Path, variables: Mapping[str, str], answers: str = "") -> str:
    """Run a program in a folder, with these variables and no others, to its end, which is a good one.

    `answers` is what it is told where it asks. Returns what it printed.
    """
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], **variables},
        cwd=folder,
        input=answers,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{command[1:]}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
