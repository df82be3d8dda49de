"""/v2/groups, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.state.actions import UpdateRoles
from tests.support.golden import Golden
from tests.support.marathon.builders import app
from tests.support.marathon.service import Marathon


def inside(app_id: str, **changes: Any) -> dict[str, Any]:
    return app(app_id, instances=0, **changes)


TREE = {
    "id": "/prod",
    "groups": [
        {"id": "db", "apps": [inside("sql")]},
        {"id": "web", "dependencies": ["../db"], "apps": [inside("front"), inside("/prod/web/api")]},
    ],
}


async def put(marathon: Marathon, path: str = "/v2/groups", document: Any = None, method: str = "PUT") -> Any:
    marathon.clock.now_s += 1
    answer = await marathon.call(method, path, TREE if document is None else document)
    assert answer.status in (200, 201), answer
    return answer.body


async def ids(marathon: Marathon) -> list[str]:
    return sorted(each["id"] for each in (await marathon.get("/v2/apps"))["apps"])


async def test_a_tree_is_created_shown_and_removed(marathon: Marathon) -> None:
    answer = await marathon.call("POST", "/v2/groups", TREE)
    assert answer.status == 201
    assert set(answer.body) == {"version", "deploymentId"}
    assert answer.headers["Location"] == "/prod"
    assert await ids(marathon) == ["/prod/db/sql", "/prod/web/api", "/prod/web/front"]
    shown = await marathon.get("/v2/groups/prod")
    assert set(shown) == {"id", "apps", "pods", "groups", "dependencies", "version", "enforceRole"}
    assert [group["id"] for group in shown["groups"]] == ["/prod/db", "/prod/web"]
    assert shown["groups"][1]["dependencies"] == ["/prod/db"]
    assert [each["id"] for each in shown["groups"][1]["apps"]] == ["/prod/web/api", "/prod/web/front"]
    apps = (await marathon.get("/v2/apps"))["apps"]
    assert sorted(each["portDefinitions"][0]["port"] for each in apps) == [10000, 10001, 10002]
    assert [each["id"] for each in await marathon.get("/v2/groups/prod/apps")] == await ids(marathon)
    root = await marathon.get("/v2/groups")
    assert (root["id"], [group["id"] for group in root["groups"]]) == ("/", ["/prod"])
    again = await marathon.call("POST", "/v2/groups", TREE)
    assert (again.status, "deployments" in again.body) == (409, False)
    await put(marathon, "/v2/groups/prod/web", method="DELETE")
    assert await ids(marathon) == ["/prod/db/sql"]
    await put(marathon, "/v2/groups", method="DELETE")
    assert await ids(marathon) == []
    assert (await marathon.get("/v2/groups"))["groups"] == []


async def test_an_app_makes_its_groups_and_they_outlive_it(marathon: Marathon, golden: Golden) -> None:
    await marathon.call("POST", "/v2/apps", inside("/a/b/c"))
    await marathon.call("DELETE", "/v2/apps/a/b/c")
    assert (await marathon.get("/v2/groups/a/b"))["apps"] == []
    await marathon.restart()
    assert (await marathon.get("/v2/groups/a"))["groups"][0]["id"] == "/a/b"
    clash = await marathon.call("POST", "/v2/apps", inside("/a/b"))
    assert clash.status == 422
    assert clash.body == golden
    await marathon.call("POST", "/v2/apps", inside("/x"))
    assert (await marathon.call("POST", "/v2/groups", {"id": "/x"})).status == 409
    assert (await marathon.call("POST", "/v2/apps", inside("/x/y"))).status == 422


async def test_lists_that_are_given_replace_and_others_stay(marathon: Marathon) -> None:
    await put(marathon)
    await put(marathon, "/v2/groups/prod/web", {"apps": [inside("front", mem=64)]})
    assert await ids(marathon) == ["/prod/db/sql", "/prod/web/front"]
    await put(marathon, "/v2/groups/prod", {"groups": [{"id": "web"}]})
    assert await ids(marathon) == ["/prod/web/front"]
    await put(marathon, "/v2/groups/prod", {"dependencies": ["/other"]})
    assert await ids(marathon) == ["/prod/web/front"]


async def test_apps_that_wait_for_one_another_are_refused(marathon: Marathon, golden: Golden) -> None:
    apps = [inside("a", dependencies=["../b"]), inside("b", dependencies=["../a"])]
    answer = await marathon.call("PUT", "/v2/groups", {"id": "/prod", "apps": apps})
    assert answer.status == 422
    assert answer.body["details"] == [{"path": "/", "errors": golden}]
    assert await ids(marathon) == []


async def test_dependencies_become_absolute(marathon: Marathon) -> None:
    await put(marathon, document={"id": "/prod", "apps": [inside("web", dependencies=["../db"])]})
    assert (await marathon.get("/v2/apps/prod/web"))["app"]["dependencies"] == ["/prod/db"]


async def test_scale_by_rounds_up_and_a_dry_run_changes_nothing(marathon: Marathon) -> None:
    await put(marathon, document={"id": "/g", "apps": [app("a", instances=3)]})
    await marathon.call("DELETE", f"/v2/deployments/{(await marathon.get('/v2/deployments'))[0]['id']}?force=true")
    dry = await put(marathon, "/v2/groups/g?dryRun=true", {"scaleBy": 1.5})
    assert dry == {"steps": [{"actions": [{"action": "ScaleApplication", "app": "/g/a"}]}]}
    assert (await marathon.get("/v2/apps/g/a"))["app"]["instances"] == 3
    await put(marathon, "/v2/groups/g", {"scaleBy": 1.5})
    assert (await marathon.get("/v2/apps/g/a"))["app"]["instances"] == 5
    both = await marathon.call("PUT", "/v2/groups/g", {"scaleBy": 2, "dependencies": ["/x"]})
    assert both.status == 422


async def test_a_group_goes_back_to_a_former_version(marathon: Marathon) -> None:
    first = await put(marathon)
    await put(marathon, "/v2/groups/prod/web", {"apps": [inside("front", mem=64), inside("new")]})
    listed = await marathon.get("/v2/groups/prod/web/versions")
    assert listed[-1] == first["version"]
    assert len(listed) == 2
    then = await marathon.get(f"/v2/groups/prod/web/versions/{first['version']}")
    assert [each["id"] for each in then["apps"]] == ["/prod/web/front"], "the removed app's versions went with it"
    await put(marathon, "/v2/groups/prod/web", {"version": first["version"]})
    assert await ids(marathon) == ["/prod/db/sql", "/prod/web/front"]
    assert (await marathon.get("/v2/apps/prod/web/front"))["app"]["mem"] == 32
    unknown = await marathon.call("PUT", "/v2/groups/prod", {"version": "2001-01-01T00:00:00.000Z"})
    assert unknown.status == 422
    missing = await marathon.call("GET", "/v2/groups/prod/versions/2001-01-01T00:00:00.000Z")
    assert missing.status == 404


@pytest.mark.parametrize(
    ("document", "message", "path"),
    [
        ({"id": "/g", "apps": {}}, "Invalid JSON", "/apps"),
        ({"id": "/G"}, "Invalid JSON", "/id"),
        ({"id": "/g", "groups": [{"apps": []}]}, "Object is not valid", "/groups(0)/id"),
        ({"id": "/g", "groups": [{"id": "/other"}]}, "Object is not valid", "/groups(0)/id"),
        ({"id": "/g", "groups": [{"id": "h", "apps": [{"id": "a", "gpus": 0.5}]}]}, "Invalid JSON", ""),
        ({"id": "/g", "apps": [{"id": "/elsewhere", "cmd": "sleep 9"}]}, "Object is not valid", "/apps(0)/id"),
        ({"id": "/g", "apps": [{"id": "a", "cmd": "sleep 9"}, {"id": "b"}]}, "Object is not valid", "/apps(1)"),
        ({"id": "/g", "scaleBy": -1}, "Invalid JSON", "/scaleBy"),
        ({"id": "/g/h", "enforceRole": True}, "Object is not valid", "/enforceRole"),
        ({"id": "/g", "pods": [{"id": "p"}]}, "Invalid JSON", "/pods(0)/containers"),
    ],
)
async def test_invalid_groups_say_where(marathon: Marathon, document: Any, message: str, path: str) -> None:
    answer = await marathon.call("PUT", "/v2/groups", document)
    assert answer.status == 422
    assert answer.body["message"] == message
    assert (path or "/groups(0)/apps(0)/gpus") in [detail["path"] for detail in answer.body["details"]]
    assert (await marathon.get("/v2/groups"))["groups"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/groups/nowhere"),
        ("GET", "/v2/groups/nowhere/apps"),
        ("GET", "/v2/groups/NO"),
        ("DELETE", "/v2/groups/nowhere"),
        ("PATCH", "/v2/groups/nowhere"),
        ("PUT", "/v2/groups/nowhere"),
    ],
)
async def test_groups_that_do_not_exist(marathon: Marathon, method: str, path: str) -> None:
    document = {"PATCH": {"enforceRole": True}, "PUT": {"scaleBy": 2}}.get(method)
    assert (await marathon.call(method, path, document)).status == 404


async def test_only_what_is_asked_for_is_embedded(marathon: Marathon) -> None:
    await put(marathon)
    assert "apps" not in await marathon.get("/v2/groups?embed=group.groups")
    shown = await marathon.get("/v2/groups/prod/db?embed=group.apps&embed=group.apps.counts")
    assert "groups" not in shown
    assert shown["apps"][0]["tasksRunning"] == 0
    assert "deployments" not in shown["apps"][0]


async def test_apps_run_in_the_role_of_a_group_that_enforces_it(marathon: Marathon, golden: Golden) -> None:
    await put(marathon, document={"id": "/dev", "enforceRole": True})
    await put(marathon, "/v2/apps", app("/dev/a"), method="POST")
    update: UpdateRoles = await marathon.link.next(UpdateRoles)
    assert update.roles == ["dev", "slave_public"]
    assert (await marathon.get("/v2/apps/dev/a"))["app"]["role"] == "dev"
    wrong = await marathon.call("POST", "/v2/apps", app("/dev/b", role="slave_public"))
    assert wrong.status == 422
    assert wrong.body["details"][0]["path"] == "/role"
    both = await marathon.call("PUT", "/v2/groups/dev", {"enforceRole": False, "apps": []})
    assert both.body == golden
    assert (await marathon.call("PATCH", "/v2/groups/dev", {"enforceRole": False})).status == 200
    assert (await marathon.get("/v2/groups/dev"))["enforceRole"] is False
    assert (await marathon.call("POST", "/v2/apps", app("/dev/b", role="slave_public"))).status == 201


async def test_a_step_waits_for_those_before_it(marathon: Marathon) -> None:
    groups = [{"id": "db", "apps": [app("sql")]}, {"id": "web", "dependencies": ["../db"], "apps": [app("front")]}]
    await put(marathon, document={"id": "/p", "groups": groups})
    (task,) = await marathon.launched()
    assert task.startswith("p_db_sql")
    (deployment,) = await marathon.get("/v2/deployments")
    assert (deployment["currentStep"], deployment["totalSteps"]) == (2, 3)
    await marathon.say(task)
    (front,) = await marathon.launched()
    assert front.startswith("p_web_front")
    await marathon.say(front)
    assert await marathon.get("/v2/deployments") == []
