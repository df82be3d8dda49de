"""A gang of a Marathon that has several roles: what is free comes in offers of this role and of that."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.events import KillTasks
from mesos_gpu.master.events.operators import ReactivateAgent
from mesos_gpu.placement.demand import WHOLE, Machine
from tests.support.marathon.stuck_in_order import ROLE, Cluster

SOME = {"cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": []}


def starts(cluster: Cluster, app_id: str, within_s: float) -> bool:
    """Whether all that there is to be of an app runs, so much later at the latest."""

    def running() -> bool:
        return all(i.phase is Phase.RUNNING for i in cluster.state.instances_of(app_id))

    until_s = cluster.now_s + within_s
    while cluster.now_s < until_s and not running():
        cluster.until(cluster.now_s + 1)
    return running()


@pytest.mark.parametrize("machines", [2, 3, 4, 5])
def test_it_starts_although_another_role_is_offered_some_of_the_machines(machines: int) -> None:
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(machines)})
    cluster.put({**SOME, "id": "/small", "role": "team"})
    gang = {"gang": {"size": machines}, "instances": machines, "gpus": 1, "role": "web"}
    cluster.put({**SOME, "id": "/web/gang", **gang})
    assert starts(cluster, "/web/gang", 60.0)
    assert len(cluster.state.instances_of("/web/gang")) == machines


def test_a_machine_stays_refused_in_the_role_that_waits_while_it_is_offered_in_another() -> None:
    # The gang's role refused m0 for two minutes, and is not offered it again when m1 comes back; the other role is.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.deactivate("m1")
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 1, "role": ROLE})
    cluster.until(cluster.now_s + 15)
    assert not starts(cluster, "/gang", 0.0)
    (m1,) = (machine.id for machine in cluster.scenario().machines if machine.host == "m1")
    cluster.order(ReactivateAgent(m1))
    assert starts(cluster, "/gang", 30.0)


def test_what_comes_free_of_a_machine_is_offered_with_what_was_free_there() -> None:
    # What /busy gives back comes in an offer of the other role, beside the offer of the rest that is held.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,) * 2) for at in range(2)})
    cluster.put({**SOME, "id": "/busy", "gpus": 2, "role": ROLE, "preemptible": True})
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 2, "role": ROLE, "priority": 1})
    assert starts(cluster, "/gang", 30.0)


def test_what_gave_way_does_not_start_again_on_what_it_gave() -> None:
    # What /web/busy gives back is offered in its own role, beside the offer of the rest that is held for the gang.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.put({**SOME, "id": "/web/busy", "role": "web", "cpus": 3, "instances": 2, "preemptible": True})
    assert starts(cluster, "/web/busy", 30.0)
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "cpus": 3, "role": ROLE, "priority": 1})
    assert starts(cluster, "/gang", 30.0)


def test_machines_of_one_value_that_were_refused_at_different_times_come_together() -> None:
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,), "a100" if at < 2 else "t4") for at in range(4)})
    cluster.put({**SOME, "id": "/busy", "cpus": 3, "constraints": [["hostname", "IS", "m0"]], "role": ROLE})
    cluster.put({**SOME, "id": "/other", "cpus": 3, "constraints": [["hostname", "IS", "m2"]], "role": ROLE})
    gang = {"gang": {"size": 2}, "cpus": 3, "constraints": [["gpu_model", "CLUSTER"]], "role": ROLE}
    cluster.put({**SOME, "id": "/gang", **gang})
    cluster.until(cluster.now_s + 30)
    assert not starts(cluster, "/gang", 0.0)
    (task,) = (i.task for i in cluster.state.instances_of("/busy") if i.task is not None)
    cluster.ask(KillTasks([task.id], "D", scale=True, force=True))
    assert starts(cluster, "/gang", 30.0)


def test_offers_are_not_asked_for_again_and_again_while_a_quota_is_short() -> None:
    # Each of the machines would do for a member, and the quota lets the role have one of them at a time.
    cluster = Cluster({f"m{at}": Machine(4000, 4096, (WHOLE,)) for at in range(2)})
    cluster.limit(ROLE, {"gpus": 1000})
    cluster.put({**SOME, "id": "/gang", "gang": {"size": 2}, "gpus": 1, "role": ROLE})
    cluster.until(cluster.now_s + 60)
    revived: set[float] = set()
    until_s = cluster.now_s + 300
    while cluster.now_s < until_s:
        cluster.until(cluster.now_s + 1)
        revived.add(cluster.state.revived_s)
    assert len(revived) <= 11
    cluster.limit(ROLE, {"gpus": 2000})
    assert starts(cluster, "/gang", 60.0)
