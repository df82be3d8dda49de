"""A rolling upgrade that waits for the GPUs it holds itself is found out; others are not accused."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.decisions.blockers import blockers
from mesos_gpu.marathon.state.actions import Kill
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app, only, status


def found(run: Run) -> list[dict[str, Any]]:
    return [entry for deployment in run.state.lasting.deployments.values() for entry in blockers(run.state, deployment)]


@pytest.fixture
def full() -> Run:
    """Two instances hold both GPUs there are, and a new version is on its way with the default strategy."""
    run = Run()
    run.subscribe()
    run.put(app(instances=2, gpus=1))
    run.run_all()
    run.put({"id": "/a", "labels": {"x": "y"}})
    return run


def test_an_upgrade_that_waits_for_its_own_gpus_is_named(full: Run, golden: Golden) -> None:
    full.offer(gpus=0)
    (entry,) = found(full)
    assert entry["app"] == "/a"
    assert (entry["waitingInstances"], entry["gpusPerInstance"], entry["gpusHeldByOldInstances"]) == (2, 1, 2)
    assert entry["message"] == golden


def test_a_full_cluster_makes_no_offers_and_is_named_too(full: Run) -> None:
    assert len(found(full)) == 1


def test_what_is_suggested_lets_it_end(full: Run) -> None:
    (entry,) = found(full)
    actions = full.put({"id": "/a", **entry["suggestion"]}, force=True)
    (killed,) = only(actions, Kill)
    assert not found(full), "somebody is being ended: it continues"
    full.do(status(killed.task_id, "TASK_KILLED"))
    full.run_all()
    for kill in only(full.do(status(full.tasks()[0])), Kill):
        full.do(status(kill.task_id, "TASK_KILLED"))
    for _ in range(4):
        for task in [i.task for i in full.state.lasting.instances.values() if i.task and not i.wanted]:
            full.do(status(task.id, "TASK_KILLED"))
        full.run_all()
    assert not full.state.lasting.deployments


def test_free_gpus_elsewhere_that_do_not_fit_for_another_reason_are_no_deadlock(full: Run) -> None:
    full.offer(gpus=4, cpus=0.01)
    assert found(full) == []


def test_an_upgrade_that_moves_is_not_accused(full: Run) -> None:
    full.offer(gpus=2)
    assert found(full) == []


def test_an_app_without_gpus_or_a_first_deployment_is_not_accused() -> None:
    run = Run()
    run.subscribe()
    run.put(app("/first", gpus=4))
    run.put(app("/cpu"))
    assert found(run) == []


def test_free_gpus_where_the_app_may_not_go_are_none() -> None:
    run = Run()
    run.subscribe()
    old = app(instances=2, gpus=1, constraints=[["rack", "IS", "1"]])
    run.put(old)
    run.offer(gpus=2, attributes={"rack": "1"})
    for task_id in run.tasks():
        run.do(status(task_id))
    run.put({"id": "/a", "labels": {"x": "y"}})
    run.offer(gpus=4, agent="S1", host="h1", attributes={"rack": "2"})
    (entry,) = found(run)
    assert entry["gpusHeldByOldInstances"] == 2
    run.offer(gpus=4, agent="S2", host="h2", cpus=0.01, attributes={"rack": "1"})
    assert found(run) == [], "there are GPUs where it may go"


def test_old_instances_where_new_ones_may_not_go_hold_nothing_that_is_missing(full: Run) -> None:
    full.offer(gpus=0)
    assert len(found(full)) == 1
    full.put({"id": "/a", "constraints": [["gpu_model", "IS", "another"]]}, force=True)
    assert found(full) == []
