"""/v2/pods over HTTP: life, states, deployments, groups, events of pods."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.state.actions import Kill, Launch
from tests.support.marathon.builders import app, container, offer, pod
from tests.support.marathon.service import Marathon

CHECKED = container(
    "web",
    endpoints=[{"name": "http", "hostPort": 0}],
    healthCheck={"http": {"endpoint": "http"}, "maxConsecutiveFailures": 2},
)


async def create(marathon: Marathon, document: dict[str, Any] | None = None, **offered: Any) -> list[str]:
    """Create a pod and start its first instance; return the ids of its tasks."""
    answer = await marathon.call("POST", "/v2/pods", document or pod())
    assert answer.status == 201, answer
    return await marathon.launched(**offered)


async def run(marathon: Marathon, document: dict[str, Any] | None = None, **offered: Any) -> list[str]:
    tasks = await create(marathon, document, **offered)
    for task_id in tasks:
        await marathon.say(task_id)
    return tasks


async def status_of(marathon: Marathon) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return the state of the pod, and of each instance and its containers."""
    shown = await marathon.get("/v2/pods/p::status")
    return shown["status"], [
        (item["status"], [c["status"] for c in item.get("containers", ())]) for item in shown["instances"]
    ]


async def test_a_pod_from_its_creation_to_its_end(marathon: Marathon) -> None:
    assert (await marathon.call("HEAD", "/v2/pods")).status == 200
    created = await marathon.call("POST", "/v2/pods", pod(labels={"a": "b"}))
    assert (created.status, created.headers["Location"]) == (201, "/v2/pods/p")
    assert created.body["id"] == "/p"
    assert created.body["labels"] == {"a": "b"}
    assert "secrets" not in created.body
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["id"] == created.headers["Marathon-Deployment-Id"]
    assert (deployment["affectedApps"], deployment["affectedPods"]) == ([], ["/p"])
    assert [step["actions"] for step in deployment["steps"]] == [
        [{"action": "StartPod", "pod": "/p"}],
        [{"action": "ScalePod", "pod": "/p"}],
    ]
    (queued,) = (await marathon.get("/v2/queue"))["queue"]
    assert queued["pod"]["id"] == "/p"
    assert "app" not in queued
    assert await status_of(marathon) == ("DEGRADED", [("PENDING", [])])

    one, two = await marathon.launched()
    assert one.replace(".one.", ".two.") == two
    assert (await status_of(marathon))[1] == [("PENDING", ["TASK_STAGING", "TASK_STAGING"])]
    await marathon.say(one)
    assert (await status_of(marathon))[1] == [("STAGING", ["TASK_RUNNING", "TASK_STAGING"])]
    assert len(await marathon.get("/v2/deployments")) == 1
    await marathon.say(two)
    assert await status_of(marathon) == ("STABLE", [("STABLE", ["TASK_RUNNING", "TASK_RUNNING"])])
    assert await marathon.get("/v2/deployments") == []
    tasks = (await marathon.get("/v2/tasks"))["tasks"]
    assert [(task["id"], task["appId"], task["state"]) for task in tasks] == [
        (one, "/p", "TASK_RUNNING"),
        (two, "/p", "TASK_RUNNING"),
    ]
    assert [shown["id"] for shown in await marathon.get("/v2/pods")] == ["/p"]
    assert [shown["id"] for shown in await marathon.get("/v2/pods/::status")] == ["/p"]

    removed = await marathon.call("DELETE", "/v2/pods/p")
    assert (removed.status, removed.body) == (202, "")
    assert removed.headers["Marathon-Deployment-Id"]
    assert {(await marathon.link.next(Kill)).task_id, (await marathon.link.next(Kill)).task_id} == {one, two}
    await marathon.say(one, "TASK_KILLED")
    assert len(await marathon.get("/v2/deployments")) == 1
    await marathon.say(two, "TASK_KILLED")
    assert await marathon.get("/v2/deployments") == []
    assert (await marathon.call("GET", "/v2/pods/p")).status == 404
    assert (await marathon.call("GET", "/v2/pods/p::status")).status == 404


async def test_an_instance_that_fails_starts_anew_with_backoff_when_all_of_it_has_ended(marathon: Marathon) -> None:
    one, two = await run(marathon)
    await marathon.say(one, "TASK_FAILED", message="exit 1")
    assert await status_of(marathon) == ("DEGRADED", [("DEGRADED", ["TASK_FAILED", "TASK_RUNNING"])])
    await marathon.say(two, "TASK_KILLED")
    (queued,) = (await marathon.get("/v2/queue"))["queue"]
    assert queued["delay"] == {"timeLeftSeconds": 1, "overdue": False}
    (ended,) = (await marathon.get("/v2/pods/p::status"))["terminationHistory"]
    assert ended["message"] == "exit 1"
    assert [item["lastKnownState"] for item in ended["containers"]] == ["TASK_FAILED", "TASK_KILLED"]
    marathon.clock.now_s += 2
    again = await marathon.launched()
    assert again == [one.replace(".one.1", ".one.2"), two.replace(".two.1", ".two.2")]


async def test_a_container_that_comes_to_a_good_end_leaves_the_others_alone(marathon: Marathon) -> None:
    one, two = await run(marathon)
    await marathon.say(one, "TASK_FINISHED")
    assert await status_of(marathon) == ("STABLE", [("STABLE", ["TASK_FINISHED", "TASK_RUNNING"])])
    await marathon.say(one)  # late, and of no account
    assert (await status_of(marathon))[1] == [("STABLE", ["TASK_FINISHED", "TASK_RUNNING"])]
    await marathon.call("DELETE", "/v2/pods/p")
    assert (await marathon.link.next(Kill)).task_id == two


async def test_a_deployment_waits_for_the_health_that_containers_report(marathon: Marathon) -> None:
    (web,) = await run(marathon, pod("/p", CHECKED))
    assert (await status_of(marathon))[0] == "DEGRADED"
    assert len(await marathon.get("/v2/deployments")) == 1
    await marathon.say(web, healthy=True)
    assert (await status_of(marathon))[0] == "STABLE"
    assert await marathon.get("/v2/deployments") == []
    await marathon.say(web, healthy=False)
    shown = await marathon.get("/v2/pods/p::status")
    (status,) = shown["instances"][0]["containers"]
    assert (shown["status"], status["conditions"][0]["value"]) == ("DEGRADED", "false")
    assert status["endpoints"][0]["healthy"] is False
    assert 31000 <= status["endpoints"][0]["allocatedHostPort"] <= 32000
    assert shown["instances"][0]["resources"] == {"cpus": 0.2, "mem": 64, "disk": 10, "gpus": 0}


async def test_a_change_replaces_instances_and_another_number_only_adds_some(marathon: Marathon) -> None:
    old = await run(marathon)
    marathon.clock.now_s += 1
    answer = await marathon.call("PUT", "/v2/pods/p", pod(scaling={"kind": "fixed", "instances": 2}))
    assert (answer.status, answer.body["scaling"]["instances"]) == (200, 2)
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["steps"] == [{"actions": [{"action": "ScalePod", "pod": "/p"}]}]
    assert deployment["currentActions"] == [{"action": "ScalePod", "pod": "/p", "readinessCheckResults": []}]
    for task_id in await marathon.launched():
        await marathon.say(task_id)
    assert await marathon.get("/v2/deployments") == []
    marathon.clock.now_s += 1
    locked = pod(labels={"x": "1"}, scaling={"kind": "fixed", "instances": 2})
    assert (await marathon.call("PUT", "/v2/pods/p", locked)).status == 200
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["steps"] == [{"actions": [{"action": "RestartPod", "pod": "/p"}]}]
    assert (await marathon.call("PUT", "/v2/pods/p", pod())).status == 409
    for task_id in await marathon.launched():
        await marathon.say(task_id)
    for _ in range(4):
        await marathon.say((await marathon.link.next(Kill)).task_id, "TASK_KILLED")
    assert await marathon.get("/v2/deployments") == []
    assert not {task["id"] for task in (await marathon.get("/v2/tasks"))["tasks"]} & set(old)
    versions = await marathon.get("/v2/pods/p::versions")
    assert len(versions) == 3
    first = await marathon.get(f"/v2/pods/p::versions/{versions[-1]}")
    assert (first["version"], first["scaling"]["instances"]) == (versions[-1], 1)
    assert (await marathon.call("GET", "/v2/pods/p::versions/yesterday")).status == 422
    assert (await marathon.call("GET", "/v2/pods/p::versions/2001-01-01T00:00:00.000Z")).status == 404


async def test_instances_are_ended_by_their_ids(marathon: Marathon) -> None:
    one, two = await run(marathon)
    instance = one.partition(".one.")[0]
    assert (await marathon.call("DELETE", "/v2/pods/p::instances/p.instance-x")).status == 404
    answer = await marathon.call("DELETE", f"/v2/pods/p::instances/{instance}")
    assert answer.status == 200
    assert answer.body["instanceId"] == {"idString": instance}
    assert {(await marathon.link.next(Kill)).task_id, (await marathon.link.next(Kill)).task_id} == {one, two}
    assert (await status_of(marathon))[1][0][0] == "TERMINAL"
    for task_id in (one, two):
        await marathon.say(task_id, "TASK_KILLED")
    (queued,) = (await marathon.get("/v2/queue"))["queue"]
    assert queued["delay"]["timeLeftSeconds"] == 0, "to be ended is not a failure"
    many = await marathon.call("DELETE", "/v2/pods/p::instances", [instance, "other"])
    assert [item["instanceId"]["idString"] for item in many.body] == [instance]
    assert (await marathon.call("DELETE", "/v2/pods/p::instances", {"ids": []})).status == 400


async def test_a_task_of_a_pod_that_is_ended_ends_its_instance(marathon: Marathon) -> None:
    one, two = await run(marathon)
    answer = await marathon.call("POST", "/v2/tasks/delete", {"ids": [two]})
    assert [task["id"] for task in answer.body["tasks"]] == [one, two]
    assert {(await marathon.link.next(Kill)).task_id, (await marathon.link.next(Kill)).task_id} == {one, two}


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("POST", "/v2/pods", pod(), 409),
        ("POST", "/v2/apps", app("/p"), 409),
        ("PUT", "/v2/apps/p", app("/p"), 409),
        ("POST", "/v2/pods", pod("/a"), 409),
        ("POST", "/v2/pods", pod("/p/inner"), 422),
        ("PUT", "/v2/pods/p", pod("/q"), 400),
        ("PUT", "/v2/pods/q", pod("/q"), 404),
        ("DELETE", "/v2/pods/q", None, 404),
        ("GET", "/v2/pods/a", None, 404),
        ("GET", "/v2/apps/p", None, 404),
        ("DELETE", "/v2/apps/p", None, 404),
        ("POST", "/v2/pods", {"id": "x", "containers": [{}]}, 422),
        ("POST", "/v2/pods", [], 400),
        ("PUT", "/v2/groups", {"pods": [pod("p")], "apps": [app("p")]}, 409),
        ("PUT", "/v2/groups", {"pods": [pod("n")], "apps": [app("n")]}, 422),
        ("PUT", "/v2/groups/g", {"pods": [{"id": "x"}]}, 422),
    ],
)
async def test_what_does_not_go(marathon: Marathon, method: str, path: str, document: Any, status: int) -> None:
    await marathon.call("POST", "/v2/pods?force=true", pod(scaling={"kind": "fixed", "instances": 0}))
    await marathon.call("POST", "/v2/apps", app("/a", instances=0))
    answer = await marathon.call(method, path, document)
    assert answer.status == status, answer
    assert [shown["id"] for shown in await marathon.get("/v2/pods")] == ["/p"]
    assert [shown["id"] for shown in (await marathon.get("/v2/apps"))["apps"]] == ["/a"]


async def test_pods_lie_in_groups(marathon: Marathon) -> None:
    document = {"pods": [pod("p")], "apps": [app("a")], "groups": [{"id": "deep", "pods": [pod("q")]}]}
    assert (await marathon.call("PUT", "/v2/groups/g", document)).status == 200
    (deployment,) = await marathon.get("/v2/deployments")
    assert (deployment["affectedApps"], deployment["affectedPods"]) == (["/g/a"], ["/g/deep/q", "/g/p"])
    group = await marathon.get("/v2/groups/g")
    assert [shown["id"] for shown in group["pods"]] == ["/g/p"]
    assert [shown["id"] for shown in group["apps"]] == ["/g/a"]
    assert [shown["id"] for shown in group["groups"][0]["pods"]] == ["/g/deep/q"]
    assert [shown["id"] for shown in await marathon.get("/v2/groups/g/apps")] == ["/g/a"]
    assert list(await marathon.get("/v2/apps/g/*")) == ["*"]
    scaled = await marathon.call("PUT", "/v2/groups/g?force=true", {"scaleBy": 2})
    assert scaled.status == 200
    assert (await marathon.get("/v2/apps/g/a"))["app"]["instances"] == 2
    assert (await marathon.get("/v2/pods/g/p"))["scaling"]["instances"] == 1
    assert (await marathon.call("PUT", "/v2/groups/g?force=true", {"pods": []})).status == 200
    assert [shown["id"] for shown in await marathon.get("/v2/pods")] == ["/g/deep/q"]
    assert len((await marathon.get("/v2/apps"))["apps"]) == 1, "the apps were not spoken of"


async def test_pods_and_their_tasks_outlive_the_scheduler(marathon: Marathon) -> None:
    one, two = await create(marathon)
    await marathon.say(one)
    await marathon.restart()
    assert (await status_of(marathon))[1] == [("STAGING", ["TASK_RUNNING", "TASK_STAGING"])]
    await marathon.say(two)
    assert (await status_of(marathon))[0] == "STABLE"
    marathon.link.offer(offer())
    await marathon.settled()
    assert not [call for call in marathon.link.calls if isinstance(call, Launch)], "nothing is started twice"
    await marathon.say(one, "TASK_UNREACHABLE")
    assert (await status_of(marathon))[0] == "DEGRADED"


async def test_a_pod_on_a_lost_machine_is_replaced(marathon: Marathon) -> None:
    document = pod(scheduling={"unreachableStrategy": {"inactiveAfterSeconds": 0, "expungeAfterSeconds": 60}})
    one, two = await run(marathon, document)
    for task_id in (one, two):
        await marathon.say(task_id, "TASK_UNREACHABLE")
    new = await marathon.launched(agent="S1", host="h1")
    assert len(new) == 2
    for task_id in new:
        await marathon.say(task_id)
    assert (await status_of(marathon))[0] == "STABLE"
    for task_id in (one, two):
        await marathon.say(task_id)
    assert {(await marathon.link.next(Kill)).task_id for _ in range(2)} in ({one, two}, set(new))
