"""Timers show what Mesos' show, of the runs that are kept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.mesos.timers import KEPT, PERCENTILES, Timer


def test_nothing_is_shown_before_the_first_run() -> None:
    assert Timer("run").shown() == {}


def test_statistics_are_of_all_runs_in_milliseconds() -> None:
    timer = Timer("run")
    for took_ms in (1, 2, 3, 4, 5):
        timer.add(took_ms / 1000)
    shown = timer.shown()
    assert set(shown) == {"run_ms"} | {f"run_ms/{name}" for name in (*PERCENTILES, "count", "min", "max")}
    assert (shown["run_ms"], shown["run_ms/count"], shown["run_ms/min"], shown["run_ms/max"]) == (5, 5, 1, 5)
    assert (shown["run_ms/p50"], shown["run_ms/p90"]) == (3, pytest.approx(4.6))


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=KEPT + 50))
def test_percentiles_lie_in_order_between_the_extremes(runs: list[float]) -> None:
    timer = Timer("run")
    for took_s in runs:
        timer.add(took_s)
    shown = timer.shown()
    ordered = [shown[f"run_ms/{name}"] for name in ("min", *PERCENTILES, "max")]
    assert all(b >= a or b == pytest.approx(a) for a, b in itertools.pairwise(ordered))
    assert shown["run_ms/count"] == min(len(runs), KEPT)
