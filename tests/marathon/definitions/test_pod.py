"""Pods read and refused; what they are as run specs, and the task groups that start them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.pod import read_pod, shown
from mesos_gpu.marathon.definitions.runspec import differs_in_config
from mesos_gpu.marathon.state.actions import Launch, TaskGroup
from mesos_gpu.marathon.state.events import PutPod
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import RULES, SETTINGS, Run, container, only, pod, scalar

BRIDGE = [{"mode": "container/bridge"}]
NAMED = [{"mode": "container", "name": "n"}]
WEB = {"name": "web", "hostPort": 0}
INSIDE = {"name": "web", "containerPort": 80, "hostPort": 0}


def one(**changes: Any) -> dict[str, Any]:
    return pod("/p", container(**{"name": "main", **changes}))


def scheduled(**changes: Any) -> dict[str, Any]:
    return pod(scheduling=changes)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"containers": [container()]}, "/id"),
    ({"id": "p"}, "/containers"),
    ({"id": "p", "containers": []}, "/containers"),
    (pod("/a_b"), "/id"),
    (pod("/x/versions"), "/id"),
    (one(name="A"), "/containers(0)/name"),
    (pod("/p", container("a"), container("a")), "/containers"),
    (pod("/p", container("a", endpoints=[WEB]), container("b", endpoints=[WEB])), "/containers"),
    (one(resources={"cpus": 0}), "/containers(0)/resources/cpus"),
    (one(resources={"gpus": 0.5}), "/containers(0)/resources/gpus"),
    (one(exec=None), "/containers(0)"),
    (one(exec={"command": {}}), "/containers(0)/exec/command"),
    (one(exec={"command": {"shell": "a", "argv": ["b"]}}), "/containers(0)/exec/command"),
    (one(exec={"command": {"shell": "a"}, "overrideEntrypoint": False}), "/containers(0)/exec"),
    (one(image={"kind": "APPC", "id": "i"}), "/containers(0)/image/kind"),
    (one(image={"kind": "OTHER", "id": "i"}), "/containers(0)/image/kind"),
    (one(image={"kind": "DOCKER"}), "/containers(0)/image/id"),
    (one(endpoints=[{"name": "web", "hostPort": -1}]), "/containers(0)/endpoints(0)/hostPort"),
    (one(endpoints=[INSIDE]), "/containers(0)/endpoints(0)/containerPort"),
    ({**one(endpoints=[WEB]), "networks": NAMED}, "/containers(0)/endpoints(0)/containerPort"),
    ({**one(endpoints=[INSIDE]), "networks": [*NAMED, {"mode": "container", "name": "m"}]},
     "/containers(0)/endpoints(0)"),
    ({**pod("/p", container("a", endpoints=[INSIDE]), container("b", endpoints=[{**INSIDE, "name": "x"}])),
      "networks": BRIDGE}, "/containers"),
    (one(healthCheck={"exec": {"command": {"shell": "a"}}, "timeoutSeconds": 60}),
     "/containers(0)/healthCheck/timeoutSeconds"),
    ({**one(endpoints=[{**INSIDE, "networkNames": ["x"]}]), "networks": BRIDGE},
     "/containers(0)/endpoints(0)/networkNames"),
    (one(endpoints=[{"name": "a", "hostPort": 80}, {"name": "b", "hostPort": 80}]), "/containers"),
    (one(healthCheck={"http": {"endpoint": "web"}}), "/containers(0)/healthCheck/http/endpoint"),
    (one(healthCheck={}), "/containers(0)/healthCheck"),
    (one(check={"exec": {"command": {}}}), "/containers(0)/check/exec/command"),
    (one(volumeMounts=[{"name": "v", "mountPath": "m"}]), "/containers(0)/volumeMounts(0)/name"),
    (pod(volumes=[{"name": "v"}, {"name": "v"}]), "/volumes"),
    (pod(volumes=[{"name": "v"}]), "/volumes(0)"),
    (one(volumes=[], volumeMounts=[{"name": "s", "mountPath": "m"}]) | {"volumes": [{"name": "s", "secret": "no"}]},
     "/volumes(0)/secret"),
    (pod(environment={"1A": "x"}), "/environment/1A"),
    (one(environment={"A-B": "x"}), "/containers(0)/environment/A-B"),
    (pod(environment={"A": {"secret": "s"}}), "/environment/A"),
    (pod(secrets={"s": {"source": "x"}}), "/"),
    (pod(networks=[{"mode": "container"}]), "/networks(0)"),
    (pod(networks=[{"mode": "host"}, {"mode": "container/bridge"}]), "/networks"),
    (pod(networks=[{"mode": "host", "name": "n"}]), "/networks(0)"),
    (pod(scaling={"instances": 2}), "/scaling/kind"),
    (pod(scaling={"kind": "fixed", "instances": -1}), "/scaling/instances"),
    (scheduled(backoff={"backoffFactor": 0.5}), "/scheduling/backoff/backoffFactor"),
    (scheduled(upgrade={"minimumHealthCapacity": 2}), "/scheduling/upgrade/minimumHealthCapacity"),
    (scheduled(placement={"constraints": [{"fieldName": "rack", "operator": "LIKE", "value": "["}]}),
     "/scheduling/placement/constraints(0)"),
    (scheduled(placement={"acceptedResourceRoles": ["x"]}), "/scheduling/placement/acceptedResourceRoles"),
    (scheduled(unreachableStrategy={"inactiveAfterSeconds": 9}), "/scheduling/unreachableStrategy"),
    (pod(role="x"), "/role"),
    (one(resourceLimits={"mem": 1}), "/containers(0)/resourceLimits/mem"),
    ({**one(resourceLimits={"mem": 64}), "legacySharedCgroups": True}, "/containers(0)/resourceLimits"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "path"), REFUSED)
def test_what_is_refused_and_where(document: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidApp) as refused:
        read_pod(document, RULES)
    assert path in [problem.path for problem in refused.value.problems]


def test_without_the_feature_gpus_are_refused() -> None:
    with pytest.raises(InvalidApp) as refused:
        read_pod(one(resources={"gpus": 1}), replace(RULES, features=frozenset()))
    assert [problem.path for problem in refused.value.problems] == ["/"]


def test_defaults_are_filled_in_at_every_level_and_unknown_keys_dropped() -> None:
    view = shown(read_pod(one(unknown=1, healthCheck={"exec": {"command": {"shell": "true"}}}), RULES))
    (only_container,) = view["containers"]
    assert only_container["resources"] == {"cpus": 0.1, "mem": 32, "disk": 0, "gpus": 0}
    assert only_container["healthCheck"]["intervalSeconds"] == 60
    assert "unknown" not in only_container
    assert view["scaling"] == {"kind": "fixed", "instances": 1}
    assert view["scheduling"]["upgrade"] == {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}
    assert view["scheduling"]["unreachableStrategy"] == {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 0}
    assert view["executorResources"] == {"cpus": 0.1, "mem": 32, "disk": 10}
    assert view["networks"] == [{"mode": "host"}]
    assert (view["id"], view["role"]) == ("/p", RULES.mesos_role)
    assert read_pod(view, RULES) == read_pod(one(healthCheck={"exec": {"command": {"shell": "true"}}}), RULES)


def test_a_pod_asks_for_the_sum_of_its_containers() -> None:
    parts = [container(name, resources={"cpus": 0.1, "gpus": gpus}) for name, gpus in (("a", 1), ("b", 0), ("c", 2))]
    definition = read_pod(pod("/p", *parts), RULES)
    assert (definition["cpus"], definition["mem"], definition["gpus"]) == (0.3, 96, 3)


def test_only_another_number_of_instances_replaces_none() -> None:
    before, more = (read_pod(pod(scaling={"kind": "fixed", "instances": n}), RULES) for n in (1, 2))
    assert not differs_in_config(before, more)
    assert differs_in_config(before, read_pod(pod(labels={"a": "b"}), RULES))


def start(document: dict[str, Any], **offered: Any) -> tuple[Run, TaskGroup]:
    run = Run()
    run.subscribe()
    run.do(PutPod(document, "d"), after_s=1.0)
    (launch,) = only(run.offer(**offered), Launch)
    assert launch.task_infos == []
    (group,) = launch.groups
    return run, group


def total_milli(group: TaskGroup, name: str) -> int:
    infos = [*group.task_infos, group.executor]
    return sum(Resources.from_json(info["resources"]).milli(name) for info in infos)


def test_containers_and_executor_together_take_what_was_found() -> None:
    parts = [
        container("a", resources={"gpus": 2}),
        container("b", endpoints=[{"name": "web", "hostPort": 31005}, WEB | {"name": "x"}]),
    ]
    extra = [scalar("gpus", 1), scalar("gpus", 1, role=RULES.mesos_role)]
    _, group = start(pod("/p", *parts), gpus=0, extra=extra)
    a, b = group.task_infos
    assert {r["role"] for r in a["resources"] if r["name"] == "gpus"} == {"*", RULES.mesos_role}
    assert not [r for r in b["resources"] if r["name"] == "gpus"]
    assert [total_milli(group, name) for name in ("gpus", "cpus", "mem")] == [2000, 300, 96_000]
    assert not [r for r in a["resources"] if r["name"] == "ports"]
    taken = [(p["begin"], p["end"]) for r in b["resources"] if r["name"] == "ports" for p in r["ranges"]["range"]]
    assert sum(end - begin + 1 for begin, end in taken) == 2
    assert b["discovery"]["ports"]["ports"][0]["number"] == 31005
    variables = {v["name"]: v["value"] for v in b["command"]["environment"]["variables"]}
    assert variables["EP_HOST_WEB"] == "31005"
    assert variables["MARATHON_CONTAINER_ID"] == "b"
    assert variables["MARATHON_CONTAINER_RESOURCE_GPUS"] == "0"
    assert variables["MESOS_EXECUTOR_ID"] == group.executor["executor_id"]["value"]
    assert (group.executor["type"], group.executor["framework_id"]) == ("DEFAULT", {"value": "F"})


def test_the_parts_of_a_container_reach_mesos() -> None:
    document = pod(
        "/p",
        container(
            "a",
            exec={"command": {"argv": ["/bin/x", "y"]}, "overrideEntrypoint": True},
            image={"kind": "DOCKER", "id": "img", "forcePull": True},
            endpoints=[INSIDE],
            healthCheck={"http": {"endpoint": "web", "path": "/h", "scheme": "HTTPS"}, "maxConsecutiveFailures": 0},
            check={"tcp": {"endpoint": "web"}},
            volumeMounts=[{"name": "shared", "mountPath": "s"}, {"name": "host", "mountPath": "/h", "readOnly": True}],
            artifacts=[{"uri": "http://h/a.tgz", "destPath": "a"}],
            lifecycle={"killGracePeriodSeconds": 1.5},
            user="nobody",
            labels={"k": "v"},
            resourceLimits={"mem": "unlimited"},
            environment={"A": "container"},
        ),
        container("b", image={"kind": "DOCKER", "id": "img"}, exec=None),
        networks=BRIDGE,
        volumes=[{"name": "shared"}, {"name": "host", "host": "/srv"}],
        environment={"A": "pod", "B": "pod"},
        user="root",
        labels={"pod": "label"},
    )
    _, group = start(document)
    a, b = group.task_infos
    assert a["command"]["shell"] is False
    assert (a["command"]["value"], a["command"]["arguments"]) == ("/bin/x", ["/bin/x", "y"])
    assert (a["command"]["user"], b["command"]["user"]) == ("nobody", "root")
    assert a["command"]["uris"][0]["output_file"] == "a"
    assert b["command"].keys() == {"environment", "shell", "arguments", "user"}
    assert a["container"]["mesos"]["image"]["cached"] is False
    assert a["container"]["volumes"] == [
        {"container_path": "s", "mode": "RW",
         "source": {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": "shared"}}},
        {"container_path": "/h", "mode": "RO", "host_path": "/srv"},
    ]  # fmt: skip
    assert a["health_check"]["http"] == {"port": 80, "scheme": "https", "path": "/h"}
    assert (a["health_check"]["type"], a["check"]["tcp"]) == ("HTTP", {"port": 80})
    assert a["kill_policy"] == {"grace_period": {"nanoseconds": 1_500_000_000}}
    assert a["limits"] == {"mem": {"value": "Infinity"}}
    assert {info["container"]["linux_info"]["share_cgroups"] for info in (a, b)} == {False}
    assert a["labels"] == {"labels": [{"key": "k", "value": "v"}]}
    variables = {v["name"]: v["value"] for v in a["command"]["environment"]["variables"]}
    assert (variables["A"], variables["B"], variables["EP_CONTAINER_WEB"]) == ("container", "pod", "80")
    assert (variables["MARATHON_APP_LABEL_POD"], variables["MARATHON_APP_LABEL_K"]) == ("label", "v")
    (network,) = group.executor["container"]["network_infos"]
    assert [mapping["container_port"] for mapping in network["port_mappings"]] == [80]
    assert group.executor["labels"] == {"labels": [{"key": "pod", "value": "label"}]}


def test_an_offer_must_have_room_for_the_executor_too() -> None:
    run = Run(settings=SETTINGS)
    run.subscribe()
    run.do(PutPod(pod("/p", container("a", resources={"cpus": 1})), "d"), after_s=1.0)
    assert only(run.offer(cpus=1.05), Launch) == []
    assert len(only(run.offer(cpus=1.1), Launch)) == 1


def test_an_app_and_a_pod_may_start_on_one_offer() -> None:
    run = Run()
    run.subscribe()
    run.do(PutPod(pod(), "d"), after_s=1.0)
    run.put({"id": "/a", "cmd": "sleep 1"})
    (launch,) = only(run.offer(), Launch)
    assert (len(launch.task_infos), len(launch.groups), len(launch.task_ids)) == (1, 1, 3)
