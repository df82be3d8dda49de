"""Does an offer fit an app?"""

from __future__ import annotations

import dataclasses
import random
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.topology import best, linked_sets
from mesos_gpu.marathon.definitions.app import read_app
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.matching import queue_requests
from mesos_gpu.marathon.matching.disks import take_volumes
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Refusal, RolesBehaviour, match
from mesos_gpu.marathon.matching.nvlink import free_cards, with_links
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.placement_demand import machine
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.usage import Held
from mesos_gpu.mesos.ids import AgentId, Role, TaskId
from mesos_gpu.mesos.messages import check
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_links import read_links
from mesos_gpu.placement.demand import Demand, Machine
from tests.support.golden import Golden
from tests.support.marathon.builders import ROLE, RULES, SETTINGS, T0, V0, Run, app, offer, scalar, spec

RESTRICTED, UNRESTRICTED = GpuBehaviour.RESTRICTED, GpuBehaviour.UNRESTRICTED


def decide(wanted: RunSpec, behaviour: GpuBehaviour = RESTRICTED, **changes: Any) -> Match | Refusal:
    found = Offer.from_json(offer(**changes))
    return match(wanted, found, found.resources, [], behaviour=behaviour, now_s=T0)


def reasons(wanted: RunSpec, behaviour: GpuBehaviour = RESTRICTED, **changes: Any) -> tuple[Reason, ...]:
    found = decide(wanted, behaviour, **changes)
    return found.reasons if isinstance(found, Refusal) else ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cpus": 0.05}, Reason.INSUFFICIENT_CPUS),
        ({"mem": 31.999}, Reason.INSUFFICIENT_MEMORY),
        ({"disk": 9}, Reason.INSUFFICIENT_DISK),
        ({"gpus": 1}, Reason.INSUFFICIENT_GPUS),
        ({"ports": ()}, Reason.INSUFFICIENT_PORTS),
    ],
)
def test_what_is_missing_is_the_reason(changes: dict[str, Any], reason: Reason) -> None:
    wanted = spec(disk=10, gpus=2)
    assert reasons(wanted, **{"gpus": 2, **changes}) == (reason,)
    assert isinstance(decide(wanted, gpus=2), Match)


def test_every_reason_is_given_in_the_order_of_the_funnel() -> None:
    found = reasons(spec(gpus=2, constraints=[["rack", "IS", "r1"]]), cpus=0.01, mem=0, gpus=1)
    assert found == (
        Reason.UNFULFILLED_CONSTRAINT,
        Reason.INSUFFICIENT_CPUS,
        Reason.INSUFFICIENT_MEMORY,
        Reason.INSUFFICIENT_GPUS,
    )


def test_an_offer_for_another_role_does_not_fit() -> None:
    assert reasons(spec(), allocation_info={"role": "other"}) == (Reason.UNFULFILLED_ROLE,)


def test_resources_of_roles_that_are_not_accepted_do_not_count() -> None:
    wanted = spec(acceptedResourceRoles=["slave_public"])
    assert reasons(wanted)[0] is Reason.UNFULFILLED_ROLE
    assert Reason.INSUFFICIENT_CPUS in reasons(wanted)


@pytest.mark.parametrize(
    ("behaviour", "accepted", "role"),
    [
        (RolesBehaviour.ANY, None, "slave_public"),
        (RolesBehaviour.UNRESERVED, None, "*"),
        (RolesBehaviour.RESERVED, None, "slave_public"),
        (RolesBehaviour.RESERVED, ["*"], "*"),
    ],
)
def test_what_an_app_takes_that_does_not_say_is_the_flags_choice(
    behaviour: RolesBehaviour, accepted: list[str] | None, role: str
) -> None:
    reserved = [scalar(name, 100, "slave_public") for name in ("cpus", "mem", "gpus")]
    found = Offer.from_json(offer(gpus=1, ports=(), extra=reserved))
    given = {} if accepted is None else {"acceptedResourceRoles": accepted}
    wanted = spec(gpus=1, portDefinitions=[], **given)
    result = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, roles_behaviour=behaviour)
    assert isinstance(result, Match)
    assert {resource.role for resource in result.resources} == {role}


def test_an_app_waits_for_what_is_reserved_where_only_that_may_be_taken() -> None:
    found = Offer.from_json(offer(gpus=1, ports=()))
    wanted = spec(gpus=1, portDefinitions=[])
    reserved = RolesBehaviour.RESERVED
    result = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, roles_behaviour=reserved)
    assert isinstance(result, Refusal)
    assert result.reasons[0] is Reason.UNFULFILLED_ROLE


def test_gpus_may_come_from_several_roles() -> None:
    found = decide(spec(gpus=2), gpus=1, extra=[scalar("gpus", 1, "slave_public")])
    assert isinstance(found, Match)
    taken = [(r.role, r.amount) for r in found.resources if r.name == "gpus"]
    assert taken == [("slave_public", 1000), ("*", 1000)]


def test_volumes_revocable_and_labelled_resources_do_not_count() -> None:
    labels = {"labels": [{"key": "marathon_framework_id", "value": "F"}, {"key": "marathon_task_id", "value": "t"}]}
    extra = [
        {**scalar("cpus", 5), "revocable": {}},
        {**scalar("cpus", 5, "slave_public"), "reservation": {"labels": labels}},
        {**scalar("disk", 500, "slave_public"), "disk": {"persistence": {"id": "p"}, "volume": {}}},
    ]
    assert reasons(spec(cpus=2, disk=400), cpus=1, disk=300, extra=extra) == (
        Reason.INSUFFICIENT_CPUS,
        Reason.INSUFFICIENT_DISK,
    )


@pytest.mark.parametrize(
    ("flag", "label", "gpus", "declined"),
    [
        (RESTRICTED, None, 2, True),
        (RESTRICTED, None, 0, False),
        (UNRESTRICTED, None, 2, False),
        (RESTRICTED, "unrestricted", 2, False),
        (UNRESTRICTED, "restricted", 2, True),
        (RESTRICTED, "foo", 2, True),
        (UNRESTRICTED, "foo", 2, False),
    ],
)
def test_scarce_gpus(flag: GpuBehaviour, label: str | None, gpus: int, declined: bool) -> None:
    labels = {} if label is None else {"GPU_SCHEDULING_BEHAVIOR": label}
    found = reasons(spec(labels=labels), flag, gpus=gpus)
    assert found == ((Reason.DECLINED_SCARCE_RESOURCES,) if declined else ())
    assert isinstance(decide(spec(gpus=1, labels=labels), flag, gpus=2), Match)


def test_gpus_of_other_roles_make_an_agent_scarce_too() -> None:
    extra = [scalar("gpus", 1, "other")]
    assert reasons(spec(), extra=extra) == (Reason.DECLINED_SCARCE_RESOURCES,)


@pytest.mark.parametrize(
    ("window", "declined"),
    [
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}}, True),
        ({"start": {"nanoseconds": int((T0 + 10) * 1e9)}}, False),
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}, "duration": {"nanoseconds": 5_000_000_000}}, False),
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}, "duration": {"nanoseconds": 50_000_000_000}}, True),
    ],
)
def test_agents_in_maintenance_are_left_alone(window: dict[str, Any], declined: bool) -> None:
    assert reasons(spec(), unavailability=window) == ((Reason.AGENT_MAINTENANCE,) if declined else ())


def test_a_match_never_takes_more_than_is_offered() -> None:
    found = Offer.from_json(offer(gpus=4))
    wanted = spec(gpus=3, disk=5, portDefinitions=[{"port": 0}, {"port": 0}])
    taken = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, pick=123456)
    assert isinstance(taken, Match)
    assert found.resources.contains(taken.resources)
    assert taken.resources.gpus == 3
    assert len(taken.ports) == 2


def test_constraints_see_the_instances_of_the_app() -> None:
    task = Task("t", "S9", "h0", (), "v", 1.0)
    placed = [Instance("i", "/a", "v", "*", 1.0, phase=Phase.RUNNING, task=task)]
    wanted, found = spec(constraints=[["hostname", "UNIQUE"]]), Offer.from_json(offer(host="h0"))
    refused = match(wanted, found, found.resources, placed, behaviour=RESTRICTED, now_s=T0)
    assert refused == Refusal((Reason.UNFULFILLED_CONSTRAINT,))


def test_what_comes_again_under_another_id_is_not_read_again() -> None:
    first = Offer.from_json(offer("O1", gpus=2, attributes={"rack": "a"}))
    first.reasons["it"] = ()
    common = first.usable((Role("*"),), first.resources)
    again = first.again(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again == Offer.from_json(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again is not None
    assert again.reasons is first.reasons
    assert again.usable((Role("*"),), again.resources) is common
    assert first.again(first.document) is first


@pytest.mark.parametrize(
    "other",
    [{"gpus": 1}, {"attributes": {"rack": "b"}}, {"host": "h2"}, {"cpus": 3}],
    ids=lambda other: next(iter(other)),
)
def test_what_says_anything_else_is_read(other: dict[str, Any]) -> None:
    told: dict[str, Any] = {"gpus": 2, "attributes": {"rack": "a"}}
    assert Offer.from_json(offer("O1", **told)).again(offer("O2", **{**told, **other})) is None


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


TASK_ID = "prod_web.instance-9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f._app.1"


def info(app_id: str = "/prod/web", prefix: str = "", **changes: Any) -> dict[str, Any]:
    wanted, found = spec(app_id, **changes), Offer.from_json(offer(gpus=4, ports=[(31005, 31005), (31009, 31009)]))
    matched = match(wanted, found, found.resources, [], behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert isinstance(matched, Match)
    document = task_info(wanted, TASK_ID, found, matched, env_prefix=prefix)
    assert check("mesos.v1.TaskInfo", document) is None
    return document


def environment(**changes: Any) -> dict[str, str]:
    return {v["name"]: v["value"] for v in info(**changes)["command"]["environment"]["variables"]}


def test_a_command_runs_in_a_shell() -> None:
    document = info(cmd="nvidia-smi -L", gpus=1)
    assert document["name"] == "web.prod"
    assert document["task_id"] == {"value": TASK_ID}
    assert document["agent_id"] == {"value": "S0"}
    command = document["command"]
    assert (command["shell"], command["value"]) == (True, "nvidia-smi -L")
    assert "container" not in document
    assert "executor" not in document


def test_resources_are_what_was_matched_for_our_role() -> None:
    resources = {r["name"]: r for r in info(gpus=1)["resources"]}
    assert resources["gpus"]["scalar"] == {"value": 1.0}
    assert all(r["allocation_info"] == {"role": ROLE} for r in resources.values())
    assert resources["ports"]["ranges"]["range"] == [{"begin": 31005, "end": 31005}]


def test_arguments_run_without_a_shell() -> None:
    command = info(cmd=None, args=["sleep", "5"])["command"]
    assert (command["shell"], command["value"], command["arguments"]) == (False, "sleep", ["sleep", "5"])


def test_arguments_of_an_image_go_to_its_entrypoint() -> None:
    container = {"type": "MESOS", "docker": {"image": "nvidia/cuda", "forcePullImage": True}}
    document = info(cmd=None, args=["-L"], container=container)
    assert "value" not in document["command"]
    image = {"type": "DOCKER", "docker": {"name": "nvidia/cuda"}, "cached": False}
    assert document["container"] == {"type": "MESOS", "mesos": {"image": image}}


def test_an_image_may_bring_its_own_command() -> None:
    command = info(cmd=None, container={"type": "MESOS", "docker": {"image": "x"}})["command"]
    assert command["shell"] is False
    assert "value" not in command


def test_the_docker_engine_is_told_the_task_id() -> None:
    docker = info(container={"type": "DOCKER", "docker": {"image": "x", "privileged": True}})["container"]["docker"]
    assert docker["parameters"] == [{"key": "label", "value": f"MESOS_TASK_ID={TASK_ID}"}]
    assert docker["privileged"] is True


def test_host_volumes_and_linux_settings() -> None:
    volume = {"containerPath": "/data", "hostPath": "/srv", "mode": "RO"}
    linux = {"ipcInfo": {"mode": "PRIVATE", "shmSize": 64}, "seccomp": {"profileName": "p", "unconfined": False}}
    container = info(container={"type": "MESOS", "volumes": [volume], "linuxInfo": linux})["container"]
    assert container["volumes"] == [{"container_path": "/data", "host_path": "/srv", "mode": "RO"}]
    assert container["linux_info"] == {
        "ipc_mode": "PRIVATE",
        "shm_size": 64,
        "seccomp": {"unconfined": False, "profile_name": "p"},
    }


def test_grace_period_limits_labels_user_and_files() -> None:
    document = info(
        taskKillGracePeriodSeconds=7,
        resourceLimits={"cpus": "unlimited", "mem": 64},
        labels={"a": "b"},
        user="nobody",
        fetch=[{"uri": "http://h/a.tgz", "destPath": "b"}],
    )
    assert document["kill_policy"] == {"grace_period": {"nanoseconds": 7_000_000_000}}
    assert document["limits"] == {"cpus": {"value": "Infinity"}, "mem": {"value": 64.0}}
    assert document["labels"] == {"labels": [{"key": "a", "value": "b"}]}
    assert document["command"]["user"] == "nobody"
    uri = {"value": "http://h/a.tgz", "extract": True, "executable": False, "cache": False, "output_file": "b"}
    assert document["command"]["uris"] == [uri]


def test_discovery_names_the_ports() -> None:
    ports = info(portDefinitions=[{"port": 0, "name": "api", "protocol": "udp,tcp", "labels": {"VIP_0": "x"}}])
    labels = {"labels": [{"key": "VIP_0", "value": "x"}]}
    assert ports["discovery"]["visibility"] == "FRAMEWORK"
    assert ports["discovery"]["ports"]["ports"] == [
        {"number": 31005, "protocol": protocol, "name": "api", "labels": labels} for protocol in ("udp", "tcp")
    ]


def test_environment_of_marathon() -> None:
    variables = environment(gpus=1, labels={"my.label": "v", "x" * 493: "too long"})
    assert variables["MESOS_TASK_ID"] == TASK_ID
    assert variables["MARATHON_APP_ID"] == "/prod/web"
    assert variables["MARATHON_APP_VERSION"] == V0
    assert variables["MARATHON_APP_RESOURCE_GPUS"] == "1"
    assert variables["MARATHON_APP_RESOURCE_CPUS"] == "0.1"
    assert variables["MARATHON_APP_RESOURCE_MEM"] == "32.0"
    assert variables["MARATHON_APP_LABELS"] == "MY_LABEL"
    assert variables["MARATHON_APP_LABEL_MY_LABEL"] == "v"
    assert "MARATHON_APP_DOCKER_IMAGE" not in variables
    assert environment()["MARATHON_APP_RESOURCE_GPUS"] == "0"


def test_environment_of_ports() -> None:
    variables = environment(portDefinitions=[{"port": 10007, "name": "my-api"}, {"port": 0}])
    assert (variables["HOST"], variables["PORT"], variables["PORTS"]) == ("h0", "31005", "31005,31009")
    assert (variables["PORT0"], variables["PORT1"]) == ("31005", "31009")
    assert (variables["PORT_10007"], variables["PORT_31009"], variables["PORT_MY_API"]) == ("31005", "31009", "31005")
    assert not any(name.startswith("PORT") for name in environment(portDefinitions=[]))


def test_environment_prefix_is_for_host_and_ports_only() -> None:
    variables = environment(prefix="X_")
    assert variables["X_HOST"] == "h0"
    assert variables["X_PORT0"] == "31005"
    assert "MARATHON_APP_ID" in variables
    assert "HOST" not in variables


@pytest.mark.parametrize("name", ["MESOS_TASK_ID", "PORT0", "MY_OWN"])
def test_the_apps_own_environment_wins(name: str) -> None:
    assert environment(env={name: "mine"})[name] == "mine"


PAIRS = "0-1/2-3/4-5/6-7"


def task(*cards: int, gpus: int = 0, agent: str = "S0") -> Task:
    held = Held(gpus=1000 * (gpus or len(cards)))
    return Task(TaskId("t"), AgentId(agent), "h", (), "v", 0.0, whole_cards=cards, held=held)


def left(gpus: int, *tasks: Task, links: str | None = PAIRS, **changes: Any) -> Machine:
    attributes = {} if links is None else {"gpu_nvlink": links}
    found = Offer.from_json(offer(gpus=gpus, attributes=attributes, **changes))
    return with_links(machine(found, found.resources), found, {"S0": tasks})


def test_an_idle_machine_has_all_its_sets() -> None:
    assert left(8).linked == (frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5}), frozenset({6, 7}))
    assert left(8, links="0-1-2-3-4-5-6-7").most_linked == 8


def test_a_machine_that_says_nothing_has_none() -> None:
    assert left(8, links=None).linked == ()
    assert left(8, links="all").linked == ()
    assert left(1).linked == (), "one GPU is linked with nothing"


@pytest.mark.parametrize(
    ("tasks", "most"),
    [
        ([task(0), task(2), task(4), task(6)], 0),
        ([task(0), task(1), task(2), task(4)], 2),
        ([task(0, 1, 2, 3)], 2),
    ],
)
def test_which_cards_our_tasks_have_counts(tasks: list[Task], most: int) -> None:
    assert left(4, *tasks).most_linked == most


def test_of_tasks_that_did_not_say_yet_it_is_assumed_that_they_got_what_agents_give() -> None:
    assert left(5, task(0), task(gpus=1), task(gpus=1)).most_linked == 2
    assert left(5, task(0), task(gpus=1), task(gpus=1)).linked == left(5, task(0), task(1), task(2)).linked
    assert left(4, task(0), task(gpus=3)).linked == left(4, task(0), task(1, 2, 3)).linked


def test_others_are_taken_for_tidy() -> None:
    """Tasks of other frameworks: nobody tells whose cards are whose."""
    assert left(5).linked == left(5, task(0), task(1), task(2)).linked
    assert left(4, task(3)).linked == left(4, task(3), task(2), task(0), task(1)).linked


def test_cards_beyond_those_of_sets_are_linked_with_nothing() -> None:
    assert left(4, links="0-1").linked == (frozenset({0, 1}),)
    assert left(3, task(0), links="0-1").linked == ()


def test_nothing_that_is_told_can_break_it() -> None:
    chance = random.Random(1)
    sets = read_links("0-1-2-3/4-5-6-7/0-4/1-5/2-6/3-7")
    for _ in range(500):
        tasks = [
            task(*chance.sample(range(10), chance.randint(0, 4)), gpus=chance.randint(0, 9))
            for _ in range(chance.randint(0, 4))
        ]
        count = chance.randint(0, 10)
        assert len(free_cards(sets, tasks, count)) <= max(count, 0) or count > 8


@pytest.mark.parametrize("name", ["pairs", "dgx-1", "dgx-a100"])
def test_what_is_known_of_our_own_tasks_is_how_it_is(name: str) -> None:
    """Random histories of an agent that has no tasks but ours."""
    driver = SimulatedDriver(8, make=Make(topology=name))
    gpus, topology = driver.gpus(), driver.topology()
    sets = linked_sets(gpus, topology)
    for seed in range(30):
        chance, free, tasks = random.Random(seed), set(gpus), []
        for _ in range(20):
            count = chance.choice((1, 1, 2, 3, 4))
            if count <= len(free):
                given = best(free, count, topology)
                free -= given
                tasks.append(given)
            elif tasks:
                free |= tasks.pop(chance.randrange(len(tasks)))
            ours = [task(*sorted(gpu.index for gpu in given)) for given in tasks]
            assert free_cards(sets, ours, len(free)) == sorted(gpu.index for gpu in free)


ALL = dataclasses.replace(RULES, features=frozenset({"external_volumes", "secrets", "gpu_resources"}))
DVDI = {
    "name": "v",
    "provider": "dvdi",
    "size": 5,
    "options": {"dvdi/driver": "rexray", "dvdi/iops": " 7 ", "x/y": "z"},
}


def external(**changes: Any) -> dict[str, Any]:
    volume = {"containerPath": "data", "mode": "RW", "external": {**DVDI, **changes}}
    return app(container={"type": "MESOS", "volumes": [volume]})


def problems(document: dict[str, Any], rules: Any = ALL) -> dict[str, str]:
    with pytest.raises(InvalidApp) as caught:
        read_app(document, rules)
    return {problem.path: problem.message for problem in caught.value.problems}


def launched(document: dict[str, Any]) -> dict[str, Any]:
    spec = versioned(read_app(document, ALL), V0, None)
    what = Offer.from_json(offer())
    found = match(spec, what, what.resources, (), behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert isinstance(found, Match)
    return task_info(spec, "t", what, found)


def test_external_volumes_need_the_feature(golden: Golden) -> None:
    found = problems(external(), RULES)
    assert found["/container/volumes(0)"] == golden


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"provider": "nfs"}, "/container/volumes(0)/external/provider"),
        ({"provider": "csi"}, "/container/volumes(0)/external/provider"),
        ({"provider": None}, "/container/volumes(0)/external/provider"),
        ({"name": ""}, "/container/volumes(0)/external/name"),
        ({"options": {}}, '/container/volumes(0)/external/options("dvdi/driver")'),
        ({"options": {"dvdi/driver": "Bad Name"}}, '/container/volumes(0)/external/options("dvdi/driver")'),
        ({"options": {"dvdi/driver": "rexray", "noslash": "1"}}, "/container/volumes(0)/external/options"),
    ],
)
def test_external_volumes_that_no_provider_knows_are_refused(changes: dict[str, Any], path: str) -> None:
    assert path in problems(external(**changes))


def test_an_external_volume_is_for_one_instance_that_ends_before_the_next_begins() -> None:
    assert "/instances" in problems({**external(), "instances": 2})
    strategy = {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}
    assert "/upgradeStrategy/maximumOverCapacity" in problems({**external(), "upgradeStrategy": strategy})
    assert read_app(external(), ALL)["upgradeStrategy"] == {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}


def test_one_external_volume_is_for_one_app_unless_it_is_shared(golden: Golden) -> None:
    run = Run(settings=replace(SETTINGS, rules=ALL))
    run.subscribe()
    run.put({**external(), "id": "/a"})
    with pytest.raises(InvalidApp) as refused:
        run.put({**external(), "id": "/b"})
    assert str(refused.value) == golden
    run.put({**external(name="w"), "id": "/b"})
    run.put({**external(shared=True), "id": "/c"})
    assert {spec.id for spec in run.state.apps()} == {"/a", "/b", "/c"}


def test_an_external_volume_travels_as_mesos_says_it() -> None:
    (volume,) = launched(external())["container"]["volumes"]
    assert volume == {
        "container_path": "data",
        "mode": "RW",
        "source": {
            "type": "DOCKER_VOLUME",
            "docker_volume": {
                "driver": "rexray",
                "name": "v",
                "driver_options": {"parameter": [{"key": "iops", "value": "7"}, {"key": "size", "value": "5"}]},
            },
        },
    }


def test_secrets_need_the_feature_and_a_definition(golden: Golden) -> None:
    document = app(env={"PASSWORD": {"secret": "password"}}, secrets={"password": {"source": "/db/password"}})
    assert problems(document, RULES)["/"] == golden
    assert "/env/PASSWORD" in problems({**document, "secrets": {}})
    missing = app(container={"type": "MESOS", "volumes": [{"containerPath": "key", "secret": "password"}]})
    assert "/container/volumes(0)" in problems(missing)


def test_secrets_are_left_to_a_plugin_and_there_is_none() -> None:
    volumes = [
        {"containerPath": "key", "secret": "password"},
        {"containerPath": "/h", "hostPath": "/h", "mode": "RO"},
    ]
    info = launched(
        app(
            env={"PASSWORD": {"secret": "password"}, "USER": "u"},
            secrets={"password": {"source": "/db/password"}},
            container={"type": "MESOS", "volumes": volumes},
        )
    )
    variables = {v["name"]: v.get("value") for v in info["command"]["environment"]["variables"]}
    assert variables["USER"] == "u"
    assert "PASSWORD" not in variables
    assert [volume["container_path"] for volume in info["container"]["volumes"]] == ["/h"]


@pytest.mark.parametrize(
    ("container", "default"),
    [
        ({"type": "MESOS", "volumes": [{"containerPath": "d", "mode": "RW", "persistent": {"size": 1}}]}, True),
        ({}, False),
    ],
)
def test_residency_has_no_effect_and_shows_its_defaults_beside_volumes(
    container: dict[str, Any], default: bool
) -> None:
    document = app(residency={"taskLostBehavior": "RELAUNCH_AFTER_TIMEOUT", "relaunchEscalationTimeoutSeconds": 5})
    made = read_app({**document, **({"container": container} if container else {})}, RULES)
    shown = {"relaunchEscalationTimeoutSeconds": 3600, "taskLostBehavior": "WAIT_FOREVER"}
    assert made.get("residency") == (shown if default else None)


def disk(size: float, kind: str | None = None, root: str = "/", profile: str | None = None) -> dict[str, Any]:
    resource: dict[str, Any] = {"name": "disk", "type": "SCALAR", "scalar": {"value": size}, "role": "*"}
    if kind is not None:
        source = {"type": kind, kind.lower(): {"root": root}}
        resource["disk"] = {"source": {**source, "profile": profile} if profile else source}
    return resource


def wish(size: int, kind: str = "root", **changes: Any) -> dict[str, Any]:
    return {"containerPath": "d", "persistent": {"size": size, "type": kind, "constraints": [], **changes}}


def taken(wishes: list[dict[str, Any]], *disks: dict[str, Any]) -> list[tuple[int, str | None]] | None:
    found = take_volumes(wishes, Resources.from_json(disks))
    if found is None:
        return None
    roots = [
        next(iter(d.disk.get("source", {}).get(k, {}).get("root") for k in ("path", "mount") if d.disk), None)
        for d in found
    ]
    return [(int(d.amount) // 1000, root) for d, root in zip(found, roots, strict=True)]  # type: ignore[call-overload]


PATHS = (disk(100), disk(50, "PATH", "/p1"), disk(80, "PATH", "/p2"))
MOUNTS = (disk(100), disk(30, "MOUNT", "/m1"), disk(90, "MOUNT", "/m2"))


def test_root_volumes_share_the_agents_own_disk() -> None:
    assert taken([wish(40), wish(60)], *PATHS) == [(40, None), (60, None)]
    assert taken([wish(40), wish(61)], *PATHS) is None


def test_path_volumes_are_parts_of_the_emptiest_disk() -> None:
    assert [size for size, _ in taken([wish(40, "path"), wish(45, "path")], *PATHS) or ()] == [40, 45]
    assert taken([wish(81, "path")], *PATHS) is None


def test_mount_volumes_are_whole_disks_the_smallest_that_will_do() -> None:
    assert [size for size, _ in taken([wish(20, "mount")], *MOUNTS) or ()] == [30]
    assert [size for size, _ in taken([wish(20, "mount"), wish(20, "mount")], *MOUNTS) or ()] == [30, 90]
    assert taken([wish(40, "mount", maxSize=80)], *MOUNTS) is None
    assert taken([wish(20, "mount"), wish(20, "mount"), wish(1, "mount")], *MOUNTS) is None


def test_constraints_and_profiles_choose_among_disks() -> None:
    like = {"constraints": [["path", "LIKE", "/m2"]]}
    assert [size for size, _ in taken([wish(20, "mount", **like)], *MOUNTS) or ()] == [90]
    unlike = {"constraints": [["path", "UNLIKE", "/m.*"]]}
    assert taken([wish(20, "mount", **unlike)], *MOUNTS) is None
    fast = disk(200, "MOUNT", "/m3", "fast")
    assert [size for size, _ in taken([wish(20, "mount", profileName="fast")], *MOUNTS, fast) or ()] == [200]
    assert taken([wish(20, "mount", profileName="slow")], *MOUNTS, fast) is None


@pytest.mark.parametrize(
    "constraint",
    [["path", "LIKE"], ["path", "UNLIKE", "("], ["path", "LIKE", "(?=/m)/m2"], ["size", "LIKE", "1"]],
    ids=" ".join,
)
def test_expressions_that_choose_disks_are_looked_at(constraint: list[str], golden: Golden) -> None:
    persistent = {"size": 1, "type": "mount", "constraints": [constraint]}
    found = problems(app(container={"type": "MESOS", "volumes": [{"containerPath": "d", "persistent": persistent}]}))
    ((path, message),) = found.items()
    assert "constraints" in path
    assert message == golden


@pytest.mark.timeout(10)
def test_no_expression_keeps_the_choice_of_disks_busy() -> None:
    mount = disk(200, "MOUNT", "/" + "m" * 200)
    assert taken([wish(20, "mount", constraints=[["path", "LIKE", "(.|.|.)*x"]])], mount) is None
    assert taken([wish(20, "mount", constraints=[["path", "UNLIKE", "(.|.|.)*x"]])], mount) is not None
    # One that was kept before its expression was asked for matches nothing.
    assert taken([wish(20, "mount", constraints=[["path", "LIKE"]])], mount) is None


def test_disk_of_an_app_is_no_disk_of_another_kind() -> None:
    spec = versioned(read_app(app(disk=60), RULES), V0, None)
    what = Offer.from_json(offer(disk=50, extra=[disk(100, "MOUNT", "/m")]))
    found = match(spec, what, what.resources, (), behaviour=GpuBehaviour.UNRESTRICTED, now_s=T0)
    assert [reason.value for reason in getattr(found, "reasons", ())] == ["InsufficientDisk"]
