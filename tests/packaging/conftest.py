"""What is built once for the tests of this room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import places


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `./run wheels` makes, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    built("make_wheels", folder)
    return folder


def built(tool: str, dist: Path) -> None:
    """Run one of the modules in tools/ on this folder."""
    command = [sys.executable, "-m", f"tools.{tool}", dist]
    done = subprocess.run(command, cwd=places.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
