"""Delays between starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.backoff import after_failure, ready_at
from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from tests.support.marathon.builders import spec


def test_delays_grow_by_the_factor_from_one_second() -> None:
    known, delays = None, []
    for n in range(3):
        known = after_failure(known, spec(), 100.0 + n)
        delays.append(known.delay_s)
    assert delays == pytest.approx([1, 1.15, 1.3225])


def test_the_longest_delay_is_reached_after_about_42_failures() -> None:
    known, count, waited = after_failure(None, spec(), 0.0), 1, 0.0
    while known.delay_s < 300:
        waited += known.delay_s
        known = after_failure(known, spec(), known.until_s)
        count += 1
    assert 41 <= count <= 43
    assert 30 * 60 < waited < 38 * 60


def test_the_longest_delay_caps_the_first_one() -> None:
    known = after_failure(None, spec(backoffSeconds=60, maxLaunchDelaySeconds=10), 0.0)
    assert known.delay_s == 10


def test_a_sign_of_life_counts_the_same_delay_anew() -> None:
    known = after_failure(None, spec(), 0.0).advanced(50.0)
    assert (known.delay_s, known.until_s) == (1.0, 51.0)


def test_an_app_that_lived_long_enough_starts_from_the_first_delay() -> None:
    known = after_failure(after_failure(None, spec(), 0.0), spec(), 1.0)
    assert not known.forgotten(301.0)
    assert known.forgotten(301.1)
    assert after_failure(known, spec(), 302.0).delay_s == 1.0


def test_another_configuration_does_not_wait() -> None:
    old, new = spec(), spec(version="2024-01-01T00:00:00.000Z")
    known = after_failure(None, old, 100.0)
    assert ready_at(known, old) == 101.0
    assert ready_at(known, new) == 0.0
    assert ready_at(None, old) == 0.0
    assert after_failure(known, new, 100.5).delay_s == 1.0


@given(st.lists(st.sampled_from(["take", "return", "wait"]), max_size=40), st.integers(1, 5))
def test_there_are_never_more_tokens_than_allowed_nor_fewer_than_none(steps: list[str], most: int) -> None:
    tokens, now_s = LaunchTokens(), 100.0
    for step in steps:
        now_s += 31 if step == "wait" else 1
        tokens = tokens.at(now_s, most=most, interval_s=30)
        tokens = {"take": tokens.taken(1), "return": tokens.returned(most=most), "wait": tokens}[step]
        assert 0 <= tokens.left <= most
        assert tokens.refresh_s > now_s
        if step == "wait":
            assert tokens.left == most
