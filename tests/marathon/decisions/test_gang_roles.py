"""A gang of a Marathon that has several roles: what is free comes in offers of this role and of that."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.placement.demand import WHOLE, Machine
from tests.support.marathon.stuck_in_order import Cluster

WITHIN_S = 60.0


@pytest.mark.parametrize("machines", [2, 3, 4, 5])
def test_it_starts_although_another_role_is_offered_some_of_the_machines(machines: int) -> None:
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(machines)})
    some = {"cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": []}
    cluster.put({**some, "id": "/small", "role": "team"})
    gang = {"gang": {"size": machines}, "instances": machines, "gpus": 1, "role": "web"}
    cluster.put({**some, "id": "/web/gang", **gang})
    until_s = cluster.now_s + WITHIN_S
    while cluster.now_s < until_s and cluster.state.waiting:
        cluster.until(cluster.now_s + 1)
    running = [i for i in cluster.state.instances_of("/web/gang") if i.phase is Phase.RUNNING]
    assert len(running) == machines
