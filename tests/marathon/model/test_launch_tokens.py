"""Starts are limited until tasks come to run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.launch_tokens import LaunchTokens


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
