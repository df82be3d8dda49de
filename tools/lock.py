"""Writes requirements.lock and requirements-dev.lock: every package at one version, with its hashes, for all Pythons.

    .venv/bin/python tools/lock.py            writes them anew, with the newest versions that setup.py allows
    .venv/bin/python tools/lock.py --keep     changes only what setup.py has made necessary

requirements.lock has what the services need, requirements-dev.lock also what checks and tests need. uv works them out,
for all Pythons at once (PEP 508 markers); it is installed aside for that. They hold no address of a registry.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = "uv>=0.8"
LOCKS = {
    "requirements.lock": ("3.10", "REQUIRES"),
    "requirements-dev.lock": ("3.10", "REQUIRES", "KUBERNETES", "FUSE", "PLOTS", "DEV", "BUILD"),
}
"""The oldest Python of each, and what is in it."""
BUILD = ("setuptools>=64", "wheel", "pip>=24")
"""What builds the packages that come as sources, our own among them."""
OWN = "http-parser"
"""Of compat/, which is installed from here and needs what its pyproject.toml says."""


def declared(name: str) -> list[str]:
    """Return a list of requirements of setup.py."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"setup.py has no list {name}")


def wanted(names: Sequence[str]) -> list[str]:
    """Return all requirements of a lock file."""
    compat = (ROOT / "compat" / "http-parser" / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = (\[.*?\])", compat, re.M | re.S)
    found = [one for name in names for one in (BUILD if name == "BUILD" else declared(name))]
    return [*found, *ast.literal_eval(listed)]


def compiled(uv: Path, requirements: list[str], oldest: str, folder: Path, kept: Path | None) -> str:
    """Return the lines of a lock file. Raises CalledProcessError with uv's words on standard error."""
    source, without, result = folder / "wanted.in", folder / "without.in", folder / "lock"
    source.write_text("\n".join(requirements) + "\n")
    without.write_text(f'{OWN}; python_version < "3"\n')
    result.write_text("" if kept is None or not kept.exists() else kept.read_text())
    command = [
        *(str(uv), "pip", "compile", "--quiet", "--universal", f"--python-version={oldest}", "--generate-hashes"),
        *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
        *(f"--override={without}", f"--output-file={result}", str(source)),
    ]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return result.read_text()


def main(argv: list[str]) -> int:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep versions that still fit")
    keep = parser.parse_args(argv).keep
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "uv"], check=True)
        subprocess.run([folder / "uv/bin/pip", "install", "-q", UV], check=True, stderr=subprocess.DEVNULL)
        for lock, (oldest, *names) in LOCKS.items():
            first = f"# Written by tools/lock.py from setup.py ({' and '.join(names).lower()}); do not edit.\n"
            text = compiled(folder / "uv/bin/uv", wanted(names), oldest, folder, ROOT / lock if keep else None)
            (ROOT / lock).write_text(first + text)
            print(f"{lock}: {len(re.findall('^[a-z0-9]', text, re.M))} packages")
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
