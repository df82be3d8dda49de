"""Histories of a whole cluster: one seed is one history, those that broke something once do not, and some others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import found
from tests.sim.defects import DEFECTS
from tests.sim.hunting import hunt

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FAILED_ONCE = [
    tuple(line.split()) for line in (HERE / "seeds.txt").read_text().splitlines() if not line.startswith("#")
]
NEWEST = 1
"""How many histories of the same kind are played unless all are asked for."""


def played() -> list[tuple[str, ...]]:
    """Return the newest history of each kind, which is all but the seed; with THOROUGH, all.

    A seed leads elsewhere when the code changes, so older ones of a kind try nothing that newer ones do not.
    """
    if os.environ.get("THOROUGH"):
        return FAILED_ONCE
    kinds: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for words in FAILED_ONCE:
        kinds.setdefault(words[1:], []).append(words)
    return [words for same in kinds.values() for words in same[-NEWEST:]]


FOUND_BY = found.found()
"""What showed each planted defect, by its name."""


def play(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-m", "tests.sim", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False)


def histories(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what is said of each history; its digest is of every line that any service logged."""
    return sorted(line for line in done.stdout.splitlines() if re.match(r"seed \d+: ", line))


def test_a_seed_is_one_history() -> None:
    for words in (("21", "--hours", "0.3", "--pace", "dense"), ("22", "--hours", "0.1", "--pace", "slow")):
        first, second = (play("--seed", *words) for _ in range(2))
        assert first.returncode == 0, first.stdout + first.stderr
        assert len(histories(first)) == 1
        assert histories(first) == histories(second)


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, marks=pytest.mark.xdist_group(f"seed {words[0]}")) for words in played()],
    ids=[words[0] for words in played()],
)
def test_what_broke_something_once_does_not(words: tuple[str, ...]) -> None:
    actors = [word.removeprefix("actors=").split(",") for word in words if word.startswith("actors=")]
    paces = [word.removeprefix("pace=") for word in words if word.startswith("pace=")]
    given = [word for word in words if "=" not in word]
    options = zip(("--seed", "--hours", "--people", "--faults"), given, strict=False)
    named = [word for names in actors for word in ("--actors", *names)]
    named += ["--pace", *(paces or ["dense"])]
    done = play(*(word for option in options for word in option), *named)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proof("tests/sim")
@pytest.mark.parametrize("name", ["gpus-not-freed", "runtime-folder-removed"])
def test_a_planted_defect_is_found(name: str, tmp_path: Path) -> None:
    line = FOUND_BY[name]
    shown = hunt(DEFECTS[name], tmp_path, minutes=5, seed=int(line.seed), hours=0.5, words=line.words.split())
    assert shown.found, shown


@pytest.mark.proof("tests/sim")
def test_a_planted_defect_is_hunted_in_the_histories_that_are_named() -> None:
    """By its seed this one has no shared cards, and nobody who shares them."""
    done = play(
        "--planted", "parts-not-freed", "--seed", "1", "--hours", "0.5", "--minutes", "3", "--actors", "sharing"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"parts-not-freed: found by seed \d+, ", done.stdout), done.stdout


def test_the_table_of_planted_defects_is_up_to_date() -> None:
    assert found.PAGE.read_text() == found.written(), "python -m tests.sim.found writes it anew"


def test_fresh_seeds_are_told_so_that_they_can_be_played_again() -> None:
    done = play("--fresh", "--seconds", "0.1", "--hours", "0.05", "--jobs", "1", "--pace", "dense")
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"^fresh seeds, from (\d+) on$", done.stdout, re.MULTILINE)
    assert told is not None, done.stdout
    first = next(line for line in histories(done) if line.startswith(f"seed {told[1]}: "))
    assert histories(play("--seed", told[1], "--hours", "0.05", "--pace", "dense")) == [first]


def test_nothing_breaks_while_faults_come_every_half_minute() -> None:
    done = play("--seed", "1", "--seeds", "2", "--hours", "0.5", "--faults", "30", "--people", "15", "--pace", "dense")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_breaks_while_a_group_is_changed_scaled_rolled_back_and_its_deployments_cancelled() -> None:
    done = play("--seed", "120000", "--seeds", "2", "--hours", "0.5", "--actors", "grouping", "--pace", "dense")
    assert done.returncode == 0, done.stdout + done.stderr
