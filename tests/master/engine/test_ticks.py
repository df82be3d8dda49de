"""Ticks come when a call at the end of every interval would have had something to do, and at no other time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.master.engine import ticks
from mesos_gpu.master.engine.ticks import Ticks

INTERVAL_S = 1.0
LONG_S = 40.0


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Timers and a clock, as far as they are asked for."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.rings = 0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        assert delay_s >= 0
        timer = Timer(call)
        heappush(self._timers, (self.now_s + delay_s, next(self._numbers), timer))
        return timer

    def run_until(self, end_s: float) -> None:
        while self._timers and self._timers[0][0] <= end_s:
            at_s, _, timer = heappop(self._timers)
            if not timer.cancelled:
                self.now_s = max(self.now_s, at_s)
                self.rings += 1
                timer.call()
        self.now_s = end_s


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop(1000.0)
    monkeypatch.setattr(ticks.asyncio, "get_running_loop", lambda: made)
    return made


times = st.builds(lambda whole, part: whole + part, st.integers(0, int(LONG_S) - 1), st.floats(0.01, 0.99))
"""None at the very end of an interval: that may count for this one or for the next."""
dues = st.one_of(times, st.just(-math.inf), st.just(math.inf))


@given(changes=st.lists(st.tuples(times, dues), max_size=12), began_s=st.floats(0.0, 1e6))
def test_what_is_due_is_found_when_a_call_at_every_interval_finds_it(
    changes: list[tuple[float, float]], began_s: float
) -> None:
    """`changes`: what is due from then on; a tick that finds it due has done it."""
    changes = [(began_s + at_s, began_s + due_s) for at_s, due_s in sorted(changes)]
    expected, due = [], math.inf
    left = list(changes)
    for number in range(1, int(LONG_S) + 3):
        now_s = began_s + number * INTERVAL_S
        while left and left[0][0] < now_s:
            due = min(due, left.pop(0)[1])
        if due <= now_s:
            expected.append(number)
            due = math.inf

    with pytest.MonkeyPatch.context() as patched:
        loop = Loop(began_s)
        patched.setattr(ticks.asyncio, "get_running_loop", lambda: loop)
        found: list[int] = []
        due = math.inf

        def tick() -> None:
            nonlocal due
            if due <= loop.now_s:
                found.append(round((loop.now_s - began_s) / INTERVAL_S))
                due = math.inf
            made.expect(due)

        made = Ticks(INTERVAL_S, tick)
        made.start(due)
        for at_s, due_s in changes:
            loop.run_until(at_s)
            due = min(due, due_s)
            made.expect(due)
        loop.run_until(began_s + (int(LONG_S) + 2) * INTERVAL_S)
    assert found == expected


def test_nobody_is_woken_for_nothing(loop: Loop) -> None:
    came: list[float] = []
    made = Ticks(INTERVAL_S, lambda: came.append(loop.now_s))
    made.start(math.inf)
    loop.run_until(2000.0)
    assert loop.rings == 0
    made.expect(2100.3)
    made.expect(2200.0)
    loop.run_until(3000.0)
    assert came == [2101.0]


def test_one_that_comes_soonest_is_not_put_off(loop: Loop) -> None:
    came: list[float] = []
    made = Ticks(INTERVAL_S, lambda: came.append(loop.now_s))
    made.start(math.inf)
    loop.run_until(1000.4)
    made.expect(1005.0)
    made.expect(-math.inf)
    made.expect(1000.5)
    made.expect(1007.0)
    loop.run_until(1020.0)
    assert came == [1001.0]


def test_none_comes_before_the_start_nor_after_the_stop(loop: Loop) -> None:
    came: list[float] = []
    made = Ticks(INTERVAL_S, lambda: came.append(loop.now_s))
    made.expect(-math.inf)
    loop.run_until(1010.0)
    made.start(1012.0)
    made.stop()
    made.expect(-math.inf)
    loop.run_until(1020.0)
    assert came == []
