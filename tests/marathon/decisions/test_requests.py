"""Apps are created, changed, scaled, restarted, removed and rolled back."""

from __future__ import annotations

import pytest

from mesos_gpu.errors import BadInput, Conflict, InvalidApp, Locked, NotFound, TooMany
from mesos_gpu.marathon.definitions.external_rules import name_conflicts
from mesos_gpu.marathon.model.groups import all_groups
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import (
    Answer,
    Exit,
    Kill,
    Launch,
    Publish,
    Resubscribe,
    Say,
)
from mesos_gpu.marathon.state.events import (
    CancelDeployment,
    Disconnected,
    FrameworkError,
    KillTasks,
    PutGroup,
    RemoveApp,
    RemoveGroup,
    ResetDelay,
    RestartApp,
)
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from tests.support.golden import Golden
from tests.support.marathon.builders import RULES, Run, app, only, status


def test_an_app_that_exists_is_not_created_again(run: Run, golden: Golden) -> None:
    run.put(app())
    before = run.state
    with pytest.raises(Conflict) as caught:
        run.put(app(), create=True, partial=False)
    assert str(caught.value) == golden
    assert not isinstance(caught.value, Locked)
    assert run.state is before


def test_a_locked_app_is_only_changed_by_force(run: Run) -> None:
    run.put(app())
    (running,) = run.state.lasting.deployments
    with pytest.raises(Locked, match=r"\?force=true") as caught:
        run.put({"id": "/a", "instances": 2})
    assert caught.value.deployments == (running,)
    actions = run.put({"id": "/a", "instances": 2}, force=True)
    assert running not in run.state.lasting.deployments
    assert "deployment_failed" in [p.kind for p in only(actions, Publish)]


def test_an_update_that_changes_nothing_ends_at_once_even_when_locked(run: Run) -> None:
    run.put(app())
    (answer,) = only(run.put(app()), Answer)
    assert answer.deployment_id not in run.state.lasting.deployments


def test_scaling_keeps_running_instances_and_their_configuration(run: Run) -> None:
    run.put(app())
    run.run_all()
    (kept,) = run.tasks()
    run.put({"id": "/a", "instances": 3})
    run.run_all()
    assert kept in run.tasks()
    assert len(run.tasks()) == 3
    assert not run.state.lasting.deployments
    found = run.state.app("/a")
    assert found is not None
    assert found.version > found.config_version


@pytest.mark.parametrize(("selection", "survivor"), [("YOUNGEST_FIRST", 0), ("OLDEST_FIRST", -1)])
def test_scaling_down_ends_who_has_come_least_far_then_by_age(run: Run, selection: str, survivor: int) -> None:
    run.put(app(instances=3, killSelection=selection))
    run.offer()
    tasks = run.tasks()
    for n, task in enumerate(tasks[:2]):
        run.do(status(task, timestamp=run.now_s - 9 + n))
    killed = {kill.task_id for kill in only(run.put({"id": "/a", "instances": 1}, force=True), Kill)}
    assert tasks[2] in killed
    assert killed == set(tasks) - {tasks[:2][survivor]}


def test_an_app_of_no_instances_is_there_and_runs_nothing(run: Run) -> None:
    run.put(app(instances=0))
    assert not run.state.lasting.deployments
    assert not run.state.waiting
    assert run.state.app("/a") is not None


def test_a_changed_app_is_replaced_instance_by_instance(run: Run) -> None:
    strategy = {"minimumHealthCapacity": 1, "maximumOverCapacity": 0}
    run.put(app(instances=2, upgradeStrategy=strategy))
    run.run_all()
    old = set(run.tasks())
    run.put({"id": "/a", "env": {"A": "1"}})
    for _ in range(10):
        running = [i for i in run.state.instances_of("/a") if i.phase is Phase.RUNNING and i.wanted]
        assert len(running) >= 2
        assert len(run.state.instances_of("/a")) <= 3
        run.offer()
        for task in run.tasks():
            instance = next(i for i in run.state.instances_of("/a") if i.task and i.task.id == task)
            run.do(status(task) if instance.wanted else status(task, "TASK_KILLED"))
    assert not old & set(run.tasks())
    assert len(run.tasks()) == 2
    assert not run.state.lasting.deployments


def test_a_full_gpu_agent_lets_a_restart_wait_or_go_by_its_strategy(run: Run) -> None:
    run.put(app(gpus=1))
    run.offer(gpus=1)
    (old,) = run.tasks()
    run.do(status(old))
    actions = run.put({"id": "/a", "labels": {"a": "b"}})
    assert not only(actions, Kill)
    run.offer(gpus=0)
    assert run.state.lasting.deployments
    strategy = {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}
    actions = run.put({"id": "/a", "upgradeStrategy": strategy}, force=True)
    assert only(actions, Kill) == [Kill(old, "S0")]
    run.do(status(old, "TASK_KILLED"))
    run.offer(gpus=1)
    run.do(status(run.tasks()[0]))
    assert not run.state.lasting.deployments


def test_an_old_instance_that_ends_during_a_restart_is_not_started_again(run: Run) -> None:
    run.put(app(instances=2, upgradeStrategy={"minimumHealthCapacity": 1, "maximumOverCapacity": 0}))
    run.run_all()
    run.put({"id": "/a", "env": {"A": "1"}})
    run.do(status(run.tasks()[0], "TASK_FAILED"))
    found = run.state.app("/a")
    assert found is not None
    assert all(run.state.lasting.instances[key].version == found.version for key in run.state.waiting)


def test_a_restart_replaces_what_runs(run: Run) -> None:
    run.put(app())
    run.run_all()
    old = run.tasks()
    run.do(RestartApp("/a", "d9"), after_s=1)
    run.run_all()
    run.do(status(old[0], "TASK_KILLED"))
    assert run.tasks() != old
    assert not run.state.lasting.deployments


def test_a_removed_app_is_gone_at_once_and_its_deployment_ends_with_its_tasks(run: Run) -> None:
    run.put(app(instances=2))
    run.run_all()
    first, second = run.tasks()
    actions = run.do(RemoveApp("/a", "d9"))
    assert {kill.task_id for kill in only(actions, Kill)} == {first, second}
    assert run.state.app("/a") is None
    run.do(status(first, "TASK_KILLED"))
    assert list(run.state.lasting.deployments) == ["d9"]
    actions = run.do(status(second, "TASK_FINISHED"))
    assert not run.state.lasting.deployments
    assert not run.state.lasting.instances
    assert "app_terminated_event" in [p.kind for p in only(actions, Publish)]


def test_what_does_not_exist_is_not_found(run: Run, golden: Golden) -> None:
    for event in (RemoveApp("/x", "d"), RestartApp("/x", "d"), CancelDeployment("x", "d"), ResetDelay("/x")):
        with pytest.raises(NotFound):
            run.do(event)
    with pytest.raises(NotFound) as refused:
        run.put({"id": "/x", "instances": 1}, create=False)
    assert str(refused.value) == golden


def test_an_update_merges_top_level_keys_only(run: Run) -> None:
    run.put(app(env={"A": "1"}, mem=64))
    run.put({"id": "/a", "env": {"B": "2"}}, force=True)
    found = run.state.app("/a")
    assert found is not None
    assert found.document["env"] == {"B": "2"}
    assert found.document["mem"] == 64
    run.put(app(), force=True, partial=False)
    found = run.state.app("/a")
    assert found is not None
    assert found.document["env"] == {}


def test_an_older_form_in_an_update_replaces_the_present_one(run: Run) -> None:
    run.put(app())
    run.put({"id": "/a", "ports": [12345], "uris": ["http://h/a.tgz"]}, force=True)
    found = run.state.app("/a")
    assert found is not None
    assert [d["port"] for d in found.document["portDefinitions"]] == [12345]
    assert [f["uri"] for f in found.document["fetch"]] == ["http://h/a.tgz"]


def test_an_app_goes_back_to_a_former_version(run: Run, golden: Golden) -> None:
    run.put(app(mem=64))
    found = run.state.app("/a")
    assert found is not None
    run.put({"id": "/a", "mem": 128}, force=True)
    run.put({"id": "/a", "version": found.version}, force=True)
    now = run.state.app("/a")
    assert now is not None
    assert now.document["mem"] == 64
    assert now.version > found.version
    with pytest.raises(InvalidApp) as refused:
        run.put({"id": "/a", "version": found.version, "cpus": 1}, force=True)
    assert str(refused.value) == golden
    with pytest.raises(NotFound) as refused:
        run.put({"id": "/a", "version": "2001-01-01T00:00:00.000Z"}, force=True)
    assert str(refused.value) == golden


def test_fifty_versions_are_kept(run: Run) -> None:
    for n in range(60):
        run.put(app(instances=0, env={"N": str(n)}), force=True)
    kept = run.state.lasting.versions["/a"]
    assert len(kept) == 50
    assert [spec.version for spec in kept] == sorted((spec.version for spec in kept), reverse=True)


def test_several_apps_change_in_one_deployment(run: Run) -> None:
    run.put(app("/a"), app("/b"))
    (deployment,) = run.state.lasting.deployments.values()
    assert deployment.apps == ("/a", "/b")
    run.run_all("/a")
    run.run_all("/b")
    assert not run.state.lasting.deployments


def test_tasks_killed_with_scale_lower_the_count(run: Run) -> None:
    run.put(app(instances=3))
    run.run_all()
    chosen = run.tasks()[:2]
    actions = run.do(KillTasks(chosen, "d9", scale=True), after_s=1)
    assert {kill.task_id for kill in only(actions, Kill)} == set(chosen)
    found = run.state.app("/a")
    assert found is not None
    assert found.instances == 1
    for task in chosen:
        run.do(status(task, "TASK_KILLED"))
    assert len(run.state.lasting.instances) == 1
    assert not run.state.lasting.deployments


def test_tasks_killed_with_wipe_are_replaced_by_new_instances(run: Run, golden: Golden) -> None:
    run.put(app())
    run.run_all()
    (task,) = run.tasks()
    run.do(KillTasks([task], "d9", wipe=True))
    run.do(status(task, "TASK_KILLED"))
    run.run_all()
    assert run.tasks()[0].split("._app")[0] != task.split("._app")[0]
    with pytest.raises(BadInput) as refused:
        run.do(KillTasks([task], "d9", wipe=True, scale=True))
    assert str(refused.value) == golden


def test_a_deployment_is_rolled_back(run: Run) -> None:
    run.put(app(mem=64))
    run.run_all()
    kept = run.tasks()
    run.put({"id": "/a", "mem": 128})
    (running,) = run.state.lasting.deployments
    actions = run.do(CancelDeployment(running, "back"), after_s=1)
    assert only(actions, Answer)[0].deployment_id == "back"
    found = run.state.app("/a")
    assert found is not None
    assert found.document["mem"] == 64
    assert "back" in run.state.lasting.deployments
    assert kept


def test_the_creation_of_an_app_is_rolled_back_by_removing_it(run: Run) -> None:
    run.put(app())
    (running,) = run.state.lasting.deployments
    run.do(CancelDeployment(running, "back"))
    assert run.state.app("/a") is None
    assert not run.state.lasting.instances
    assert not run.state.lasting.deployments


def test_a_cancelled_deployment_stays_where_it_is(run: Run) -> None:
    run.put(app(instances=2))
    (running,) = run.state.lasting.deployments
    run.do(CancelDeployment(running, "unused", force=True))
    assert not run.state.lasting.deployments
    assert len(run.state.waiting) == 2


def test_there_is_a_limit_to_deployments() -> None:
    run = Run(State(), Settings(rules=RULES, max_running_deployments=2))
    run.put(app("/a"))
    run.put(app("/b"))
    with pytest.raises(TooMany):
        run.put(app("/c"))
    run.put({"id": "/a", "instances": 5}, force=True)


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


def test_a_group_that_does_not_exist_cannot_be_removed(run: Run) -> None:
    with pytest.raises(NotFound):
        run.do(RemoveGroup("/g", "d"))


def test_groups_come_in_the_order_of_the_apps_that_imply_them() -> None:
    assert list(all_groups({}, [f"/{name}/app" for name in NAMES])) == [f"/{name}" for name in NAMES]


def test_conflicts_of_volumes_come_in_the_order_in_which_an_app_lists_them() -> None:
    external = [{"external": {"name": name, "shared": False}} for name in NAMES]
    apps = {one: {"container": {"volumes": external}} for one in ("/a", "/b")}
    found = [problem.code.split("'")[1] for problem in name_conflicts(apps) if "/a/" in str(problem.path)]
    assert found == NAMES
