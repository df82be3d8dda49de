"""Pods with persistent volumes: the executor has them, the containers mount them, and later instances find them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.pod import read_pod, shown
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.model.reservations import reserved_for
from mesos_gpu.marathon.state.actions import Kill, Launch
from mesos_gpu.marathon.state.events import PutPod, Tick
from mesos_gpu.marathon.state.state import restored
from mesos_gpu.marathon.views.pod_views import instance_status, pod_status
from mesos_gpu.marathon.views.views import task_views
from tests.support.golden import Golden
from tests.support.marathon.builders import RULES, SETTINGS, Run, keeping, only, pod, status
from tests.support.marathon.residents import Agent

SHARED = replace(SETTINGS, gpu_behaviour=GpuBehaviour.UNRESTRICTED)


@pytest.fixture
def run() -> Run:
    started = Run(settings=SHARED)
    started.subscribe()
    return started


@pytest.fixture
def agent(run: Run) -> Agent:
    return Agent(run)


def put(run: Run, document: dict[str, Any], **how: Any) -> list[Any]:
    return run.do(PutPod(document, f"d{run.now_s}", **how), after_s=1.0)


def one(run: Run) -> Any:
    (instance,) = run.state.instances_of("/p")
    return instance


def paths(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidApp) as refused:
        read_pod(document, RULES)
    return [problem.path for problem in refused.value.problems]


def test_a_pod_with_volumes_stays_where_they_are_by_default() -> None:
    view = shown(read_pod(keeping(), RULES))
    assert view["volumes"] == [{"name": "data", "persistent": {"size": 100, "type": "root", "constraints": []}}]
    assert view["scheduling"]["upgrade"] == {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}
    assert view["scheduling"]["unreachableStrategy"] == "disabled"
    assert shown(read_pod(view, RULES)) == view
    upgrade = {"upgrade": {"minimumHealthCapacity": 0}}
    lower = shown(read_pod(keeping(scheduling=upgrade), RULES))["scheduling"]["upgrade"]
    assert lower == {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}
    profiled = keeping(volumes=[{"name": "data", "persistent": {"size": 9, "profileName": "fast"}}])
    assert shown(read_pod(profiled, RULES))["volumes"][0]["persistent"]["type"] == "mount"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"volumes": [{"name": "data", "persistent": {}}]}, "/volumes(0)/persistent/size"),
        ({"volumes": [{"name": "data", "persistent": {"size": 0}}]}, "/volumes(0)/persistent/size"),
        ({"volumes": [{"name": "data", "persistent": {"size": 1, "type": "x"}}]}, "/volumes(0)/persistent/type"),
        ({"volumes": [{"name": "data", "persistent": {"size": 1, "maxSize": 2}}]}, "/volumes(0)/persistent/maxSize"),
        (
            {"volumes": [{"name": "data", "persistent": {"size": 1, "constraints": [["path", "LIKE", "/"]]}}]},
            "/volumes(0)/persistent/constraints",
        ),
        ({"scheduling": {"upgrade": {"maximumOverCapacity": 1}}}, "/upgrade/maximumOverCapacity"),
        ({"scheduling": {"unreachableStrategy": {"inactiveAfterSeconds": 0}}}, "/"),
        (
            {"scheduling": {"placement": {"acceptedResourceRoles": ["slave_public"]}}},
            "/scheduling/placement/acceptedResourceRoles",
        ),
        ({"role": "*"}, "/role"),
        ({"volumes": [{"name": "data"}, {"name": "other", "persistent": {"size": 1}}]}, "/volumes(1)"),
    ],
)
def test_what_is_refused_and_where(changes: dict[str, Any], path: str) -> None:
    assert path in paths(keeping(**changes))


def test_volumes_of_secrets_are_left_to_a_plugin_and_there_is_none() -> None:
    secret = {"volumes": [{"name": "data", "secret": "s"}], "secrets": {"s": {"source": "x"}}}
    assert paths(keeping(**secret)) == ["/"], "they need the feature"
    rules = dataclasses.replace(RULES, features=RULES.features | {"secrets"})
    run = Run(settings=replace(SHARED, rules=rules))
    run.subscribe()
    put(run, keeping(**secret))
    (launch,) = only(run.offer(), Launch)
    assert [info.get("container", {}).get("volumes") for info in launch.groups[0].task_infos] == [None, None]


def test_a_pod_that_does_not_change_keeps_its_version_and_its_instance(run: Run, agent: Agent) -> None:
    put(run, keeping())
    agent.settle()
    before, version = one(run), run.state.app("/p").version  # type: ignore[union-attr]
    put(run, keeping(), create=False)
    agent.settle()
    assert run.state.app("/p").version == version  # type: ignore[union-attr]
    assert (one(run).id, one(run).task) == (before.id, before.task)
    assert not run.state.lasting.deployments


def test_the_volume_is_the_executors_and_the_containers_mount_it(run: Run, agent: Agent) -> None:
    put(run, keeping(gpus=1))
    agent.offer()
    assert agent.kinds == ["RESERVE", "CREATE"]
    (volume,) = agent.volumes
    assert volume.startswith("p#data#")
    assert {reserved_for(r) for r in agent.kept} == {("F", one(run).id)}
    kept = agent.kept
    whole = {name: kept.milli(name) for name in ("gpus", "cpus", "mem", "disk")}
    assert whole == {"gpus": 1000, "cpus": 300, "mem": 96_000, "disk": 115_000}, "with the executor's share"
    (launch,) = only(agent.offer(), Launch)
    (group,) = launch.groups
    disks = [r["disk"] for r in group.executor["resources"] if "disk" in r]
    assert [(disk["persistence"]["id"], disk["volume"]) for disk in disks] == [
        (volume, {"container_path": "data", "mode": "RW"})
    ]
    assert all("disk" not in r for info in group.task_infos for r in info["resources"])
    mounts = [info["container"]["volumes"] for info in group.task_infos]
    source = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": "data"}}
    assert mounts == [
        [{"container_path": "here", "mode": "RW", "source": source}],
        [{"container_path": "there", "mode": "RO", "source": source}],
    ]
    agent.settle()
    assert one(run).phase is Phase.RUNNING
    assert not run.state.lasting.deployments
    assert agent.kept == kept
    assert not agent.free.filter(lambda r: bool(r.reservations)), "all that was reserved is in use"


def test_an_instance_that_failed_starts_anew_on_its_volume_and_nowhere_else(run: Run, agent: Agent) -> None:
    put(run, keeping(gpus=1))
    agent.settle()
    volumes, (first, second) = agent.volumes, sorted(agent.tasks)
    instance_id = one(run).id
    agent.end(first)
    waiting = [(task_id, run.state.waiting) for task_id in agent.tasks]
    assert waiting == [(second, {})], "it has not ended before all its containers have"
    agent.end(second, "TASK_KILLED")
    (history,) = pod_status(run.state, run.state.app("/p"), run.moment)["terminationHistory"]  # type: ignore[arg-type]
    assert history["instanceID"] == instance_id
    run.do(Tick(), after_s=2)
    other = Agent(run, "S1", host="h1")
    other.settle()
    assert not other.kinds
    run.state = restored(run.state.lasting)
    run.subscribe()
    agent.settle()
    assert (one(run).id, agent.volumes) == (instance_id, volumes)
    assert sorted(agent.tasks) == [f"{instance_id}.one.2", f"{instance_id}.two.2"]
    assert agent.kinds.count("CREATE") == 1


def test_the_api_says_where_volumes_are_also_while_nothing_runs(run: Run, agent: Agent) -> None:
    put(run, keeping())
    agent.settle()
    running = instance_status(run.state, one(run), run.moment)
    (volume,) = running["localVolumes"]
    assert volume["persistenceId"] == f"p#data#{volume['uuid']}"
    assert (volume["runSpecId"], volume["containerPath"]) == ("/p", "data")
    assert [task["localVolumes"] for task in task_views([one(run)])] == [[volume], [volume]]
    put(run, keeping(instances=0), create=False)
    for task_id in list(agent.tasks):
        agent.end(task_id, "TASK_KILLED")
    resting = instance_status(run.state, one(run), run.moment)
    assert (resting["status"], resting["localVolumes"]) == ("TERMINAL", [volume])
    assert (resting["agentHostname"], resting["agentId"], resting["containers"]) == ("h0", "S0", [])
    assert task_views([one(run)]) == [], "none of its tasks is there any more"
    put(run, keeping(instances=1), create=False)
    agent.settle()
    assert (one(run).phase, instance_status(run.state, one(run), run.moment)["localVolumes"]) == (
        Phase.RUNNING,
        [volume],
    )


def test_a_lost_agent_is_waited_for_and_one_that_an_operator_gave_up_is_not(run: Run, agent: Agent) -> None:
    put(run, keeping())
    agent.settle()
    instance_id = one(run).id
    for task_id in list(agent.tasks):
        run.do(status(task_id, "TASK_UNREACHABLE"))
    run.do(Tick(), after_s=3600)
    assert (one(run).id, one(run).phase) == (instance_id, Phase.UNREACHABLE)
    first, second = sorted(agent.tasks)
    run.do(status(first, "TASK_FAILED"))
    run.do(status(second, "TASK_GONE_BY_OPERATOR"))
    assert one(run).reservation is None, "what that agent kept will not come back"
    run.do(Tick(), after_s=5)
    other = Agent(run, "S1", host="h1")
    other.settle()
    assert one(run).reservation.agent_id == "S1"
    assert one(run).phase is Phase.RUNNING


@pytest.mark.parametrize(
    "changes",
    [
        {"volumes": [{"name": "data", "persistent": {"size": 99}}]},
        {"volumes": [{"name": "data"}]},
        {"executorResources": {"cpus": 0.2}},
        {"gpus": 1},
    ],
)
def test_what_was_reserved_cannot_change(run: Run, agent: Agent, changes: dict[str, Any], golden: Golden) -> None:
    put(run, keeping())
    with pytest.raises(InvalidApp) as refused:
        put(run, keeping(**changes), create=False)
    assert [(problem.path, problem.code) for problem in refused.value.problems] == [("/", golden)]
    put(run, keeping(labels={"a": "b"}, instances=2), create=False, force=True)


def test_host_ports_of_a_pod_with_volumes_stay_and_a_pod_without_may_not_get_some(
    run: Run, agent: Agent, golden: Golden
) -> None:
    document = keeping()
    document["containers"][0]["endpoints"] = [{"name": "web"}]
    put(run, document)
    agent.settle()
    ports = one(run).task.ports
    assert len(ports) == 1
    for task_id in list(agent.tasks):
        agent.end(task_id, "TASK_FAILED")
    run.do(Tick(), after_s=5)
    agent.settle()
    assert one(run).task.ports == ports, "the port is reserved too"
    document["containers"][0]["endpoints"] = [{"name": "web", "hostPort": 31500}]
    with pytest.raises(InvalidApp) as refused:
        put(run, document, create=False)
    assert str(refused.value) == golden
    put(run, pod("/q"))
    with pytest.raises(InvalidApp) as refused:
        put(run, keeping("/q"), create=False)
    assert str(refused.value) == golden


def test_containers_share_what_is_kept_for_their_instance(run: Run, agent: Agent) -> None:
    """Also when they are given it again in other parts: the sum is what may not change."""
    put(run, keeping(gpus=1))
    agent.settle()
    document = keeping(gpus=1)
    document["containers"][0]["resources"]["cpus"] = 0.15
    document["containers"][1]["resources"]["cpus"] = 0.05
    actions = put(run, document, create=False)
    for kill in only(actions, Kill):
        agent.end(kill.task_id, "TASK_KILLED")
    agent.settle()
    taken = {task_id.split(".")[2]: resources for task_id, resources in agent.tasks.items()}
    assert {name: part.milli("cpus") for name, part in taken.items()} == {"one": 150, "two": 50}
    (_, executor) = next(iter(agent.executors.values()))
    assert (executor.milli("cpus"), [r.persistence_id for r in executor if r.persistence_id]) == (100, agent.volumes)
