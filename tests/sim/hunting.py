"""Defects that were real, or could be, put back one at a time into a copy of the tree: the simulator must see them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COPIED = ("mesos_gpu", "marathon_cli", "schemas", "tests")


@dataclass(frozen=True)
class Found:
    """What came of one: whether histories showed it, after how many, and what they said first."""

    name: str
    found: bool
    histories: int
    said: str


def patches() -> list[Path]:
    """Return all of them."""
    return sorted((HERE / "planted").glob("*.patch"))


def planted(patch: Path, folder: Path) -> Path:
    """Return a copy of the tree, below an empty folder, with this defect. Raises CalledProcessError."""
    tree = folder / patch.stem
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    subprocess.run(["git", "apply", "--whitespace=nowarn", str(patch)], cwd=tree, check=True, capture_output=True)
    return tree


def hunt(patch: Path, folder: Path, *, minutes: float, seed: int = 1, hours: float = 1.0) -> Found:
    """Play histories with this defect until one shows it, or the time is over."""
    tree = planted(patch, folder)
    words = ["--minutes", str(minutes), "--seed", str(seed), "--hours", str(hours), "--first"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHASHSEED", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.search(r"^  - (.*)", done.stdout, re.MULTILINE)
    played = len(re.findall(r"^seed \d+: ", done.stdout, re.MULTILINE))
    shutil.rmtree(tree)
    return Found(patch.stem, done.returncode == 1 and said is not None, played, said[1] if said else done.stderr[-500:])
