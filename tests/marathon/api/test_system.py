"""Plugins, the levels of the log, a sign of life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mesos_gpu.marathon.api.openapi_routes import routes_of
from tests.support.marathon.builders import pod
from tests.support.marathon.service import Marathon

NAME = "mesos_gpu.marathon.test_api_system"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)


async def test_there_are_no_plugins(marathon: Marathon) -> None:
    assert await marathon.get("/v2/plugins") == {"plugins": []}


@pytest.mark.parametrize(
    ("accept", "status", "body"),
    [
        ("application/json", 200, "pong"),
        ("text/plain", 200, "pong"),
        ("text/html,application/xhtml+xml", 200, "pong"),
        ("*/*", 200, "pong"),
        ("image/png", 204, None),
    ],
)
async def test_a_sign_of_life_in_the_form_that_is_accepted(
    marathon: Marathon, accept: str, status: int, body: Any
) -> None:
    answer = await marathon.call("GET", "/ping", headers={"Accept": accept})
    assert answer.status == status
    assert body is None or answer.body == body


async def test_the_level_of_a_logger_is_shown_and_changed(marathon: Marathon, logger: logging.Logger) -> None:
    assert (await marathon.get("/logging"))[NAME].endswith(" (inherited)")
    change = {"logger": NAME, "level": "warn"}
    answer = await marathon.call("POST", "/logging", change)
    assert (answer.status, answer.body) == (200, change)
    assert logger.level == logging.WARNING
    assert (await marathon.get("/logging"))[NAME] == "WARN"


async def test_a_level_changes_for_a_while(marathon: Marathon, logger: logging.Logger) -> None:
    logger.setLevel(logging.ERROR)
    for level in ("debug", "OFF"):
        answer = await marathon.call("POST", "/logging", {"logger": NAME, "level": level, "durationSeconds": 1})
        assert answer.body == {"logger": NAME, "level": level.lower(), "durationSeconds": 1}
    assert not logger.isEnabledFor(logging.CRITICAL)
    loop, changed_back = asyncio.get_running_loop(), asyncio.Event()
    # Timers come in the order of their times: ours comes after the one that was set before.
    loop.call_later(1.05, changed_back.set)
    await changed_back.wait()
    assert logger.level == logging.ERROR


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"level": "info"}, "/logger"),
        ({"logger": NAME, "level": "loud"}, "/level"),
        ({"logger": NAME, "level": "info", "durationSeconds": 0}, "/durationSeconds"),
        ({"logger": NAME, "level": "info", "durationSeconds": True}, "/durationSeconds"),
    ],
)
async def test_a_change_that_cannot_be(
    marathon: Marathon, logger: logging.Logger, change: dict[str, Any], path: str
) -> None:
    answer = await marathon.call("POST", "/logging", change)
    assert answer.status == 422
    assert [detail["path"] for detail in answer.body["details"]] == [path]
    assert logger.level == logging.NOTSET


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
