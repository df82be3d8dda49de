"""Apps with persistent volumes: reserved once, used again by each task, given back to the last thousandth."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions.orchestrator import next_tick_s
from mesos_gpu.marathon.model.instances import Goal, Phase
from mesos_gpu.marathon.model.reservations import reserved_for
from mesos_gpu.marathon.state.actions import Kill, Launch, Revive, Suppress
from mesos_gpu.marathon.state.events import KillTasks, Offered, RemoveApp, RestartApp, Tick
from mesos_gpu.marathon.views.views import app_view, queue_view, task_views
from mesos_gpu.mesos.resources import Resources
from tests.support.golden import Golden
from tests.support.marathon.builders import ROLE, Run, only
from tests.support.marathon.residents import SHARED, VOLUME, Agent, one, resident


@pytest.fixture
def run() -> Run:
    started = Run(settings=SHARED)
    started.subscribe()
    return started


@pytest.fixture
def agent(run: Run) -> Agent:
    return Agent(run)


def test_what_a_task_needs_is_reserved_before_it_starts_and_the_gpu_with_it(run: Run, agent: Agent) -> None:
    run.put(resident(gpus=1, disk=10))
    agent.offer()
    assert agent.kinds == ["RESERVE", "CREATE"]
    assert (one(run).phase, one(run).reservation.agent_id) == (Phase.SCHEDULED, "S0")
    (volume,) = agent.volumes
    assert volume.startswith("a#data#")
    assert {reserved_for(r) for r in agent.kept} == {("F", one(run).id)}
    assert {r.role for r in agent.kept} == {ROLE}
    kept = agent.kept
    assert (kept.milli("gpus"), kept.milli("cpus"), kept.milli("disk")) == (1000, 100, 110_000)
    agent.settle()
    assert agent.kinds == ["RESERVE", "CREATE", "LAUNCH"]
    assert one(run).phase is Phase.RUNNING
    assert not run.state.lasting.deployments
    assert agent.kept == kept
    assert not agent.free.filter(lambda r: bool(r.reservations)), "the task has all that was reserved"


def test_the_task_is_told_of_its_volume_among_its_resources(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (info,) = agent.infos.values()
    (disk,) = (r["disk"] for r in info["resources"] if "disk" in r)
    assert disk["persistence"]["id"] == agent.volumes[0]
    assert disk["volume"] == {"container_path": "data", "mode": "RW"}
    assert "volumes" not in info["container"]


def test_the_reservation_is_on_disk_before_it_is_asked_for(run: Run, agent: Agent) -> None:
    run.put(resident())
    actions = agent.offer()
    (save,), (launch,) = ([a for a in actions if type(a).__name__ == kind] for kind in ("Save", "Launch"))
    assert actions.index(save) < actions.index(launch)
    assert not launch.task_infos
    assert launch.refuse_s == 0.0
    (instance,) = save.instances.values()
    assert instance.reservation.volumes[0].persistence_id == agent.volumes[0]


def test_a_task_that_ends_is_followed_by_one_with_the_same_volume_on_the_same_agent(run: Run, agent: Agent) -> None:
    run.put(resident(gpus=1))
    agent.settle()
    (first,), volumes, ports = list(agent.tasks), agent.volumes, one(run).task.ports
    agent.end(first)
    other = Agent(run, "S1", host="h1")
    other.settle()
    assert not other.kinds, "its volume is not there"
    (queued,) = queue_view(run.state, run.moment, last_offers=True)
    reasons = [unused["reason"] for unused in queued["lastUnusedOffers"] if unused["offer"]["agentId"] == "S1"]
    assert reasons in ([], [["NoCorrespondingReservationFound"]])
    run.do(Tick(), after_s=2)
    agent.settle()
    (second,) = agent.tasks
    assert (first.rpartition(".")[0], second.rpartition(".")[0]) == (one(run).id + "._app",) * 2
    assert second.endswith("._app.2")
    assert agent.volumes == volumes
    assert one(run).task.ports == ports
    assert agent.kinds.count("RESERVE") == 1


def test_while_it_waits_the_api_shows_its_last_task_and_its_volume(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    (running,) = task_views(run.state.instances_of("/a"))
    agent.end(task_id, "TASK_FAILED")
    (shown,) = task_views(run.state.instances_of("/a"), run.state.app("/a"))
    assert (shown["id"], shown["state"], shown["host"], shown["slaveId"]) == (task_id, "TASK_FAILED", "h0", "S0")
    assert not {"startedAt", "stagedAt", "version"} & shown.keys()
    (volume,) = shown["localVolumes"]
    assert running["localVolumes"] == shown["localVolumes"]
    assert volume == {
        "runSpecId": "/a",
        "containerPath": "data",
        "uuid": volume["uuid"],
        "persistenceId": f"a#data#{volume['uuid']}",
    }
    view = app_view(run.state, run.state.app("/a"))  # type: ignore[arg-type]
    assert (view["tasksStaged"], view["tasksRunning"]) == (0, 0)


def test_scaling_down_keeps_the_volume_and_scaling_up_uses_it_again(run: Run, agent: Agent) -> None:
    run.put(resident(instances=2))
    agent.settle()
    before = agent.volumes
    assert len(before) == 2
    (kill,) = only(run.put({"id": "/a", "instances": 1}), Kill)
    agent.end(kill.task_id, "TASK_KILLED")
    assert not run.state.lasting.deployments
    stopped = next(i for i in run.state.instances_of("/a") if not i.wanted)
    assert (stopped.goal, stopped.condition, stopped.resting) == (Goal.STOPPED, "Killed", True)
    agent.settle()
    assert agent.volumes == before
    assert len(agent.tasks) == 1
    run.put({"id": "/a", "instances": 2})
    agent.settle()
    assert agent.volumes == before
    assert agent.kinds.count("RESERVE") == 2
    assert {i.id for i in run.state.instances_of("/a")} == {stopped.id} | {
        i.id for i in run.state.instances_of("/a") if i.id != stopped.id
    }
    assert all(i.phase is Phase.RUNNING for i in run.state.instances_of("/a"))


def test_an_instance_that_waits_is_shelved_without_a_kill(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.offer()
    agent.run.do(Offered([]))
    actions = run.put({"id": "/a", "instances": 0}, force=True)
    assert not only(actions, Kill)
    assert one(run).resting


def test_wiping_gives_the_volume_back_and_makes_a_new_one(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,), (volume,) = list(agent.tasks), agent.volumes
    run.do(KillTasks([task_id], "d", wipe=True))
    agent.end(task_id, "TASK_KILLED")
    agent.settle()
    assert [kind for kind in agent.kinds if kind in ("DESTROY", "UNRESERVE")] == ["DESTROY", "UNRESERVE"]
    assert len(agent.volumes) == 1
    assert agent.volumes != [volume]
    assert one(run).phase is Phase.RUNNING


def test_wiping_a_shelved_instance_frees_it_too(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (task_id,) = agent.tasks
    run.put({"id": "/a", "instances": 0})
    agent.end(task_id, "TASK_KILLED")
    run.do(KillTasks([task_id], "d", wipe=True))
    assert not run.state.instances_of("/a")
    agent.settle()
    assert agent.free == agent.whole


@pytest.mark.parametrize("volumes", [(VOLUME,), (VOLUME, {**VOLUME, "containerPath": "more"})])
def test_removing_the_app_frees_everything_to_the_last_thousandth(run: Run, agent: Agent, volumes: Any) -> None:
    run.put(resident(gpus=1, cpus=0.123, instances=2, volumes=volumes))
    agent.settle()
    assert len(agent.volumes) == 2 * len(volumes)
    assert agent.free != agent.whole
    run.do(RemoveApp("/a", "d"))
    for task_id in list(agent.tasks):
        agent.end(task_id, "TASK_KILLED")
    assert not run.state.lasting.deployments
    assert len(run.state.releasing) == 2
    (revive,) = only(run.do(Tick(), after_s=30), Revive) or [Revive()]
    assert revive == Revive()
    agent.settle()
    assert agent.free == agent.whole
    assert {i.released for i in run.state.lasting.instances.values()} == {True}
    at_s = next_tick_s(run.state, run.settings, run.moment)
    assert at_s is not None
    actions = run.do(Tick(), after_s=at_s - run.now_s)
    assert not run.state.lasting.instances
    assert only(actions, Suppress) == [Suppress()]


def test_offers_go_on_until_everything_is_given_back(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    run.put({"id": "/a", "instances": 0})
    agent.end(next(iter(agent.tasks)), "TASK_KILLED")
    assert run.state.suppressed
    assert only(run.do(RemoveApp("/a", "d"), after_s=60), Revive) == [Revive()]
    agent.settle()
    assert agent.free == agent.whole


def test_one_instance_goes_below_its_health_to_be_restarted(run: Run, agent: Agent) -> None:
    run.put(resident())
    agent.settle()
    (volume,) = agent.volumes
    (kill,) = only(run.do(RestartApp("/a", "d"), after_s=1), Kill)
    agent.end(kill.task_id, "TASK_KILLED")
    agent.settle()
    assert not run.state.lasting.deployments
    assert agent.volumes == [volume]


def test_instances_that_wait_with_their_volumes_count_for_constraints(run: Run, agent: Agent) -> None:
    run.put(resident(instances=2, gpus=1, constraints=[["hostname", "UNIQUE"]]))
    agent.settle()
    assert agent.kinds == ["RESERVE", "CREATE", "LAUNCH"]
    Agent(run, "S1", host="h1").settle()
    assert all(i.phase is Phase.RUNNING for i in run.state.instances_of("/a"))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"gpus": 2}, "/app(0)/gpus"),
        ({"cpus": 1}, "/app(0)/cpus"),
        ({"mem": 64}, "/app(0)/mem"),
        ({"disk": 1}, "/app(0)/disk"),
        ({"portDefinitions": [{"port": 0}, {"port": 0}]}, "/app(0)"),
        ({"container": {"type": "MESOS", "volumes": [{**VOLUME, "persistent": {"size": 200}}]}}, "/app(0)"),
        ({"container": {"type": "MESOS"}}, "/app(0)"),
        ({"upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}}, "/upgradeStrategy/maximum"),
        ({"unreachableStrategy": {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0}}, "/unreachableStrategy"),
    ],
)
def test_what_was_reserved_cannot_change(run: Run, agent: Agent, change: dict[str, Any], path: str) -> None:
    run.put(resident(gpus=1))
    agent.settle()
    with pytest.raises(InvalidApp) as caught:
        run.put({"id": "/a", **change})
    assert [p.path for p in caught.value.problems if p.path.startswith(path)]


def test_what_an_app_without_volumes_may_change_is_left_to_it(run: Run, golden: Golden) -> None:
    run.put(resident("/b", volumes=(), gpus=1))
    run.put({"id": "/b", "gpus": 2}, force=True)
    with pytest.raises(InvalidApp) as refused:
        run.put(resident("/b", gpus=2), force=True, partial=False)
    assert str(refused.value) == golden


def test_what_is_reserved_and_created_names_the_principal() -> None:
    run = Run(settings=replace(SHARED, principal="ops"))
    run.subscribe()
    run.put(resident(gpus=1))
    (launch,) = only(run.offer(gpus=1), Launch)
    reserve, create = launch.operations
    reserved = Resources.from_json(reserve["reserve"]["resources"])
    assert {each.principal for resource in reserved for each in resource.reservations} == {"ops"}
    (volume,) = Resources.from_json(create["create"]["volumes"])
    assert volume.disk["persistence"]["principal"] == volume.reservations[-1].principal == "ops"
