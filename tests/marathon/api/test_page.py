"""The page, and what it asks for beside Marathon's own API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.mesos import recordio
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app, to_json
from tests.support.golden import Golden
from tests.support.marathon.service import Marathon

OURS = {"X-Requested-By": "mesos-gpu-ui"}
LOGGED_IN = {"Authorization": "Basic " + "dXNlcjpwYXNz"}
AGENT = "S0"


@dataclass
class Mesos:
    """A master and its only agent at one port; it notes what it was asked, and by whom."""

    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    wants: str | None = None
    calls: list[Any] = field(default_factory=list)
    port: int = 0

    def app(self) -> web.Application:
        app = make_app()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, who = request.match_info["path"], request.headers.get("Authorization")
        self.seen.append((request.method, path, who))
        if self.wants is not None and who != self.wants:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic realm=mesos"})
        if path == "api/v1":
            call = await request.json()
            self.calls.append(call)
            if call["type"] == "LAUNCH_NESTED_CONTAINER_SESSION":
                return await self._session(request)
            if call["type"] != "SUBSCRIBE":
                return web.Response(status=202)
            stream = web.StreamResponse()
            await stream.prepare(request)
            for event in ({"type": "SUBSCRIBED", "subscribed": {"get_state": {}}}, {"type": "HEARTBEAT"}):
                await stream.write(recordio.encode(to_json(event)))
            await stream.write_eof()
            return stream
        if path == "files/read":
            return web.Response(body=b'{"offset":3,"data":"caf\xc3\xa9 \xff"}')
        if path == "files/download":
            return web.Response(body=b"all", headers={"Content-Disposition": "attachment; filename=x"})
        shown: Any = {"version": "1.12.0"}
        if path == "slaves":
            agent = {"id": AGENT, "hostname": "m1", "pid": f"slave(1)@127.0.0.1:{self.port}", "active": True}
            resources = {"cpus": 4.0, "gpus": 2.0, "mem": 4096.0, "disk": 100.0, "ports": "[1-9]"}
            shown = {"slaves": [{**agent, "resources": resources, "used_resources": {"gpus": 2.0}}]}
        if path == "roles":
            shown = {"roles": [{"name": "*"}]}
        if path == "state":
            tasks = [{"id": "other.1", "resources": {"gpus": 2.0}}]
            shown = {"frameworks": [{"name": "spark", "executors": [{"tasks": tasks}]}]}
        return web.json_response(shown, status=404 if path == "quota" else 200)

    async def _session(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        for record in ({"type": "CONTROL"}, {"type": "DATA", "data": {"type": "STDOUT", "data": "aGk="}}):
            await stream.write(recordio.encode(to_json(record)))
        await stream.write_eof()
        return stream


@pytest.fixture
async def mesos(marathon: Marathon, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mesos]:
    found = Mesos()
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(found.app())
    found.port = endpoint.port
    marathon.info["marathon_config"]["mesos_leader_ui_url"] = f"http://127.0.0.1:{endpoint.port}/"
    yield found
    await endpoint.stop()


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_browsers_are_led_to_the_page(marathon: Marathon, path: str) -> None:
    answer = await marathon.call("GET", path, headers={"Accept": "text/html,*/*"}, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (302, "/ui/")


async def test_programs_find_at_the_root_what_they_always_found(marathon: Marathon, golden: Golden) -> None:
    answer = await marathon.call("GET", "/", headers={"Accept": "application/json"})
    assert (answer.status, answer.body) == (404, {"message": golden})


async def test_the_page_comes_with_what_keeps_it_to_itself(marathon: Marathon) -> None:
    answer = await marathon.call("GET", "/ui/")
    assert answer.status == 200
    assert "<!doctype html>" in answer.body
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-cache"
    assert (await marathon.call("GET", "/ui/app.js")).headers["Content-Type"].startswith("text/javascript")
    assert (await marathon.call("GET", "/ui/nothing.js")).status == 404


async def test_the_page_is_there_before_somebody_has_logged_in_and_nothing_else_is(marathon: Marathon) -> None:
    marathon.credentials = "user:pass"
    await marathon.restart()
    assert (await marathon.call("GET", "/ui/")).status == 200
    assert (await marathon.call("GET", "/ui/app.js")).status == 200
    assert (await marathon.call("GET", "/ui/api/master/slaves", headers=OURS)).status == 401
    assert (await marathon.call("GET", "/v2/apps")).status == 401


async def test_other_pages_cannot_ask_as_ours_does(marathon: Marathon, mesos: Mesos) -> None:
    answer = await marathon.call("GET", "/ui/api/master/slaves")
    assert answer.status == 403
    assert "X-Requested-By" in answer.body["message"]
    assert mesos.seen == []


async def test_master_and_agents_are_asked_what_the_page_shows_and_nothing_else(
    marathon: Marathon, mesos: Mesos
) -> None:
    slaves = await marathon.call("GET", "/ui/api/master/slaves", headers=OURS)
    assert slaves.body["slaves"][0]["id"] == AGENT
    version = await marathon.call("GET", f"/ui/api/agents/{AGENT}/version", headers=OURS)
    assert version.body == {"version": "1.12.0"}
    for path in ("master/shutdown", f"agents/{AGENT}/flags", "agents/S9/state"):
        assert (await marathon.call("GET", f"/ui/api/{path}", headers=OURS)).status == 404
    assert [path for _, path, _ in mesos.seen] == ["slaves", "slaves", "version", "slaves"]


async def test_marathons_password_is_told_to_nobody_and_mesos_has_one_of_its_own(
    marathon: Marathon, mesos: Mesos
) -> None:
    marathon.credentials = "user:pass"
    await marathon.restart()
    mesos.wants = "Basic bWU6aXQ="
    refused = await marathon.call("GET", "/ui/api/master/slaves", headers={**OURS, **LOGGED_IN})
    assert (refused.status, refused.headers["X-Wanted-By"]) == (401, "mesos")
    assert "WWW-Authenticate" not in refused.headers
    both = {**OURS, **LOGGED_IN, "X-Mesos-Authorization": mesos.wants}
    assert (await marathon.call("GET", "/ui/api/master/slaves", headers=both)).status == 200
    for path in ("master/events", "why/none"):
        assert (await marathon.call("GET", f"/ui/api/{path}", headers={**OURS, **LOGGED_IN})).status in (401, 404)
    assert (
        await marathon.call("POST", "/ui/api/master/call", {"type": "UPDATE_QUOTA"}, headers={**OURS, **LOGGED_IN})
    ).status == 401
    assert {who for _, _, who in mesos.seen} == {None, mesos.wants}


async def test_files_come_as_the_bytes_they_are(marathon: Marathon, mesos: Mesos) -> None:
    url = f"{marathon.url}/ui/api/agents/{AGENT}/files/"
    async with aiohttp.ClientSession(headers=OURS) as http:
        async with http.get(f"{url}read?path=/x") as answer:
            assert (await answer.read(), answer.headers["X-Offset"]) == (b"caf\xc3\xa9 \xff", "3")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with http.get(f"{url}download?path=/x") as answer:
            assert await answer.read() == b"all"
            assert answer.headers["Content-Disposition"] == "attachment"


async def test_calls_are_those_that_the_page_makes(marathon: Marathon, mesos: Mesos) -> None:
    call = {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": AGENT}}}
    assert (await marathon.call("POST", "/ui/api/master/call", call, headers=OURS)).status == 200
    assert mesos.calls == [call]
    other = await marathon.call("POST", "/ui/api/master/call", {"type": "TEARDOWN"}, headers=OURS)
    assert other.status == 404
    assert (await marathon.call("GET", "/ui/api/master/quota", headers=OURS)).status == 404


async def test_events_of_the_cluster_come_without_its_whole_state(marathon: Marathon, mesos: Mesos) -> None:
    answer = await marathon.call("GET", "/ui/api/master/events", headers=OURS)
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert [line for line in answer.body.split("\n") if line] == [
        "event: SUBSCRIBED",
        'data: {"type": "SUBSCRIBED"}',
        "event: HEARTBEAT",
        'data: {"type": "HEARTBEAT"}',
    ]


async def test_a_master_that_is_away_is_said_to_be(marathon: Marathon, golden: Golden) -> None:
    for path in ("master/slaves", "master/events"):
        answer = await marathon.call("GET", f"/ui/api/{path}", headers=OURS)
        assert (answer.status, answer.body["message"]) == (503, golden)
    marathon.info["marathon_config"]["mesos_leader_ui_url"] = "http://127.0.0.1:9/"
    for method, path in (("GET", "slaves"), ("GET", "events"), ("POST", "call")):
        answer = await marathon.call(method, f"/ui/api/master/{path}", {"type": "UPDATE_QUOTA"}, headers=OURS)
        assert answer.status == 503
        assert answer.body["message"] == golden


async def test_why_is_what_the_command_says(marathon: Marathon, mesos: Mesos, golden: Golden) -> None:
    await marathon.call("POST", "/v2/apps", {"id": "/big", "cmd": "x", "gpus": 3})
    await marathon.call("POST", "/v2/apps", {"id": "/fits", "cmd": "x", "gpus": 2})
    await asyncio.sleep(0)
    never = (await marathon.call("GET", "/ui/api/why/big", headers=OURS)).body
    assert (never["state"], never["agents"][0]["lacks"][0]["text"]) == ("impossible", golden)
    later = (await marathon.call("GET", "/ui/api/why/fits", headers=OURS)).body
    assert later["state"] == "waiting"
    assert later["remedies"] == golden
    assert (await marathon.call("GET", "/ui/api/why/none", headers=OURS)).status == 404


async def test_why_without_a_master_is_marathons_word(marathon: Marathon) -> None:
    await marathon.call("POST", "/v2/apps", {"id": "/big", "cmd": "x", "gpus": 3})
    found = (await marathon.call("GET", "/ui/api/why/big", headers=OURS)).body
    assert (found["state"], found["agentsKnown"], found["agents"]) == ("waiting", False, [])
    await marathon.call("POST", "/v2/apps", {"id": "/off", "cmd": "x", "instances": 0})
    assert (await marathon.call("GET", "/ui/api/why/off", headers=OURS)).body["state"] == "stopped"


async def test_a_command_runs_in_a_container_and_says_what_it_says(marathon: Marathon, mesos: Mesos) -> None:
    path = f"/ui/api/agents/{AGENT}/run"
    answer = await marathon.call("POST", path, {"container_id": {"value": "c1"}, "command": "ls"}, headers=OURS)
    assert (answer.status, answer.body) == (200, "hi")
    (call,) = mesos.calls
    session = call["launch_nested_container_session"]
    assert session["command"] == {"shell": True, "value": "ls"}
    assert session["container_id"]["parent"] == {"value": "c1"}
    assert (await marathon.call("POST", path, {"command": "ls"}, headers=OURS)).status == 400
    assert (await marathon.call("POST", path, {"container_id": {"value": "c1"}, "command": "ls"})).status == 403
    mesos.wants = "Basic x"
    refused = await marathon.call("POST", path, {"container_id": {"value": "c1"}, "command": "ls"}, headers=OURS)
    assert (refused.status, refused.headers["X-Wanted-By"]) == (401, "mesos")


async def test_advice_is_what_the_command_line_says_of_a_file(marathon: Marathon, mesos: Mesos, golden: Golden) -> None:
    def asked(kind: str, document: Any) -> Any:
        return marathon.call("POST", "/ui/api/advice", {"kind": kind, "document": document}, headers=OURS)

    half = (await asked("app", {"id": "/a", "cmd": "x", "gpus": 0.5})).body
    (problem,) = half["problems"]
    assert problem["path"] == "/gpus"
    assert problem["advice"] == golden
    never = (await asked("app", {"id": "/a", "cmd": "sleep 1", "gpus": 3})).body
    assert never["problems"] == []
    assert never["warnings"] == golden
    for kind, document in (("pod", {"id": "/p", "containers": []}), ("job", {"id": "j", "run": {"cpus": -1}})):
        assert (await asked(kind, document)).body["problems"]
    later = {"id": "j", "run": {"cmd": "x", "mem": 32, "cpus": 0.1, "disk": 0, "constraints": 1}}
    assert (await asked("job", later)).body["problems"]
    twice = {"id": "s", "cron": "* * * * *"}
    run = {"cmd": "x", "mem": 32, "cpus": 0.1, "disk": 0}
    assert (await asked("job", {"id": "j", "run": run, "schedules": [twice, twice]})).body["problems"]
    assert (await asked("job", {"id": "j", "run": run})).body == {"problems": [], "warnings": []}
    assert (await asked("group", {})).status == 400


async def test_advice_without_a_master_has_what_needs_none(marathon: Marathon) -> None:
    body = {"kind": "app", "document": {"id": "/a", "cmd": "sleep 1"}}
    found = (await marathon.call("POST", "/ui/api/advice", body, headers=OURS)).body
    assert len(found["warnings"]) == 1
