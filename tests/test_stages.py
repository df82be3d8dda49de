from __future__ import annotations

import contextvars
import logging
import re

import pytest

from mesos_gpu import stages


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages._Switch, "on", False)
    stages.trace()


def launch(name: str, *marks: str) -> None:
    stages.arrived()
    stages.begin(name)
    for one in marks:
        stages.mark(one)
    stages.end()


def test_a_line_names_each_stage_with_when_and_how_long(traced: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mesos_gpu.stages"):
        contextvars.copy_context().run(launch, "c-1", "bundle written", "runtime done")
    (line,) = caplog.messages
    assert re.fullmatch(
        r"launch of c-1 at \d+\.\d{6} s, in ms: checkpointed \d+\.\d\d \(\+\d+\.\d\d\), "
        r"bundle written \d+\.\d\d \(\+\d+\.\d\d\), runtime done \d+\.\d\d \(\+\d+\.\d\d\)",
        line,
    )


def test_times_add_up() -> None:
    traced = stages.Stages("c", 10.0)
    traced.marks = [("one", 10.001), ("two", 10.0035)]
    assert traced.line() == "c at 10.000000 s, in ms: one 1.00 (+1.00), two 3.50 (+2.50)"


def test_untraced_launches_leave_no_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(stages._Switch, "on", False)
    with caplog.at_level(logging.INFO, "mesos_gpu.stages"):
        contextvars.copy_context().run(launch, "c-1", "bundle written")
    assert caplog.messages == []
