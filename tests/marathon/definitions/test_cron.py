"""Times by cron, over changes of the clock too."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.definitions.cron import cron_problem, next_time, zone_problem
from tests.support.golden import Golden

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
EXPRESSIONS = ["* * * * *", "*/20 * * * *", "30 2 * * *", "0 0 1 * *", "15 */6 * * 1-5", "5 4 * * sun", "59 23 31 12 *"]


def seconds(text: str) -> float:
    return datetime.fromisoformat(text + ":00+00:00").timestamp()


def after(expression: str, zone: str, start: str, count: int) -> list[str]:
    found, at_s = [], seconds(start)
    for _ in range(count):
        at = next_time(expression, zone, at_s)
        assert at is not None
        at_s = at
        found.append(datetime.fromtimestamp(at, timezone.utc).isoformat()[5:16])
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "start", "times"),
    [
        ("30 2 * * *", "UTC", "2026-03-28T12:00", ["03-29T02:30", "03-30T02:30"]),
        ("0 9 * * 1", "America/New_York", "2026-07-01T00:00", ["07-06T13:00", "07-13T13:00"]),
        # In spring, 02:30 is skipped: the moment of the skip, once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-29T01:00", "03-30T00:30"]),
        # In autumn, 02:30 comes twice: the first of them.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-26T01:30"]),
        # What runs at any hour continues through both.
        ("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45",
         ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30", "10-25T02:00"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15", ["03-29T00:30", "03-29T01:00", "03-29T01:30"]),
        # A change of half an hour, and a day that never was.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T23:00", ["10-03T15:30", "10-04T15:15"]),
        ("15 0 * * *", "Pacific/Apia", "2011-12-28T12:00", ["12-29T10:15", "12-30T10:00", "12-30T10:15"]),
    ],
)  # fmt: skip
def test_times_are_those_of_the_clock_in_the_zone(expression: str, zone: str, start: str, times: list[str]) -> None:
    assert after(expression, zone, start, len(times)) == times


def test_some_times_never_come() -> None:
    assert next_time("0 0 30 2 *", "UTC", 0.0) is None


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "* * * * * *", "@daily", "61 * * * *", "a b c d e", "*/0 * * * *"]
)
def test_a_bad_expression_is_told(expression: str) -> None:
    assert cron_problem(expression)


def test_good_expressions_and_zones_are_accepted() -> None:
    assert [cron_problem(expression) for expression in EXPRESSIONS] == [None] * len(EXPRESSIONS)
    assert [zone_problem(zone) for zone in ZONES] == [None] * len(ZONES)
    assert all(zone_problem(zone) for zone in ("", "X/Y", "../etc/passwd", "/etc/passwd", "Europe"))


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(0, 2**31))
def test_the_next_time_is_after_and_nothing_is_between(expression: str, zone: str, start: int) -> None:
    found = next_time(expression, zone, float(start))
    assert found is not None
    assert found > start
    middle = (found + start) / 2
    if middle < found:
        assert next_time(expression, zone, middle) == found


def test_a_schedule_is_no_longer_than_one_that_lists_everything(golden: Golden) -> None:
    ranges = (range(60), range(24), range(1, 32), range(1, 13), range(7))
    everything = " ".join(",".join(map(str, values)) for values in ranges)
    assert cron_problem(everything) is None
    assert next_time(everything, "UTC", 0.0) == 60.0
    # Reading it takes Marathon's loop a second for each time that is looked for.
    assert cron_problem("1" + ",1" * 20_000 + " * * * *") == golden
