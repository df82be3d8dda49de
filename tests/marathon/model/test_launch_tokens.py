"""Starts are limited until tasks come to run."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from mesos_gpu.marathon.state.actions import Decline, Launch
from mesos_gpu.marathon.state.state import State
from tests.support.marathon.builders import SETTINGS, Run, app, only, status


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


def launched(run: Run) -> int:
    return sum(len(launch.task_infos) for launch in only(run.offer(), Launch))


def test_no_more_start_than_there_are_tokens_until_some_run_or_time_passes() -> None:
    run = Run(State(), replace(SETTINGS, launch_tokens=3))
    run.subscribe()
    run.put(app(instances=9))
    assert launched(run) == 3
    (decline,) = only(run.offer(), Decline)
    assert 0 < decline.refuse_s <= 30, "it comes back when there are tokens again"
    for task in run.tasks()[:2]:
        run.do(status(task))
        run.do(status(task))
    assert launched(run) == 2, "each that runs gives one back, and only once"
    run.now_s += 31
    assert launched(run) == 3
