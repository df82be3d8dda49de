"""The Pythons of this machine that the project supports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def pythons() -> dict[str, str]:
    """Return a Python of each supported version that is here, this one included: version to path."""
    return {version: path for version in VERSIONS if (path := _python(version))}


def _python(version: str) -> str | None:
    if version == "{}.{}".format(*sys.version_info[:2]):
        return sys.executable
    kept = Path.home() / ".pyenv" / "versions"
    candidates = [shutil.which(f"python{version}"), *(str(path) for path in kept.glob(f"{version}.*/bin/python3"))]
    for path in candidates:
        if path is not None and _is(path, version):
            return path
    return None


def _is(path: str, version: str) -> bool:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-c", program], capture_output=True, text=True)
    except OSError:
        return False
    return done.stdout.strip() == version
