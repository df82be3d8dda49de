"""Which methods a path answers to: a genuine master and ours say the same, also to clients that ask in odd ways."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.genuine.both import answers_of_both
from tests.genuine.releases import Release

LOOKED_AT = (
    *("/state", "/state-summary", "/slaves", "/frameworks", "/tasks", "/roles", "/version", "/health", "/flags"),
    *("/metrics/snapshot", "/redirect", "/files/browse", "/files/read", "/files/debug", "/logging/toggle", "/help"),
)
CHANGED = (
    *("/weights", "/quota", "/maintenance/status", "/maintenance/schedule", "/machine/up", "/machine/down"),
    *("/reserve", "/unreserve", "/create-volumes", "/destroy-volumes", "/teardown", "/api/v1", "/api/v1/scheduler"),
)
ODD = (
    *(
        "/master/state",
        "/master/state/",
        "//state",
        "/master//state",
        "//master/state",
        "/state/more",
        "/master",
        "/nothing",
        "/files",
    ),
    *("/tasks/?task_id=a&framework_id=b", "/tasks?limit=x", "/state?jsonp=f", "/metrics", "/logging"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")

Answer = tuple[int, str | None, str | None]
"""A status, its Content-Type and its Allow."""


def answers(port: int) -> dict[tuple[str, str], Answer]:
    return {(path, method): answer(port, path, method) for path in LOOKED_AT + CHANGED + ODD for method in METHODS}


def answer(port: int, path: str, method: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        found = connection.getresponse()
        # Mesos writes a manual of each endpoint as a page; ours lists them as text.
        kind = None if path == "/help" else found.getheader("Content-Type")
        return found.status, kind, found.getheader("Allow")
    finally:
        connection.close()


@pytest.mark.root
async def test_ours_takes_the_methods_that_a_genuine_master_takes(newest: Release, tmp_path: Path) -> None:
    wanted, found = await answers_of_both(newest, tmp_path, answers)
    assert {asked: found[asked] for asked in wanted if found[asked] != wanted[asked]} == {}
    assert wanted["/tasks", "POST"][0] == 200
    assert wanted["/weights", "POST"][0] == 405
