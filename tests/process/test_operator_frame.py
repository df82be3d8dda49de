"""What master and agent have in common over HTTP, against what a real master and a real agent answered."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from mesos_gpu.errors import (
    BadInput,
    Conflict,
    ContainerError,
    DeviceError,
    Forbidden,
    ImageError,
    MesosGpuError,
    NotFound,
    ProtocolError,
    TimeIsUp,
    Unavailable,
)
from mesos_gpu.mesos.security.authorization import OPEN, Acls
from mesos_gpu.process.build import PACKAGE, build
from mesos_gpu.process.operator_frame import ANY_SEGMENT, Handler, only, segment, status_of
from mesos_gpu.process.system_metrics import system_metrics
from tests.support.frame import PROCESS, frame_app
from tests.support.places import RECORDED

AGENT = {one["request"]["path"]: one["response"] for one in json.loads((RECORDED / "agent-get-idle.json").read_text())}
MASTER = json.loads((RECORDED / "master.json").read_text())["get"]["idle"]
RECORDINGS = [*AGENT.items(), *MASTER.items()]
Answer = tuple[int, str, dict[str, str]]


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async with TestClient(TestServer(app)) as client:
        yield client


async def get(client: Any, path: str, method: str = "GET") -> Answer:
    async with client.request(method, path) as answer:
        return answer.status, await answer.text(), dict(answer.headers)


def says(words: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=words)

    return handle


@pytest.mark.parametrize("path", ["/nosuch", "/state.json", "/health", "/api/v1", "/logging/toggle", "/files/debug"])
async def test_master_and_agent_answer_as_recorded(path: str) -> None:
    async with served(frame_app({"state": says("")}, {"api/v1": only("POST", says(""))})) as client:
        for recorded_path, recorded in RECORDINGS:
            if recorded_path != path:
                continue
            status, body, headers = await get(client, path)
            assert status == recorded["status"]
            expected = recorded["body"]
            assert body.strip() == (expected if isinstance(expected, str) else json.dumps(expected))
            for name in ("Allow", "Content-Type"):
                assert headers.get(name) == recorded["headers"].get(name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a", "a"),
        (f"/{PROCESS}/a", "a"),
        ("/a/", "a"),
        (f"/{PROCESS}//a", "a"),
        ("/a/x/y", "a"),
        ("/a/b", "a/b"),
        (f"/{PROCESS}/a/b/x", "a/b"),
        ("/g/U-1/ok", "g/*/ok"),
        ("/g/U-1/no", "g"),
        ("/b", None),
        ("/", None),
        (f"/{PROCESS}", None),
        ("/x/a", None),
    ],
)
async def test_paths_are_folded_until_an_endpoint_fits(path: str, name: str | None) -> None:
    names = ("a", "a/b", "g", f"g/{ANY_SEGMENT}/ok")
    async with served(frame_app({known: says(known) for known in names})) as client:
        assert (await get(client, path))[:2] == ((200, name) if name else (404, "404 Not Found."))


async def test_what_is_looked_at_answers_to_every_method_until_lists_say_who_may_see_it() -> None:
    for acls, of_flags in ((OPEN, 200), (Acls(), 405)):
        app = frame_app({"state": says("it"), "containers": says("them")}, acls=acls)
        async with served(app) as client:
            assert await get(client, "/state", "POST") == (200, "it", ANY)
            for path in ("/flags", "/containers"):
                assert (await get(client, path, "PUT"))[0] == of_flags
                assert (await get(client, path))[0] == 200


async def test_the_segment_that_a_name_leaves_open_is_told() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=segment(request))

    async with served(frame_app(called={f"gpus/{ANY_SEGMENT}/healthy": only("POST", handle)})) as client:
        assert (await get(client, "/gpus/GPU-1/healthy", "POST"))[:2] == (200, "GPU-1")
        assert (await get(client, "/gpus/GPU-1/healthy"))[0] == 405


async def test_json_at_the_end_of_a_path_counts_only_where_it_is_wanted() -> None:
    for wanted in (False, True):
        async with served(frame_app({"state": says("it")}, json_suffixes=wanted)) as client:
            assert (await get(client, "/state.json"))[0] == (200 if wanted else 404)
            assert (await get(client, "/system/stats.json"))[0] == 200


REFUSALS = [
    (NotFound, 404),
    (Forbidden, 403),
    (BadInput, 400),
    (Conflict, 409),
    (Unavailable, 503),
    (TimeIsUp, 503),
    (ContainerError, 500),
    (DeviceError, 500),
    (ImageError, 500),
    (ProtocolError, 500),
]


@pytest.mark.parametrize(("kind", "status"), REFUSALS)
async def test_what_an_endpoint_raises_is_answered_in_words(kind: type[MesosGpuError], status: int) -> None:
    async def raises(request: web.Request) -> web.Response:
        raise kind("these words")

    assert status_of(kind("")) == status
    async with served(frame_app({"it": raises})) as client:
        assert (await get(client, "/it"))[:2] == (status, "these words")


def test_the_build_is_as_old_as_the_newest_module_and_in_the_units_of_mesos(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for name, changed_s in (("old.py", 1_000_000_000), ("room/new.py", 1_795_252_800), ("data.json", 1_900_000_000)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (changed_s, changed_s))
    recorded = MASTER["/version"]["body"]
    ours = build(tmp_path)
    assert {name: ours[name] for name in ("build_date", "build_time", "version")} == {
        "build_date": "2026-11-21 09:20:00 UTC",
        "build_time": 1795252800.0,
        "version": recorded["version"],
    }
    assert (recorded["build_date"], recorded["build_time"]) == (ours["build_date"], ours["build_time"])


async def test_version_tells_a_true_build_time() -> None:
    async with served(frame_app()) as client:
        told = json.loads((await get(client, "/version"))[1])
    assert told["build_time"] == max(int(path.stat().st_mtime) for path in PACKAGE.rglob("*.py"))
    assert told["build_date"] == datetime.fromtimestamp(told["build_time"], timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S UTC"
    )


def test_a_number_of_cpus_that_nobody_knows_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = [response["body"]["system/cpus_total"] for path, response in RECORDINGS if path == "/metrics/snapshot"]
    assert recorded == [2.0, 2.0]
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert system_metrics()["system/cpus_total"] == 2.0
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert "system/cpus_total" not in system_metrics()


async def test_help_lists_the_endpoints_of_every_program_and_its_own() -> None:
    async with served(frame_app({"mine": says("")}, {"api/v1": says("")})) as client:
        listed = (await get(client, "/help"))[1].splitlines()
    common = {"/health", "/version", "/flags", "/metrics/snapshot", "/system/stats.json", "/logging/toggle", "/help"}
    assert common | {"/mine", "/api/v1", "/files/browse", "/files/debug"} <= set(listed)
