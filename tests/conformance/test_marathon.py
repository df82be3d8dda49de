"""What users of Marathon rely on, over HTTP: what is refused where, GPUs, deployments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.matching.matching import GpuBehaviour
from mesos_gpu.marathon.state.actions import Decline, Launch
from mesos_gpu.mesos.conversions import applied, conversions
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.builders import ROLE, SETTINGS, app, offer, scalar
from tests.support.marathon.residents import VOLUME, resident
from tests.support.marathon.service import Marathon, make_marathon, marathon

__all__ = ["make_marathon", "marathon"]  # fixtures

IMAGE = {"docker": {"image": "i"}}
TWO = [{"mode": "container", "name": "a"}, {"mode": "container", "name": "b"}]
MESOS_HTTP = {"protocol": "MESOS_HTTP"}


def mesos(**changes: Any) -> dict[str, Any]:
    return {"type": "MESOS", **IMAGE, **changes}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no id", {"cmd": "sleep 9"}, "/id"),
    *(("an id of other letters", app(name), "/id") for name in ("Foo", "a_b", "-a", "a-")),
    ("an id that ends in /versions", app("/x/versions"), "/id"),
    ("the root as id", app("/"), "/id"),
    ("cpus as text", app(cpus="1"), "/cpus"),
    ("no cpus", app(cpus=0), "/cpus"),
    ("cmd and args", app(args=["x"]), "/"),
    ("nothing to run", {"id": "a"}, "/"),
    ("an image alone", {"id": "a", "container": {"type": "MESOS"}}, "/"),
    ("a container without what it needs", app(container={"type": "DOCKER"}), "/container/docker"),
    ("docker.network NONE", app(container={"docker": {"image": "i", "network": "NONE"}}), "/container/docker/network"),
    ("a container network without a name", app(networks=[{"mode": "container"}], container=mesos()), "/networks(0)"),
    (
        "a host port on one of two networks",
        app(networks=TWO, container=mesos(portMappings=[{"containerPort": 1, "hostPort": 0}])),
        "/container/portMappings(0)",
    ),
    ("a port twice", app(ports=[1, 1]), "/ports"),
    ("uris and fetch", app(uris=["http://h/a"], fetch=[{"uri": "http://h/b"}]), "/uris"),
    ("acceptedResourceRoles", app(acceptedResourceRoles=[]), "/acceptedResourceRoles"),
    ("acceptedResourceRoles", app(acceptedResourceRoles=["other"]), "/acceptedResourceRoles"),
    ("constraints", app(constraints=[["hostname", "UNIQUE", "x"]]), "/constraints(0)"),
    ("constraints", app(constraints=[["rack", "MAX_PER", "x"]]), "/constraints(0)"),
    ("constraints", app(constraints=[["rack", "LIKE", "["]]), "/constraints(0)"),
    ("constraints", app(constraints=[["rack", "FOO"]]), "/constraints(0)"),
    ("a check of a port that is not there", app(healthChecks=[{"portIndex": 3}]), "/healthChecks(0)"),
    ("two MESOS_HTTP checks", app(healthChecks=[MESOS_HTTP, {**MESOS_HTTP, "path": "/b"}]), "/healthChecks"),
    (
        "readiness checks",
        app(readinessChecks=[{"portName": "default", "timeoutSeconds": 30}]),
        "/readinessChecks(0)/timeoutSeconds",
    ),
    ("readiness checks", app(readinessChecks=[{"portName": "x"}]), "/readinessChecks(0)/portName"),
    ("readiness checks", app(readinessChecks=[{"portName": "default"}] * 2), "/readinessChecks"),
    (
        "upgradeStrategy",
        app(upgradeStrategy={"minimumHealthCapacity": 1.2, "maximumOverCapacity": 0}),
        "/upgradeStrategy/minimumHealthCapacity",
    ),
    ("single", app(labels={"MARATHON_SINGLE_INSTANCE_APP": "true"}, instances=2), "/instances"),
    ("gone", app(unreachableStrategy={"inactiveAfterSeconds": 10, "expungeAfterSeconds": 5}), "/unreachableStrategy"),
    ("resourceLimits", app(resourceLimits={"mem": 16}), "/resourceLimits/mem"),
    ("a GPU in a DOCKER container", app(gpus=1, container={"type": "DOCKER", **IMAGE}), "/"),
    ("a GPU in a DOCKER container", app(gpus=1, container=IMAGE), "/"),
    ("parts of a GPU", app(gpus=0.5), "/gpus"),
    ("parts of a GPU", app(gpus=-1), "/gpus"),
]  # fmt: skip

CODES: dict[str, tuple[str, ...]] = {
    "no id": ("error.path.missing",),
    "an id of other letters": ("error.pattern",),
    "cpus as text": ("error.expected.jsnumber",),
    "no cpus": ("error.min",),
    "upgradeStrategy": ("error.max",),
    "parts of a GPU": ("error.expected.int", "error.min"),
}

ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("an id that ends in /versions", app("/versions/x"), {"id": "/versions/x"}),
    ("an image alone", {"id": "a", "container": mesos()}, {}),
    ("network", app(container={"docker": {"image": "i", "network": "host"}}), {"networks": [{"mode": "host"}]}),
    ("ports", app(ports=[8080]), {"portDefinitions": [{"port": 8080, "protocol": "tcp", "labels": {}}]}),
    ("uris", app(uris=["http://h/a.tgz"]), {"fetch": [
        {"uri": "http://h/a.tgz", "extract": True, "executable": False, "cache": False}]}),
    ("uris", app(uris=["http://h/a.txt"]), {"fetch": [
        {"uri": "http://h/a.txt", "extract": False, "executable": False, "cache": False}]}),
    ("acceptedResourceRoles", app(acceptedResourceRoles=["*"]), {"acceptedResourceRoles": ["*"]}),
    ("resourceLimits", app(mem=64, resourceLimits={"mem": "unlimited"}), {"resourceLimits": {"mem": "unlimited"}}),
    ("an unknown key", app(cpu=2), {"cpus": 0.1}),
    ("relative dependencies", app("/prod/web", dependencies=["../db"]), {"dependencies": ["/prod/db"]}),
    ("a GPU", app(gpus=1), {"gpus": 1}),
    ("a GPU in an image", app(gpus=1, container=mesos()), {"gpus": 1}),
    ("parts of a GPU", app(gpus=1.0), {"gpus": 1}),
]  # fmt: skip


async def test_what_is_refused_and_where(marathon: Marathon) -> None:
    for case, document, path in REFUSED:
        answer = await marathon.call("POST", "/v2/apps", document)
        assert answer.status == 422, (case, answer)
        found = {detail["path"]: detail["errors"] for detail in answer.body["details"]}
        assert path in found, (case, answer)
        # The first stage speaks in codes, the second in sentences.
        first = found[path][0].startswith("error.")
        assert answer.body["message"] == ("Invalid JSON" if first else "Object is not valid"), (case, answer)
        assert case not in CODES or found[path][0] in CODES[case], (case, answer)
    assert (await marathon.get("/v2/apps"))["apps"] == []


async def test_what_is_accepted_and_how_it_is_shown(marathon: Marathon) -> None:
    for case, document, shown in ACCEPTED:
        answer = await marathon.call("POST", "/v2/apps", document)
        assert answer.status == 201, (case, answer)
        assert {key: answer.body[key] for key in shown} == shown, case
        assert not {"ports", "uris", "ipAddress", "cpu"} & answer.body.keys()
        removed = await marathon.call("DELETE", "/v2/apps" + answer.headers["Location"])
        assert removed.status == 200, case


async def test_a_bridge_takes_any_host_port_and_docker_is_the_default_type(marathon: Marathon) -> None:
    container = {"docker": {"image": "i", "network": "BRIDGE", "portMappings": [{"containerPort": 80}]}}
    shown = (await marathon.call("POST", "/v2/apps", app(container=container))).body
    assert shown["container"]["type"] == "DOCKER"
    assert shown["networks"] == [{"mode": "container/bridge"}]
    (mapping,) = shown["container"]["portMappings"]
    assert (mapping["containerPort"], mapping["hostPort"], mapping["servicePort"]) == (80, 0, 10000)
    assert "network" not in shown["container"]["docker"]
    assert "portDefinitions" not in shown


async def test_without_the_feature_gpus_are_refused(make_marathon: Callable[..., Any]) -> None:
    rules = AppRules(mesos_role=ROLE, features=frozenset())
    marathon = await make_marathon(settings=replace(SETTINGS, rules=rules))
    answer = await marathon.call("POST", "/v2/apps", app(gpus=1))
    assert (answer.status, answer.body["details"][0]["path"]) == (422, "/")
    assert "gpu_resources is not enabled" in answer.body["details"][0]["errors"][0]


@pytest.mark.parametrize(
    ("case", "flag", "label", "starts"),
    [
        (42, GpuBehaviour.RESTRICTED, None, False),
        (42, GpuBehaviour.RESTRICTED, "unrestricted", True),
        (43, GpuBehaviour.UNRESTRICTED, "restricted", False),
        (44, GpuBehaviour.UNRESTRICTED, "foo", True),
        (44, GpuBehaviour.RESTRICTED, "foo", False),
    ],
)
async def test_who_may_use_agents_with_gpus(
    make_marathon: Callable[..., Any], case: int, flag: GpuBehaviour, label: str | None, starts: bool
) -> None:
    marathon = await make_marathon(settings=replace(SETTINGS, gpu_behaviour=flag))
    labels = {} if label is None else {"GPU_SCHEDULING_BEHAVIOR": label}
    await marathon.call("POST", "/v2/apps", app(labels=labels))
    if starts:
        assert len(await marathon.launched(gpus=2)) == 1
        return
    marathon.link.offer(offer(gpus=2))
    await marathon.link.next(Decline)
    (queued,) = (await marathon.get("/v2/queue?embed=lastUnusedOffers"))["queue"]
    assert queued["lastUnusedOffers"][0]["reason"] == ["DeclinedScarceResources"]
    rows = {row["reason"]: row["declined"] for row in queued["processedOffersSummary"]["rejectSummaryLaunchAttempt"]}
    assert rows["DeclinedScarceResources"] == 1
    assert sum(rows.values()) == 1


async def test_gpus_of_two_roles_make_one_task(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/apps", app(gpus=2))
    extra = [scalar("gpus", 1), scalar("gpus", 1, role=ROLE)]
    marathon.link.offer(offer(gpus=0, extra=extra))
    (info,) = (await marathon.link.next(Launch)).task_infos
    gpus = [(r["role"], r["scalar"]["value"]) for r in info["resources"] if r["name"] == "gpus"]
    assert sorted(gpus) == [("*", 1.0), (ROLE, 1.0)]


async def test_a_change_of_a_full_gpu_agent_waits_unless_it_may_end_the_old_task_first(marathon: Marathon) -> None:
    (old,) = await marathon.running(gpus=1)
    marathon.clock.now_s += 1
    await marathon.call("PUT", "/v2/apps/a", {"labels": {"x": "1"}})
    (deployment,) = await marathon.get("/v2/deployments?embed=blockers")
    assert deployment["blockers"][0]["suggestion"]["upgradeStrategy"]["minimumHealthCapacity"] == 0
    assert "blockers" not in (await marathon.get("/v2/deployments"))[0], "clients get what Marathon's would give"
    marathon.clock.now_s += 1
    strategy = {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}
    await marathon.call("PUT", "/v2/apps/a?force=true", {"upgradeStrategy": strategy})
    await marathon.say(old, "TASK_KILLED")
    (new,) = await marathon.launched(gpus=1)
    await marathon.say(new)
    assert await marathon.get("/v2/deployments") == []


async def reserved(marathon: Marathon, **changes: Any) -> Launch:
    """Create an app with a volume, and return the operations that keep a place for it."""
    answer = await marathon.call("POST", "/v2/apps", resident(**changes))
    assert answer.status == 201, answer
    marathon.link.offer(offer(gpus=changes.get("gpus", 0)))
    launch: Launch = await marathon.link.next(Launch)
    return launch


async def test_a_resident_app_keeps_its_gpus(marathon: Marathon) -> None:
    launch = await reserved(marathon, gpus=1)
    assert [operation["type"] for operation in launch.operations] == ["RESERVE", "CREATE"]
    gpus = [r for r in launch.operations[0]["reserve"]["resources"] if r["name"] == "gpus"]
    assert [(r["scalar"]["value"], r["role"]) for r in gpus] == [(1.0, ROLE)]
    labels = {item["key"]: item["value"] for item in gpus[0]["reservation"]["labels"]["labels"]}
    assert labels["marathon_framework_id"] == marathon.link.framework_id
    assert labels["marathon_task_id"].startswith("a.instance-")
    marathon.clock.now_s += 1
    answer = await marathon.call("PUT", "/v2/apps/a?force=true", {"gpus": 2})
    assert (answer.status, answer.body["message"]) == (422, "Object is not valid")
    (detail,) = answer.body["details"]
    assert detail["path"].endswith("/gpus")
    assert (await marathon.get("/v2/apps/a"))["app"]["gpus"] == 1
    marathon.clock.now_s += 1
    assert (await marathon.call("PUT", "/v2/apps/a?force=true", {"labels": {"x": "1"}})).status == 200


async def test_a_resident_app_starts_where_its_volume_is_and_shows_it(marathon: Marathon) -> None:
    launch = await reserved(marathon)
    here = Resources.from_json(offer()["resources"])
    for operation in launch.operations:
        here = applied(here, conversions(operation))
    marathon.link.offer({**offer("O2"), "resources": here.to_json()})
    started: Launch = await marathon.link.next(Launch)
    (task_id,) = started.task_ids
    assert started.operations == []
    await marathon.say(task_id)
    for path in ("/v2/tasks", "/v2/apps/a/tasks"):
        (task,) = (await marathon.get(path))["tasks"]
        (volume,) = task["localVolumes"]
        assert volume["persistenceId"] == f"a#data#{volume['uuid']}"
    assert (await marathon.get("/v2/deployments")) == []
    marathon.clock.now_s += 1
    answer = await marathon.call("DELETE", "/v2/apps/a/tasks?wipe=true")
    assert [task["id"] for task in answer.body["tasks"]] == [task_id]
    await marathon.say(task_id, "TASK_KILLED")
    marathon.link.offer({**offer("O3"), "resources": here.to_json()})
    freed: Launch = await marathon.link.next(Launch)
    assert [operation["type"] for operation in freed.operations] == ["DESTROY", "UNRESERVE", "RESERVE", "CREATE"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"role": "*"}, "/role"),
        ({"acceptedResourceRoles": [ROLE]}, "/acceptedResourceRoles"),
        ({"upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 0.5}}, "/upgradeStrategy"),
        ({"unreachableStrategy": {"inactiveAfterSeconds": 1, "expungeAfterSeconds": 2}}, "/unreachableStrategy"),
        ({"volumes": [{**VOLUME, "mode": "RO"}]}, "/container/volumes(0)/mode"),
        ({"volumes": [{**VOLUME, "containerPath": "/abs"}]}, "/container/volumes(0)/containerPath"),
        ({"volumes": [{**VOLUME, "persistent": {"size": 0}}]}, "/container/volumes(0)/persistent/size"),
        ({"volumes": [{**VOLUME, "persistent": {"size": 5, "maxSize": 9}}]}, "/container/volumes(0)/persistent"),
    ],
)
async def test_resident_apps_that_cannot_be(marathon: Marathon, changes: dict[str, Any], path: str) -> None:
    answer = await marathon.call("POST", "/v2/apps", resident(**changes))
    assert answer.status == 422
    assert [detail for detail in answer.body["details"] if detail["path"].startswith(path)], answer.body


async def test_a_new_process_keeps_tasks_and_forgets_backoff(marathon: Marathon) -> None:
    kept, task = await marathon.running(instances=2, backoffSeconds=100)
    await marathon.say(task, "TASK_FAILED")
    (queued,) = (await marathon.get("/v2/queue"))["queue"]
    assert queued["delay"]["timeLeftSeconds"] > 90
    framework_id = marathon.link.framework_id
    await marathon.restart()
    assert marathon.link.framework_id == framework_id
    (shown,) = (await marathon.get("/v2/apps/a/tasks"))["tasks"]
    assert (shown["id"], shown["state"]) == (kept, "TASK_RUNNING")
    (queued,) = (await marathon.get("/v2/queue"))["queue"]
    assert (queued["count"], queued["delay"]["timeLeftSeconds"]) == (1, 0)
    (again,) = await marathon.launched()
    assert again == task.replace("._app.1", "._app.2")


async def test_gpus_are_asked_for_by_model_and_memory(marathon: Marathon) -> None:
    constraints = [["gpu_model", "LIKE", "NVIDIA-H200.*"], ["gpu_count", "IS", "8"]]
    await marathon.call("POST", "/v2/apps", app(gpus=1, constraints=constraints))
    told = {"gpu_count": "8", "gpu_model": "NVIDIA-A100"}
    marathon.link.offer(offer(gpus=8, attributes=told))
    await marathon.link.next(Decline)
    assert len(await marathon.launched(gpus=8, attributes={**told, "gpu_model": "NVIDIA-H200-NVL"})) == 1
