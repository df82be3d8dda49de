"""Paths with and without a slash at the end, and headers that come twice: as a JAX-RS server takes them."""

from __future__ import annotations

import pytest

from mesos_gpu.marathon.api.openapi_routes import routes_of
from tests.support.marathon.builders import pod
from tests.support.marathon.service import Marathon

# What changes between two calls, or does not end.
RUN = {"cmd": "true", "cpus": 0.1, "mem": 32, "disk": 0}
_NOT_TWICE = {"/metrics", "/metrics/prometheus", "/v2/events"}


async def test_a_slash_at_the_end_changes_no_answer(marathon: Marathon) -> None:
    [task_id] = await marathon.running()
    assert (await marathon.call("POST", "/v2/pods", pod("/p"))).status == 201
    assert (await marathon.call("POST", "/v1/jobs", {"id": "j", "run": RUN})).status == 201
    [version] = (await marathon.get("/v2/apps/a/versions"))["versions"]
    [pod_version] = await marathon.get("/v2/pods/p::versions")
    names = {"app_id": "a", "pod_id": "p", "job_id": "j", "group_id": "", "deployment_id": "d", "task_id": task_id}
    asked = set()
    for route in routes_of(marathon.app):
        if route.method != "GET" or route.path in _NOT_TWICE or "{run_id}" in route.path:
            continue
        path = route.path.format(
            **names, version=pod_version if "::" in route.path else version, schedule_id="s", instance_id="i"
        )
        plain = await marathon.call("GET", path)
        with_slash = await marathon.call("GET", path.rstrip("/") + "/")
        assert (with_slash.status, with_slash.body) == (plain.status, plain.body), path
        asked.add((route.path, plain.status))
    assert {("/v2/apps", 200), ("/ping", 200), ("/v2/info", 200), ("/v2/apps/{app_id}/tasks", 200)} <= asked
    assert {("/v2/pods/::status", 200), ("/v2/pods/{pod_id}::status", 200), ("/v1/jobs/{job_id}", 200)} <= asked
    assert len([status for _, status in asked if status == 200]) > 20


async def test_changes_take_a_slash_too(marathon: Marathon) -> None:
    answer = await marathon.call("POST", "/v2/apps/", {"id": "/b", "cmd": "true", "instances": 0})
    assert answer.status == 201, answer
    assert (await marathon.call("PUT", "/v2/apps/b/", {"cmd": "false"}, params={"force": "true"})).status == 200
    assert (await marathon.get("/v2/apps/b/"))["app"]["cmd"] == "false"
    assert (await marathon.call("DELETE", "/v2/apps/b/", params={"force": "true"})).status == 200


@pytest.mark.parametrize("path", ["/v2/pods::status", "/v2/appsx/", "/v2//apps", "/v2/info//"])
async def test_other_paths_are_not_there(marathon: Marathon, path: str) -> None:
    assert (await marathon.call("GET", path)).status == 404


async def test_accept_headers_count_together(marathon: Marathon) -> None:
    headers = [("Accept", "image/png"), ("Accept", "application/json")]
    assert (await marathon.call("GET", "/v2/tasks", headers=headers)).status == 200
    assert (await marathon.call("GET", "/ping", headers=headers)).body == "pong"
    assert (await marathon.call("GET", "/v2/tasks", headers=headers[:1])).status == 406
