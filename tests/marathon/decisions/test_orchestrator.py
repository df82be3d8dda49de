"""What is decided about each event."""

from __future__ import annotations

from mesos_gpu.marathon.state.actions import (
    Exit,
    Launch,
    Publish,
    Resubscribe,
    Say,
)
from mesos_gpu.marathon.state.events import (
    Disconnected,
    FrameworkError,
)
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, only


def test_a_disconnection_is_told_once(run: Run) -> None:
    assert only(run.do(Disconnected()), Publish)[0].kind == "scheduler_disconnected_event"
    assert not run.do(Disconnected())


def test_a_removed_framework_starts_over_with_a_new_id(run: Run) -> None:
    actions = run.do(FrameworkError("Framework has been removed"))
    assert only(actions, Resubscribe) == [Resubscribe()]
    assert run.state.lasting.framework_id is None
    assert actions[0].framework_id == (None,)


def test_a_removed_framework_counts_its_tasks_as_lost_and_starts_them_anew(run: Run, golden: Golden) -> None:
    run.put(app(instances=2))
    run.run_all()
    actions = run.do(FrameworkError("Framework has been removed"))
    assert only(actions, Say)[0].text == golden
    assert len(run.state.waiting) == 2
    run.subscribe("F2")
    assert len(only(run.offer(), Launch)[0].task_infos) == 2


def test_a_framework_that_was_taken_over_ends_the_process(run: Run, golden: Golden) -> None:
    (leave,) = only(run.do(FrameworkError("Framework failed over")), Exit)
    assert leave.reason == golden


def test_other_errors_of_the_master_are_said(run: Run) -> None:
    (said,) = only(run.do(FrameworkError("User 'root' is not authorized")), Say)
    assert "not authorized" in said.text
