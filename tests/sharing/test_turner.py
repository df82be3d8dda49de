"""Turns with real processes: shares kept by freezing, and nobody left frozen, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.sharing.freezer import FrozenRecord
from tests.support.sharing.real_turns import RealTurns, freezer_v1, freezer_v2

pytestmark = pytest.mark.root
HOSTILE = Path(__file__).parents[1] / "support" / "sharing" / "hostile.c"
TREES = [(tree, file) for tree, file in ((freezer_v1(), "freezer.state"), (freezer_v2(), "cgroup.freeze")) if tree]


@pytest.fixture(params=TREES, ids=lambda found: found[1])
def turns(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealTurns]:
    """On every kind of freezer that this machine has."""
    real = RealTurns(tmp_path, *request.param)
    try:
        yield real
    finally:
        real.stop()


def test_two_tenants_share_by_weight_and_a_change_counts_at_once(turns: RealTurns) -> None:
    turns.tenant("a")
    turns.tenant("b", 2, depth=16, processes=4)
    turns.tell()
    turns.shares(1.0)
    assert turns.share_settles(1 / 3, within=0.12)
    turns.members["a"]["weight"] = 4
    turns.tell()
    assert turns.share_settles(2 / 3, within=0.12)


def test_a_hostile_tenant_has_its_share_and_what_it_had_queued(turns: RealTurns, tmp_path: Path) -> None:
    """A static program with a cleared environment, of 8 processes with 16 kernels in each, that fork others."""
    program = tmp_path / "hostile"
    subprocess.run(["cc", "-O2", "-static", "-o", program, HOSTILE], check=True)
    turns.tenant("a", command=["/usr/bin/env", "-i", str(program), turns.socket, "8", "16"])
    turns.tenant("b", 2, depth=16)
    turns.rules["policy"] = 5
    turns.tell()
    turns.shares(1.0)
    assert turns.shares(2.0)[0] > 0.7, "without turns it has nearly all"
    turns.rules["policy"] = 2
    turns.tell()
    turns.shares(2.0)
    assert turns.share_settles(1 / 3, within=0.15)


def test_nobody_stays_frozen_whoever_is_killed_and_shares_go_on(turns: RealTurns) -> None:
    turns.tenant("a")
    turns.tenant("b")
    turns.tell()
    turns.until_frozen()
    # The agent, as far as the turner sees it: the other end of its standard input is closed.
    turns.control.close()
    assert turns.thawed_within_s() < 2.0
    turns.turner.wait(5)
    turns.start()
    turns.until_frozen()
    turns.turner.kill()
    assert turns.thawed_within_s() < 2.0
    turns.turner.wait(5)
    turns.start()
    turns.until_frozen()
    turns.turner.send_signal(signal.SIGSTOP)
    assert turns.thawed_within_s() < 2.0
    turns.turner.send_signal(signal.SIGCONT)
    turns.until_frozen()
    before = turns.watchdog
    os.kill(before, signal.SIGKILL)
    turns.until_told(lambda told: told.get("watchdog", before) != before)
    turns.until_frozen()
    # Both at once: the next turner finds on disk whom to thaw.
    os.kill(turns.watchdog, signal.SIGKILL)
    turns.turner.kill()
    turns.turner.wait(5)
    FrozenRecord(turns.folder / "frozen.json").thaw_all()
    assert turns.frozen() == []


def test_who_is_held_is_thawed_before_the_answer_comes(turns: RealTurns) -> None:
    turns.tenant("a")
    turns.tenant("b")
    turns.tell()
    for _ in range(20):
        turns.until_frozen()
        turns.members["a"]["held"] = True
        turns.tell()
        assert "a" not in turns.frozen()
        turns.members["a"]["held"] = False
        turns.tell()
    turns.members.pop("b")
    turns.tell()
    assert turns.thawed_within_s(0.2) < 1.0
