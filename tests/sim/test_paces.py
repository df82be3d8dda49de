"""A dense history is as it was before there were others; in these pauses and spans are so many times as long."""

from __future__ import annotations

import math
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.paces import AWAY_S, LONGEST_JOB_S, LONGEST_PAUSE_S, PACES, Pacing, pace_of
from tests.sim.parts import part_of, sampled, table


@given(st.floats(0.0, 1e5), st.floats(0.0, 1e4), st.integers(0, 99))
def test_in_a_dense_history_all_is_what_it_is(now_s: float, seconds: float, seed: int) -> None:
    pacing = Pacing(PACES["dense"], seed)
    pacing.until_s = 1800.0
    found = (pacing.pause(now_s, seconds), pacing.lasts(now_s, seconds), pacing.life(seconds), pacing.job(seconds))
    assert found == (seconds,) * 4
    assert pacing.away_s(now_s) == AWAY_S
    assert pacing.backoff(lasting=True) == pacing.backoff(lasting=False) == (1.15, 30)


@given(st.floats(0.0, 1e5), st.floats(0.1, 1e3))
def test_in_a_calm_one_pauses_are_so_many_times_as_long(now_s: float, seconds: float) -> None:
    assert Pacing(PACES["calm"], 1).pause(now_s, seconds) == pytest.approx(seconds * PACES["calm"].rarer, rel=1e-6)


def test_in_a_slow_one_much_comes_in_bursts_with_long_quiet_between_them() -> None:
    pacing, at_s, pauses = Pacing(PACES["slow"], 1), 0.0, []
    while at_s < 400_000.0:
        pauses.append(pacing.pause(at_s, 40.0))
        at_s += pauses[-1]
    usual = sum(1 for pause in pauses if pause == pytest.approx(40.0))
    assert usual > len(pauses) / 2
    assert max(pauses) > 1000.0


@given(st.lists(st.floats(0.1, 500.0), min_size=1, max_size=30), st.integers(0, 99))
def test_a_pause_is_as_long_as_its_parts(parts: list[float], seed: int) -> None:
    pacing, at_s = Pacing(PACES["slow"], seed), 0.0
    for part in parts:
        at_s += pacing.pause(at_s, part)
    assert at_s == pytest.approx(pacing.pause(0.0, math.fsum(parts)), rel=1e-6)


@pytest.mark.parametrize("name", ["calm", "slow"])
def test_what_lasts_longer_is_over_when_faults_are(name: str) -> None:
    pacing = Pacing(PACES[name], 3)
    pacing.until_s = 10_000.0
    lasting = [pacing.lasts(9_000.0, 200.0) for _ in range(200)]
    assert min(lasting) == 200.0
    assert 200.0 < max(lasting) <= 1000.0
    assert pacing.lasts(9_990.0, 200.0) == 200.0, "no shorter than in a dense one"
    assert max(pacing.job(100.0) for _ in range(200)) <= LONGEST_JOB_S
    assert pacing.backoff(lasting=True)[1] == LONGEST_PAUSE_S < pacing.backoff(lasting=False)[1]


def test_seeds_have_all_paces_as_often_as_is_said() -> None:
    count = Counter(pace_of(seed).name for seed in range(2000))
    for name, pace in PACES.items():
        assert count[name] == pytest.approx(2000 * pace.often, rel=0.2)


@pytest.mark.parametrize(
    ("files", "part"),
    [
        (
            ["/x/mesos_gpu/mesos/resources.py", "/x/mesos_gpu/master/allocation/sorter.py"],
            "masters' decisions and books",
        ),
        (["/x/mesos_gpu/master/decisions/invariants.py", "/x/mesos_gpu/master/engine/engine.py"], "--check_invariants"),
        (["/lib/json/encoder.py", "/x/mesos_gpu/process/http.py", "/x/tests/sim/loop.py"], "HTTP and libprocess"),
        (["/x/mesos_gpu/container_of.py"], "agents, executors and isolators"),
        (["/lib/heapq.py", "/x/tests/sim/loop.py"], "the loop and its timers"),
        (["/elsewhere"], "other"),
    ],
)
def test_a_sample_is_of_the_innermost_part(files: list[str], part: str) -> None:
    assert part_of(iter(files)) == part


def test_what_works_is_looked_at() -> None:
    counts: Counter[str] = Counter()
    with sampled(counts):
        until_s = time.process_time() + 0.05
        while time.process_time() < until_s:
            pass
    assert counts
    seen = sum(counts.values())
    assert "100.0 %" in table(Counter({"other": seen}))
