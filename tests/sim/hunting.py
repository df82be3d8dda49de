"""Defects that were real, or could be, put back one at a time into a copy of the tree: the simulator must see them."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sim.folders import end_with_parent

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
APPLY = ("git", "apply", "-C1", "--whitespace=nowarn")
"""One line around a change is enough to know the place by: what is near it may change."""
SAID = "Said: "
"""How the second line of a patch begins that says what history must show it."""
COPIED = ("mesos_gpu", "marathon_cli", "tests")


@dataclass(frozen=True)
class Found:
    """What came of one: whether histories showed it, after how many, which seed did, and what that said first."""

    name: str
    found: bool
    histories: int
    seed: int | None
    processor_s: float
    said: str


def patches() -> list[Path]:
    """Return all of them."""
    return sorted((HERE / "planted").glob("*.patch"))


def said_of(patch: Path) -> str:
    """Return what a history must say that shows a defect: of one behind another, what that one does not show."""
    second = patch.read_text().splitlines()[1]
    return second.removeprefix(SAID) if second.startswith(SAID) else ""


def planted(patch: Path, folder: Path) -> Path:
    """Return a copy of the tree, below an empty folder, with this defect. Raises CalledProcessError."""
    tree = folder / patch.stem
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run([*APPLY, str(patch)], cwd=tree, check=True, capture_output=True)
    return tree


def hunt(
    patch: Path, folder: Path, *, minutes: float, seed: int = 1, hours: float = 1.0, words: Sequence[str] = ()
) -> Found:
    """Play histories with this defect until one shows it, or so many minutes of one processor are over.

    They have the `words` of the command, such as --actors, with the defect and without it; they are dense unless
    these say otherwise. What a history shows without the defect, too, is another's, as is what a patch does not name.
    """
    tree = planted(patch, folder)

    def named() -> list[str]:
        return ["--seed", str(seed), "--hours", f"{hours:g}", "--pace", "dense", *words]

    spent_s, played, said = 0.0, 0, ""
    while spent_s < minutes * 60:
        done, took_s = _play(tree, *named(), "--minutes", f"{minutes - spent_s / 60:f}", "--first")
        spent_s += took_s
        played += len(re.findall(r"^seed \d+: ", done.stdout, re.MULTILINE))
        shown = re.search(r"^seed (\d+): .*\n  FOUND.*\n  - (.*)", done.stdout, re.MULTILINE)
        at_fault = re.search(r"^seed (\d+): the simulator is at fault\n(?:.*\n)*?(\w+: .*)", done.stdout, re.MULTILINE)
        if shown is None and at_fault is not None:
            said, seed = f"seed {at_fault[1]}: the simulator is at fault: {at_fault[2]}", int(at_fault[1]) + 1
            print(said, flush=True)
            continue
        if done.returncode != 1 or shown is None:
            said = (done.stdout + done.stderr)[-500:]
            break
        seed, said = int(shown[1]), shown[2]
        if said_of(patch) not in said:
            seed += 1
            continue
        if _play(ROOT, *named())[0].returncode == 0:
            shutil.rmtree(tree)
            return Found(patch.stem, True, played, seed, spent_s, said)
        said, seed = f"seed {seed} breaks something without it: {said}", seed + 1
        print(said, flush=True)  # a defect that nobody has planted
    shutil.rmtree(tree)
    return Found(patch.stem, False, played, None, spent_s, said)


def _play(tree: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Play histories of a tree; return what came of it, and the seconds of a processor that it took."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHASHSEED", "PYTHONPATH")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tests.sim", "--jobs", "1", *words]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
