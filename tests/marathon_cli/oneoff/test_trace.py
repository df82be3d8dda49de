"""The stages of a one-off run, as it tells them."""

from __future__ import annotations

from marathon_cli.oneoff.oneoff import VARIABLE, Trace, read


def test_marks_are_counted_from_the_time_that_is_given() -> None:
    now = iter([11.0, 12.5, 99.0])
    trace = Trace({VARIABLE: "10.000000001"}, lambda: next(now))
    trace.mark("asked for")
    trace.mark("TASK_RUNNING")
    trace.mark("asked for")
    line = trace.line()
    assert line == "stages, in ms: asked for 1000.0, TASK_RUNNING 2500.0"
    assert read(f"warning: x\n{line}\n") == [("asked for", 1000.0), ("TASK_RUNNING", 2500.0)]


def test_nobody_is_told_what_he_has_not_asked_for() -> None:
    for environ in ({}, {VARIABLE: ""}, {VARIABLE: "soon"}):
        trace = Trace(environ, lambda: 1.0)
        trace.mark("asked for")
        assert (trace.marks, trace.line()) == ([], None)
    assert read("nothing\n") == []
