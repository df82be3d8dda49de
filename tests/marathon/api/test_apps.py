"""/v2/apps, /v2/tasks, /v2/deployments and /v2/queue, over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.state.actions import Decline, Kill, Launch
from tests.support.golden import Golden
from tests.support.marathon.builders import SETTINGS, app, offer, pod
from tests.support.marathon.service import Marathon


async def test_an_app_is_created(marathon: Marathon) -> None:
    answer = await marathon.call("POST", "/v2/apps", {"id": "a", "cmd": "sleep 9"})
    assert answer.status == 201
    body = answer.body
    assert (body["id"], body["cpus"], body["mem"], body["disk"], body["gpus"], body["instances"]) == (
        "/a",
        1,
        128,
        0,
        0,
        1,
    )
    assert body["networks"] == [{"mode": "host"}]
    assert body["portDefinitions"] == [{"port": 10000, "name": "default", "protocol": "tcp", "labels": {}}]
    assert [d["id"] for d in body["deployments"]] == [answer.headers["Marathon-Deployment-Id"]]
    assert (body["tasksStaged"], body["tasksRunning"], body["tasksHealthy"], body["tasksUnhealthy"]) == (0, 0, 0, 0)
    assert body["version"] == body["versionInfo"]["lastConfigChangeAt"]
    assert "tasks" not in body
    assert answer.headers["Location"] == "/a"


async def test_an_app_that_exists_is_a_conflict_without_deployments(marathon: Marathon, golden: Golden) -> None:
    await marathon.call("POST", "/v2/apps", app())
    answer = await marathon.call("POST", "/v2/apps", app())
    assert answer.status == 409
    assert answer.body == {"message": golden}


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("body", ["{", "nonsense", '{"id": "a", }', "\x00"])
async def test_what_is_not_json(marathon: Marathon, body: str) -> None:
    answer = await marathon.call("POST", "/v2/apps", data=body, headers=JSON)
    assert answer.status == 400
    assert answer.body["message"] == "Invalid JSON"
    assert isinstance(answer.body["details"], str)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *(("application/json", 201), ("application/json;charset=utf-8", 201), ("text/plain", 415), ("text/json", 415)),
        *(("application/x-www-form-urlencoded", 415), ("multipart/form-data; boundary=x", 415)),
    ],
)
async def test_what_is_said_to_be_no_json_is_not_read(marathon: Marathon, kind: str, status: int) -> None:
    for path, body in (("/v2/apps", app()), ("/v2/groups", {"id": "/g"}), ("/v2/pods", pod())):
        answer = await marathon.call("POST", path, data=json.dumps(body), headers={"Content-Type": kind})
        assert answer.status == status, answer
        assert status == 201 or answer.body == {"message": "HTTP 415 Unsupported Media Type"}
    assert (len(await marathon.get("/v2/pods")) == 1) is (status == 201)


async def test_what_is_not_an_object(marathon: Marathon, golden: Golden) -> None:
    bodies = ("", "  ", "[]", "5", '"x"', "null")
    answers = [await marathon.call("POST", "/v2/apps", data=body, headers=JSON) for body in bodies]
    ((status, message),) = {(answer.status, answer.body["message"]) for answer in answers}
    assert (status, message) == (400, golden)


@pytest.mark.parametrize(
    ("document", "path", "code"),
    [
        ({"cmd": "sleep 9"}, "/id", "error.path.missing"),
        (app(gpus=0.5), "/gpus", "error.expected.int"),
        (app(gpus=-1), "/gpus", "error.min"),
    ],
)
async def test_invalid_values(marathon: Marathon, document: Any, path: str, code: str) -> None:
    answer = await marathon.call("POST", "/v2/apps", document)
    details = [{"path": path, "errors": [code]}]
    assert (answer.status, answer.body) == (422, {"message": "Invalid JSON", "details": details})
    assert (await marathon.get("/v2/apps")) == {"apps": []}


async def test_values_that_exclude_each_other(marathon: Marathon, golden: Golden) -> None:
    answer = await marathon.call("POST", "/v2/apps", app(gpus=1, container={"docker": {"image": "x"}}))
    details = [{"path": "/", "errors": [golden]}]
    assert (answer.status, answer.body) == (422, {"message": "Object is not valid", "details": details})
    assert (await marathon.get("/v2/apps")) == {"apps": []}


async def test_a_gpu_app_runs(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/apps", app(gpus=1))
    marathon.link.offer(offer(gpus=2))
    (info,) = (await marathon.link.next(Launch)).task_infos
    assert [r["scalar"]["value"] for r in info["resources"] if r["name"] == "gpus"] == [1.0]
    variables = {v["name"]: v["value"] for v in info["command"]["environment"]["variables"]}
    assert variables["MARATHON_APP_RESOURCE_GPUS"] == "1"
    task = info["task_id"]["value"]
    await marathon.say(task)
    shown = (await marathon.get("/v2/apps/a"))["app"]
    assert (shown["gpus"], shown["tasksRunning"], shown["deployments"]) == (1, 1, [])
    (seen,) = shown["tasks"]
    assert (seen["id"], seen["state"], seen["host"], seen["slaveId"]) == (task, "TASK_RUNNING", "h0", "S0")
    assert len(seen["ports"]) == 1
    assert seen["stagedAt"].endswith("Z")
    assert seen["startedAt"]


async def test_a_gpu_app_that_fits_nowhere_says_why(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/apps", app(gpus=4))
    marathon.link.offer(offer(gpus=2))
    await marathon.link.next(Decline)
    (queued,) = (await marathon.get("/v2/queue?embed=lastUnusedOffers"))["queue"]
    assert queued["app"]["id"] == "/a"
    assert queued["count"] == 1
    declined = [r for r in queued["processedOffersSummary"]["rejectSummaryLastOffers"] if r["declined"]]
    assert [r["reason"] for r in declined] == ["InsufficientGpus"]
    (unused,) = queued["lastUnusedOffers"]
    assert unused["offer"]["agentId"] == "S0"


async def test_of_two_gpu_apps_and_one_gpu_the_second_starts_when_the_first_is_removed(marathon: Marathon) -> None:
    (first,) = await marathon.running("/one", gpus=1)
    await marathon.call("POST", "/v2/apps", app("/two", gpus=1))
    marathon.link.offer(offer(gpus=0))
    await marathon.link.next(Decline)
    await marathon.call("DELETE", "/v2/apps/one")
    assert (await marathon.link.next(Kill)).task_id == first
    await marathon.say(first, "TASK_KILLED")
    (second,) = await marathon.launched(gpus=1)
    assert second.startswith("two.")


async def test_put_creates_and_then_scales(marathon: Marathon) -> None:
    answer = await marathon.call("PUT", "/v2/apps/new", app("/ignored"))
    assert answer.status == 201
    assert set(answer.body) == {"version", "deploymentId"}
    for task in await marathon.launched():
        await marathon.say(task)
    answer = await marathon.call("PUT", "/v2/apps/new", {"instances": 3})
    assert answer.status == 200
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["id"] == answer.body["deploymentId"] == answer.headers["Marathon-Deployment-Id"]
    assert deployment["steps"] == [{"actions": [{"action": "ScaleApplication", "app": "/new"}]}]
    assert deployment["affectedApps"] == ["/new"]
    assert (deployment["currentStep"], deployment["totalSteps"]) == (1, 1)
    assert [a["action"] for a in deployment["currentActions"]] == ["ScaleApplication"]


async def test_a_label_change_restarts(marathon: Marathon) -> None:
    await marathon.running()
    await marathon.call("PUT", "/v2/apps/a", {"labels": {"x": "y"}})
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["steps"][0]["actions"][0]["action"] == "RestartApplication"


async def test_a_locked_app_names_its_deployment(marathon: Marathon) -> None:
    running = (await marathon.call("POST", "/v2/apps", app())).headers["Marathon-Deployment-Id"]
    answer = await marathon.call("PUT", "/v2/apps/a", {"mem": 64})
    assert answer.status == 409
    assert answer.body["deployments"] == [{"id": running}]
    assert "force=true" in answer.body["message"]
    assert (await marathon.call("PUT", "/v2/apps/a?force=true", {"mem": 64})).status == 200
    assert running not in [d["id"] for d in await marathon.get("/v2/deployments")]


async def test_a_deployment_is_rolled_back_or_left(marathon: Marathon) -> None:
    await marathon.running(mem=64)
    changed = (await marathon.call("PUT", "/v2/apps/a", {"mem": 128})).body["deploymentId"]
    answer = await marathon.call("DELETE", f"/v2/deployments/{changed}")
    assert answer.status == 200
    assert (await marathon.get("/v2/apps/a"))["app"]["mem"] == 64
    left = await marathon.call("DELETE", f"/v2/deployments/{answer.body['deploymentId']}?force=true")
    assert (left.status, left.body) == (202, "")
    assert (await marathon.call("DELETE", "/v2/deployments/nothing")).status == 404


async def test_versions(marathon: Marathon) -> None:
    first = (await marathon.call("POST", "/v2/apps", app(mem=64))).body["version"]
    marathon.clock.now_s += 1
    await marathon.call("PUT", "/v2/apps/a?force=true", {"mem": 128})
    listed = (await marathon.get("/v2/apps/a/versions"))["versions"]
    assert listed[1:] == [first]
    assert (await marathon.get(f"/v2/apps//a/versions/{first}"))["mem"] == 64
    assert (await marathon.call("GET", "/v2/apps/a/versions/2001-01-01T00:00:00.000Z")).status == 404
    assert (await marathon.call("GET", "/v2/apps/a/versions/yesterday")).status == 422
    assert (await marathon.call("PUT", "/v2/apps/a?force=true", {"version": first})).status == 200
    assert (await marathon.get("/v2/apps/a"))["app"]["mem"] == 64
    answer = await marathon.call("PUT", "/v2/apps/a?force=true", {"version": first, "cpus": 1})
    assert answer.status == 422


async def test_scale_and_wipe_exclude_each_other(marathon: Marathon) -> None:
    (task,) = await marathon.running()
    answer = await marathon.call("DELETE", "/v2/apps/a/tasks?scale=true&wipe=true")
    assert answer.status == 400
    assert (await marathon.call("DELETE", f"/v2/apps/a/tasks/{task}?scale=true&wipe=true")).status == 400


async def test_a_delay_can_be_taken_away(marathon: Marathon) -> None:
    (task,) = await marathon.running(backoffSeconds=100)
    assert (await marathon.call("DELETE", "/v2/queue//a/delay")).status == 404
    await marathon.say(task, "TASK_FINISHED")
    assert (await marathon.call("DELETE", "/v2/queue//a/delay")).status == 204
    assert await marathon.launched() == [task.replace("_app.1", "_app.2")]


async def test_each_end_makes_the_next_start_wait_longer_but_not_that_of_a_kill(marathon: Marathon) -> None:
    (task,) = await marathon.running()

    (instance,) = marathon.scheduler.state.instances_of("/a")
    for number, expected_s in enumerate((1.0, 1.15, 1.3225), start=2):
        await marathon.say(task, "TASK_FINISHED")
        known = marathon.scheduler.state.backoffs["/a"]
        assert known.until_s - marathon.clock.now_s == pytest.approx(expected_s)
        marathon.clock.now_s += expected_s - 0.01
        marathon.link.offer(offer())
        await marathon.link.next(Decline)
        marathon.clock.now_s += 0.02
        (task,) = await marathon.launched()
        assert task == f"{instance.id}._app.{number}"
        await marathon.say(task)
    before = marathon.scheduler.state.backoffs["/a"].delay_s
    await marathon.call("DELETE", "/v2/apps/a/tasks")
    await marathon.say(task, "TASK_KILLED")
    assert marathon.scheduler.state.backoffs["/a"].delay_s == before
    marathon.clock.now_s += before
    assert await marathon.launched() == [f"{instance.id}._app.5"]


async def test_an_unknown_path_is_not_found(marathon: Marathon, golden: Golden) -> None:
    answer = await marathon.call("GET", "/v2/nosuch")
    assert (answer.status, answer.body) == (404, {"message": golden})
    assert (await marathon.call("POST", "/v2/info")).status == 405


async def test_strictly_compatible_it_is_an_error_of_the_server(
    make_marathon: Callable[..., Any], golden: Golden
) -> None:
    marathon = await make_marathon(http_settings=HttpSettings(unknown_uri_status=500))
    answer = await marathon.call("GET", "/v2/nosuch")
    assert (answer.status, answer.body) == (500, {"message": golden})
    assert (await marathon.call("GET", "/v2/apps/none")).status == 404, "that is an app, and not a path"


async def test_too_many_deployments(make_marathon: Callable[..., Any], golden: Golden) -> None:
    marathon = await make_marathon(settings=replace(SETTINGS, max_running_deployments=1))
    await marathon.call("POST", "/v2/apps", app("/a"))
    answer = await marathon.call("POST", "/v2/apps", app("/b"))
    assert answer.status == 403
    assert answer.body["message"] == golden


async def test_kill_with_scale_lowers_the_count_by_as_many(marathon: Marathon) -> None:
    tasks = await marathon.running(instances=3)
    answer = await marathon.call("DELETE", f"/v2/apps/a/tasks/{tasks[0]}?scale=true")
    assert set(answer.body) == {"version", "deploymentId"}
    assert (await marathon.get("/v2/apps/a"))["app"]["instances"] == 2
    await marathon.say(tasks[0], "TASK_KILLED")
    assert await marathon.get("/v2/deployments") == []


async def test_a_removed_app_is_gone_and_its_deployment_ends_with_its_tasks(marathon: Marathon) -> None:
    (task,) = await marathon.running("/group/web")
    answer = await marathon.call("DELETE", "/v2/apps//group/web")
    assert answer.status == 200
    assert (await marathon.call("GET", "/v2/apps/group/web")).status == 404
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["id"] == answer.body["deploymentId"]
    assert deployment["currentActions"][0]["action"] == "StopApplication"
    await marathon.say(task, "TASK_KILLED")
    assert await marathon.get("/v2/deployments") == []
    assert (await marathon.call("DELETE", "/v2/apps//group/web")).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/apps/x"),
        ("GET", "/v2/apps/Not_An_Id"),
        ("GET", "/v2/apps/x/tasks"),
        ("GET", "/v2/apps/x/versions"),
        ("GET", "/v2/apps/x/*"),
        ("DELETE", "/v2/apps/x"),
        ("POST", "/v2/apps/x/restart"),
        ("DELETE", "/v2/apps/x/tasks"),
        ("DELETE", "/v2/apps/x/tasks/t"),
    ],
)
async def test_what_does_not_exist_is_not_found(marathon: Marathon, method: str, path: str) -> None:
    answer = await marathon.call(method, path)
    assert answer.status == 404
    assert f"'/{path.split('/')[3]}'" in answer.body["message"]


async def test_patch_never_creates(marathon: Marathon, golden: Golden) -> None:
    answer = await marathon.call("PATCH", "/v2/apps/x", {"mem": 64})
    assert (answer.status, answer.body) == (404, {"message": golden})
    await marathon.call("POST", "/v2/apps", app())
    assert (await marathon.call("PATCH", "/v2/apps/a?force=true", {"mem": 64})).status == 200
    assert (await marathon.call("PATCH", "/v2/apps", [{"id": "/x", "mem": 64}])).status == 404


async def test_several_apps_in_one_call(marathon: Marathon) -> None:
    answer = await marathon.call("PUT", "/v2/apps", [app("/a"), app("/b")])
    assert answer.status == 200
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["affectedApps"] == ["/a", "/b"]
    assert (await marathon.call("PUT", "/v2/apps", {"id": "/a"})).status == 400


async def test_an_app_as_shown_can_be_sent_back(marathon: Marathon) -> None:
    await marathon.running()
    shown = (await marathon.get("/v2/apps/a"))["app"]
    shown.pop("version")
    answer = await marathon.call("PUT", "/v2/apps/a", shown)
    assert answer.status == 200
    assert await marathon.get("/v2/deployments") == []
    assert (await marathon.call("PUT", "/v2/apps/b?partialUpdate=false", {**shown, "version": "x"})).status == 201


async def test_apps_are_filtered_and_embedded(marathon: Marathon) -> None:
    await marathon.running("/prod/web", labels={"tier": "web"}, cmd="Serve it")
    await marathon.call("POST", "/v2/apps", app("/prod/db", labels={"tier": "db"}))

    async def ids(query: str) -> list[str]:
        return [shown["id"] for shown in (await marathon.get(f"/v2/apps?{query}"))["apps"]]

    assert await ids("") == ["/prod/web", "/prod/db"]
    assert await ids("id=web") == ["/prod/web"]
    assert await ids("cmd=serve") == ["/prod/web"]
    assert await ids("label=tier==db") == ["/prod/db"]
    assert await ids("label=tier%20in%20(web,db),nope") == []
    assert (await marathon.call("GET", "/v2/apps?label=((")).status == 422
    (plain, _) = (await marathon.get("/v2/apps"))["apps"]
    assert "tasks" not in plain
    assert plain["tasksRunning"] == 1
    (full, _) = (await marathon.get("/v2/apps?embed=apps.tasks&embed=apps.nonsense"))["apps"]
    assert len(full["tasks"]) == 1
    group = await marathon.get("/v2/apps//prod/*")
    assert [shown["id"] for shown in group["*"]] == ["/prod/web", "/prod/db"]
    assert len((await marathon.get("/v2/apps/prod/*/tasks"))["tasks"]) == 1


async def test_tasks_are_listed_and_ended(marathon: Marathon) -> None:
    tasks = await marathon.running(instances=2)
    await marathon.call("POST", "/v2/apps", app("/comes"))
    await marathon.launched()
    await marathon.call("POST", "/v2/apps", app("/waits", gpus=8))
    assert (await marathon.get("/v2/apps/waits/tasks")) == {"tasks": []}
    listed = (await marathon.get("/v2/tasks"))["tasks"]
    assert len(listed) == 3
    assert all(task["servicePorts"] for task in listed if task["appId"] == "/a")
    running = (await marathon.get("/v2/tasks?status=running"))["tasks"]
    assert sorted(task["id"] for task in running) == sorted(tasks)
    assert len((await marathon.get("/v2/tasks?status[]=staging"))["tasks"]) == 1
    answer = await marathon.call("POST", "/v2/tasks/delete", {"ids": [tasks[0]]})
    assert [task["id"] for task in answer.body["tasks"]] == [tasks[0]]
    assert (await marathon.link.next(Kill)).task_id == tasks[0]
    assert (await marathon.call("POST", "/v2/tasks/delete", {"ids": ["nonsense"]})).status == 400
    answer = await marathon.call("DELETE", f"/v2/apps/a/tasks/{tasks[1]}")
    assert answer.body["task"]["id"] == tasks[1]
    answer = await marathon.call("DELETE", "/v2/apps/a/tasks?host=elsewhere")
    assert answer.body == {"tasks": []}


async def test_tasks_as_lines_of_text_are_no_more(marathon: Marathon) -> None:
    assert (await marathon.call("GET", "/v2/tasks", headers={"Accept": "text/plain"})).status == 406
    for accept in ("application/json", "text/html, */*;q=0.8", "application/*"):
        assert (await marathon.call("GET", "/v2/tasks", headers={"Accept": accept})).status == 200


async def test_a_restart_makes_a_deployment(marathon: Marathon) -> None:
    await marathon.running()
    answer = await marathon.call("POST", "/v2/apps//a/restart")
    assert answer.status == 200
    (deployment,) = await marathon.get("/v2/deployments")
    assert deployment["id"] == answer.body["deploymentId"]


async def test_what_this_marathon_says_of_itself(marathon: Marathon) -> None:
    await marathon.settled()
    answer = await marathon.call("GET", "/v2/info")
    assert answer.body["frameworkId"] == "F1"
    leader = f"127.0.0.1:{marathon.endpoint.port}"
    assert await marathon.get("/v2/leader") == {"leader": leader}
    assert answer.headers["X-Marathon-Leader"] == f"http://{leader}"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-cache, no-store, must-revalidate"
    assert await marathon.get("/ping") == "pong"
    assert (await marathon.call("GET", "/ping", headers={"Accept": "application/json"})).body == "pong"


async def test_credentials(make_marathon: Callable[..., Any]) -> None:
    marathon = await make_marathon(credentials="user:pass")
    answer = await marathon.call("GET", "/v2/apps")
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    for given, status in (("user:pass", 200), ("user:no", 401), ("", 401)):
        token = base64.b64encode(given.encode()).decode()
        answer = await marathon.call("GET", "/v2/apps", headers={"Authorization": f"Basic {token}"})
        assert answer.status == status
    for given in ("///", "ünïcode", "\U0001f600"):
        assert (await marathon.call("GET", "/v2/apps", headers={"Authorization": f"Basic {given}"})).status == 401


async def test_our_own_mistakes_are_500_and_in_the_log(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mesos_gpu.marathon.api.apps.parse_selector", broken)
    answer = await marathon.call("GET", "/v2/apps")
    assert answer.status == 500
    assert "ZeroDivisionError" in caplog.text
