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
    built(places.ROOT / "tools" / "make_wheels.py", folder)
    return folder


def built(tool: Path, dist: Path) -> None:
    done = subprocess.run([sys.executable, tool, dist], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
