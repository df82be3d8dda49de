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


def committed(tree: Path) -> Path:
    """Make a repository of a folder, with one commit."""
    git = ["git", "-C", tree, "-c", "user.name=Test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *words], check=True)
    return tree
