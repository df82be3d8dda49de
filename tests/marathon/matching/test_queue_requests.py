"""Apps and tasks in the words of the queue."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.matching import queue_requests
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.placement.demand import Demand
from tests.support.marathon.builders import spec

DEMAND = Demand(100, 32, 1)


@pytest.mark.parametrize(
    ("changes", "ends_s"),
    [
        ({}, None),
        ({"labels": {"MESOS_GPU_RUN": "true"}}, inf),
        ({"maxRuntimeSeconds": 60}, 163.0),
        ({"maxRuntimeSeconds": 60, "taskKillGracePeriodSeconds": 10}, 170.0),
        ({"maxRuntimeSeconds": 1}, 120.0),
    ],
)
def test_until_when_a_task_runs(changes: dict[str, object], ends_s: float | None) -> None:
    task = Task("t", "S0", "h0", (), "v", 90.0, started_at_s=100.0)
    instance = Instance("i", "/a", "v", "*", 0.0, task=task)
    found = queue_requests.running(instance, task, spec(**changes), "S0", DEMAND, now_s=120.0, ending=False)
    assert (found.ends_s, found.unit, found.ending) == (ends_s, "i", False)
    gang = replace(task, gang=Membership("g", 0, ("h0", "h1"), 31000))
    found = queue_requests.running(instance, gang, spec(**changes), "S0", DEMAND, now_s=120.0, ending=True)
    assert (found.ends_s, found.unit, found.ending) == (120.0, "g", True)


def test_shares_of_roles_are_of_gpus_and_of_cpus_where_nobody_has_gpus() -> None:
    one, none = Demand(1000, 1, 1), Demand(3000, 1, 0)
    assert queue_requests.role_shares([("a", one), ("b", none)]) == {"a": 1.0, "b": 0.0}
    assert queue_requests.role_shares([("a", none), ("b", Demand(1000, 1))]) == {"a": 0.75, "b": 0.25}
    assert queue_requests.role_shares([]) == {}


def test_members_of_a_gang_on_one_machine_share_its_slots() -> None:
    found = Membership("g", 1, ("h0", "h1", "h1"), 31000, 2).variables()
    assert (found["MPI_HOSTS"], found["MASTER_ADDR"], found["RANK"]) == ("h0:2,h1:4", "h0", "1")
