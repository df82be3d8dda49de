"""Python 2.7, where this machine has one, and packages for it: what drivers of the v0 API were written for."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.genuine.releases import CACHE, Missing

PROGRAMS = Path(__file__).parent / "python2"
PESOS = ("pesos==0.2.2", "protobuf==3.1.0", "six==1.17.0")
"""Independent of libmesos: scheduler and executor drivers in Python. Its classes need a protobuf that is old enough."""


def interface(version: str) -> tuple[str, ...]:
    """Return what the native driver of a release of Mesos needs."""
    return (f"mesos.interface=={version}", "protobuf==3.17.3", "six==1.17.0")


@cache
def python2() -> str:
    """Return a Python 2.7 with pip. Raises Missing."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which("python2.7"), *map(str, sorted(root.glob("versions/2.7*/bin/python2.7")))]
    for program in filter(None, found):
        if subprocess.run([program, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return program
    raise Missing("needs Python 2.7 with pip: drivers of the v0 API for Python are of its time")


def installed(*packages: str) -> Path:
    """Return a folder with these packages, to be put on PYTHONPATH; kept for next time. Raises Missing."""
    program = python2()
    folder = CACHE / f"python2-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as new:
                # Resolvers of that pip only warn where packages do not fit each other; which do was tried.
                words = [
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--target",
                    f"{new}/packages",
                ]
                done = subprocess.run([program, *words, *packages], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Missing(f"pip cannot install {' '.join(packages)}: {done.stderr.strip().splitlines()[-1]}")
                for name in ("mesos", "google", "twitter", "twitter/common"):  # namespace packages, which need a .pth
                    inside = Path(new, "packages", name)
                    if inside.is_dir():
                        (inside / "__init__.py").touch()
                Path(new, "packages").rename(folder)
    return folder
