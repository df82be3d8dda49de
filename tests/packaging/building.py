"""What ./run wheels and ./run deb do, for tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import places


def built(tool: str, dist: Path) -> None:
    """Run one of the modules in tools/ on this folder."""
    command = [sys.executable, "-m", f"tools.{tool}", dist]
    done = subprocess.run(command, cwd=places.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
