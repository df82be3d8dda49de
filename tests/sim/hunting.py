"""Plants defects one at a time in a copy of the tree and plays histories until the simulator reports each."""

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

from tests.sim.defects import Defect, plant
from tests.sim.folders import end_with_parent

ROOT = Path(__file__).parents[2]
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


def planted(defect: Defect, folder: Path) -> Path:
    """Return a copy of the tree with this defect, below an empty folder. Raises NotPlantable."""
    tree = folder / defect.name
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("node_modules"))
    for file, text in plant(defect, tree).items():
        file.write_text(text)
    return tree


def hunt(
    defect: Defect, folder: Path, *, minutes: float, seed: int = 1, hours: float = 1.0, words: Sequence[str] = ()
) -> Found:
    """Play histories with this defect until one shows it, or so many minutes of one processor are over.

    They have the `words` of the command, such as --actors, with the defect and without it; they are dense unless
    these say otherwise. A finding that the history has without the defect does not
    count, nor does one that lacks the defect's `finding`.
    """
    tree = planted(defect, folder)

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
        if defect.finding not in said:
            seed += 1
            continue
        if _play(ROOT, *named())[0].returncode == 0:
            shutil.rmtree(tree)
            return Found(defect.name, True, played, seed, spent_s, said)
        said, seed = f"seed {seed} breaks something without it: {said}", seed + 1
        print(said, flush=True)  # a defect that nobody has planted
    shutil.rmtree(tree)
    return Found(defect.name, False, played, None, spent_s, said)


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
