"""What is told has an order of its own: not that of a set, which is another in each run (PYTHONHASHSEED)."""

from __future__ import annotations

from mesos_gpu.marathon.definitions.external_rules import name_conflicts
from mesos_gpu.marathon.model.groups import all_groups
from mesos_gpu.marathon.state.actions import Publish
from mesos_gpu.marathon.state.events import PutGroup, RemoveGroup
from tests.support.marathon.builders import Run, app, only

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
