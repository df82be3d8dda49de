"""What is decided about each event."""

from __future__ import annotations

from mesos_gpu.marathon.definitions.external_rules import name_conflicts
from mesos_gpu.marathon.model.groups import all_groups
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
    PutGroup,
    RemoveGroup,
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


MANY = 16
"""As many names have come in one order by chance in one of 10**13 runs."""
NAMES = [f"name-{at * 7 % MANY:02}" for at in range(MANY)]


def test_the_apps_of_a_group_are_put_in_the_order_in_which_they_are_listed_and_removed_in_that() -> None:
    run = Run()
    run.subscribe()
    run.do(PutGroup("/g", {"apps": [app(name, instances=0) for name in NAMES]}, "d"))
    assert [spec.id for spec in run.state.apps()] == [f"/g/{name}" for name in NAMES]
    checks = [{"protocol": "COMMAND", "command": {"value": "true"}}]
    run.do(PutGroup("/h", {"apps": [app(name, instances=0, healthChecks=checks) for name in NAMES]}, "e"))
    actions = run.do(RemoveGroup("/h", "f"))
    gone = [one.fields["appId"] for one in only(actions, Publish) if one.kind == "remove_health_check_event"]
    assert gone == [f"/h/{name}" for name in NAMES]


def test_groups_come_in_the_order_of_the_apps_that_imply_them() -> None:
    assert list(all_groups({}, [f"/{name}/app" for name in NAMES])) == [f"/{name}" for name in NAMES]


def test_conflicts_of_volumes_come_in_the_order_in_which_an_app_lists_them() -> None:
    external = [{"external": {"name": name, "shared": False}} for name in NAMES]
    apps = {one: {"container": {"volumes": external}} for one in ("/a", "/b")}
    found = [problem.code.split("'")[1] for problem in name_conflicts(apps) if "/a/" in str(problem.path)]
    assert found == NAMES
