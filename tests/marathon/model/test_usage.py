"""Sums of what tasks had: hours, and how many names there are of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.usage import (
    HOUR_MS,
    NOTHING,
    OTHERS,
    Held,
    Sum,
    Who,
    bounded,
    by_hour,
    of_interval,
)

times = st.integers(0, 5 * HOUR_MS)


@given(times, times)
def test_a_time_is_cut_at_hours_and_one_that_runs_backwards_takes_away(one: int, other: int) -> None:
    parts = list(by_hour(one, other))
    assert sum(last - first for _, first, last in parts) == other - one
    for hour, first, last in parts:
        assert hour % HOUR_MS == 0
        assert hour <= min(first, last) <= max(first, last) <= hour + HOUR_MS
    there = sum((of_interval(Held(gpus=2000), first, last) for _, first, last in parts), NOTHING)
    back = sum((of_interval(Held(gpus=2000), last, first) for _, first, last in parts), NOTHING)
    assert (there + back).gpu_ms == 0


def test_names_beyond_the_most_go_together_by_role_and_user_and_nothing_of_the_total_is_lost() -> None:
    sums = {Who(f"/a{at}", "r", "ann" if at % 2 else "bob").key: Sum(gpu_ms=at, tasks=1) for at in range(10)}
    found = bounded(sums, most=4)
    assert {Who.of(key) for key in found} == {
        *(Who(f"/a{at}", "r", "ann" if at % 2 else "bob") for at in (6, 7, 8, 9)),
        Who(OTHERS, "r", "ann"),
        Who(OTHERS, "r", "bob"),
    }
    assert sum(found.values(), NOTHING) == sum(sums.values(), NOTHING)
    assert bounded(found, most=4) == found
    again = bounded({**found, Who("/late", "r", "ann").key: Sum(gpu_ms=1)}, most=4)
    assert again[Who(OTHERS, "r", "ann").key].gpu_ms == found[Who(OTHERS, "r", "ann").key].gpu_ms + 1
