"""Compiles native/ for this Python: .venv/bin/python tools/make_codec.py [FOLDER | --check]

--check compiles it into nothing, and asks gcc's analyzer as well. Else it goes into this environment if no folder is
named; a second or two. Without pip, which would fetch what it builds wheels with.
Where there is no C compiler, or no header of this Python's, it says so and nothing is lost but speed. What it builds is
for any Python from 3.10 on (PEP 384), on this kind of machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "native"
NAME = "mesos_gpu_codec.abi3.so"


def lacking() -> str | None:
    """Return what this machine lacks to compile it, or None."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which("cc") is None:
        return "no C compiler (cc) is here"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python is one without a global lock, which has no stable ABI"
    return None if header.exists() else f"{header} is not here"


def compile_codec(folder: Path, flags: Sequence[str] = ()) -> Path:
    """Compile it into a folder, with further flags; return its path. Raises CalledProcessError, with cc's words.

    A warning is an error. What is there is replaced at once, so that a program that has it loaded keeps what it has.
    """
    made, unfinished = folder / NAME, folder / f".{NAME}.{os.getpid()}"
    command = ["cc", *(NATIVE / "flags.txt").read_text().split(), "-Werror", *flags, "-shared", "-fPIC"]
    command += ["-Wl,-z,relro,-z,now", f"-I{sysconfig.get_path('include')}", "-o", str(unfinished)]
    try:
        subprocess.run(
            [*command, *sorted(map(str, (NATIVE / "src").glob("*.c")))], check=True, capture_output=True, text=True
        )
        unfinished.replace(made)
    finally:
        unfinished.unlink(missing_ok=True)
    return made


def check() -> int:
    """Compile it, and tell what compiler and analyzer have to say; return whether they have."""
    why = lacking()
    if why is not None:
        print(f"make_codec: not checked: {why}", file=sys.stderr)
        return False
    analyzer = ["-fanalyzer"] if "Free Software Foundation" in _said("cc", "--version") else []  # gcc
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile_codec(Path(folder), analyzer)
        except subprocess.CalledProcessError as error:
            print(error.stderr, file=sys.stderr)
            return True
    return False


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(folder: str = sysconfig.get_path("platlib")) -> int:
    """Compile it, or say why not."""
    if folder == "--check":
        return check()
    why = lacking()
    if why is None:
        try:
            compile_codec(Path(folder))
        except subprocess.CalledProcessError as error:
            why = f"cc says {error.stderr.strip()}"
    if why is not None:
        # What an older tree left there may not fit this one.
        (Path(folder) / NAME).unlink(missing_ok=True)
        print(f"make_codec: messages are read and written by Python alone: {why}", file=sys.stderr)
    return why is not None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
