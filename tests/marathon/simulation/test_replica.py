"""What a replica lets follow by itself: checks that find a task well, quotas, volumes, and what is under way."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.simulation.dry_run import DryRun, dry_run
from mesos_gpu.marathon.simulation.replica import Replica
from mesos_gpu.marathon.state.events import Event, Moment, Offered, PutApps, Tick
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.placement.demand import WHOLE
from mesos_gpu.placement.demand import Machine as Node
from mesos_gpu.replay.cluster import BEGIN_S, ReplayedCluster
from tests.support.marathon.builders import SETTINGS, T0, Run, app, offer

SEED = "ffffffff-0000-0000-0000-000000000000"


class Marathon(ReplayedCluster):
    """A Marathon's core and its agents, of which this test says what they have."""

    def __init__(self, resources: str = "cpus:4;mem:4096;disk:4096;ports:[31000-31010]") -> None:
        super().__init__({"m0": Node(4000, 4096, (WHOLE,))}, "first_fit")
        self.machine = Machine(AgentId("S0"), "gpu1", Resources.parse(resources))

    def do(self, event: Event) -> None:
        self._tell_marathon(event)
        self._settle()
        self.until(self.now_s + 100)

    def _run(self, agent_id: Any, task_id: Any, task: Mapping[str, Any]) -> None:
        self._durations[str(task["name"])] = float("inf")
        super()._run(agent_id, task_id, task)

    def would(self, event: Event, **headroom: int) -> DryRun:
        moment = Moment(BEGIN_S + self.now_s, ids_from(SEED))
        return dry_run(self._marathon, [event], [self.machine], self._settings, moment, {Role("*"): headroom})


def put(app_id: str, **more: Any) -> PutApps:
    app = {"id": app_id, "cmd": "sleep 1000", "cpus": 1, "mem": 128, "portDefinitions": [], **more}
    return PutApps([app], "D", force=True, partial=False)


def test_a_quota_holds_back_what_is_beyond_it() -> None:
    told = Marathon().would(put("/a", instances=3), cpus=2000)
    assert len(told.starts) == 2
    assert {wait.app: wait.count for wait in told.waits} == {"/a": 1}
    assert not told.done


def test_what_ends_gives_its_part_of_a_quota_back() -> None:
    marathon = Marathon()
    marathon.do(put("/a"))
    (running,) = marathon._marathon.instances.values()
    assert running.task is not None
    used = Resources.parse("cpus:1;mem:128")
    marathon.machine = replace(marathon.machine, id=running.task.agent_id).without(used)
    gently = {"upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}}
    assert [start.app for start in marathon.would(put("/a", cmd="true", **gently), cpus=0).starts] == ["/a"]
    assert marathon.would(put("/b"), cpus=0).starts == ()


def test_checks_find_what_runs_healthy_and_ready() -> None:
    checked = put(
        "/a",
        portDefinitions=[{"port": 0, "name": "http"}],
        healthChecks=[{"protocol": "MESOS_HTTP", "path": "/"}, {"protocol": "TCP", "portIndex": 0}],
        readinessChecks=[{"portName": "http", "path": "/ready"}],
    )
    told = Marathon().would(checked)
    assert told.done
    assert told.now


def test_a_volume_is_reserved_made_and_taken() -> None:
    volume = {"containerPath": "data", "mode": "RW", "persistent": {"size": 64}}
    resident = put(
        "/a",
        role="ml",
        container={"type": "MESOS", "volumes": [volume]},
        upgradeStrategy={"minimumHealthCapacity": 0, "maximumOverCapacity": 0},
    )
    marathon = Marathon()
    marathon._settings = replace(
        marathon._settings, rules=dataclasses.replace(marathon._settings.rules, mesos_role=Role("ml"))
    )
    told = marathon.would(resident)
    assert told.done
    assert [start.app for start in told.starts] == ["/a"]
    (machine,) = told.machines
    assert machine.free.unreserved().milli("disk") == (4096 - 64) * 1000
    assert any(resource.persistence_id for resource in machine.used)


def replace_held(state: State, documents: list[Any]) -> State:
    return State.after(state, {"held": tuple(documents), "held_until_s": T0 + 15, "gathering": True})


def test_what_is_held_is_used_and_not_offered_a_second_time() -> None:
    run = Run(settings=replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED))
    run.subscribe()
    run.put(app("/gang", gpus=1, gang={"size": 2}))
    run.do(Tick(), after_s=10)
    run.do(Offered([offer("O1", agent="S0", host="h0", cpus=2, gpus=1)]))
    run.do(Offered([offer("O2", agent="S1", host="h1", cpus=2, gpus=0)]))
    free = Resources.parse("cpus:2;mem:4096;ports:[31000-31010]")
    machines = [Machine(AgentId(f"S{at}"), f"h{at}", free + Resources.parse("gpus:1")) for at in range(2)]
    held = replace_held(
        run.state,
        [offer("O1", agent="S0", host="h0", cpus=2, gpus=1), {"id": {"value": "O9"}, "agent_id": {"value": "S9"}}],
    )
    for first in (run.state, held):
        replica = Replica(first, machines, run.settings, run.moment, {})
        replica.play(patience_s=6.0)
        assert sorted(start.host for start in replica.starts) == ["h0", "h1"]
        replica = Replica(first, machines, run.settings, run.moment, {}).turned()
        replica.play(patience_s=6.0)
        assert sorted(start.host for start in replica.starts) == ["h0", "h1"]
