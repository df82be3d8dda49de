"""A terminal of the page: what the agent is asked, and what the browser is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.errors import BadInput, TooMany
from mesos_gpu.marathon.api.terminal import MOST_TYPED, Session, records_of, session_call
from mesos_gpu.mesos import recordio
from mesos_gpu.mesos.clients import process_io
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app, to_json
from tests.support.marathon.service import Marathon

OURS = {"X-Requested-By": "mesos-gpu-ui"}
PATH = "/ui/api/agents/S0/terminal"
ASKED = {"container_id": {"value": "task"}, "rows": 24, "columns": 80}
PATIENCE_S = 30


def said(data: bytes) -> bytes:
    text = base64.b64encode(data).decode()
    return recordio.encode(to_json({"type": "DATA", "data": {"type": "STDOUT", "data": text}}))


@dataclass
class Echo:
    """An agent whose programs say what is typed, until that is `q`; it notes what it was asked."""

    calls: list[Mapping[str, Any]] = field(default_factory=list)
    fed: list[Mapping[str, Any]] = field(default_factory=list)
    wants: str | None = None
    refuses: int = 0
    port: int = 0
    typed: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def app(self) -> web.Application:
        app = make_app()
        app.router.add_get("/slaves", self._slaves)
        app.router.add_post("/api/v1", self._call)
        return app

    async def _slaves(self, _: web.Request) -> web.Response:
        return web.json_response({"slaves": [{"id": "S0", "pid": f"slave(1)@127.0.0.1:{self.port}"}]})

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if self.wants is not None and request.headers.get("Authorization") != self.wants:
            return web.Response(status=401)
        if request.content_type == "application/recordio":
            return await self._feed(request)
        call = await request.json()
        self.calls.append(call)
        if call["type"] == "WAIT_NESTED_CONTAINER":
            await self.ended.wait()
            return web.json_response({"type": call["type"], "wait_nested_container": {"exit_status": 7 << 8}})
        if call["type"] != "LAUNCH_NESTED_CONTAINER_SESSION":
            return web.Response()
        if self.refuses:
            return web.Response(status=self.refuses, text="no such container")
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(recordio.encode(to_json({"type": "CONTROL", "control": {"type": "HEARTBEAT"}})))
        try:
            while (data := await self.typed.get()) != b"q":
                await stream.write(said(data))
        finally:
            self.left.set()
        self.ended.set()
        await stream.write_eof()
        return stream

    async def _feed(self, request: web.Request) -> web.Response:
        decoder = recordio.RecordDecoder()
        async for piece in request.content.iter_any():
            for record in decoder.feed(piece):
                asked = json.loads(record)["attach_container_input"]
                self.fed.append(asked)
                data = (asked.get("process_io") or {}).get("data")
                if data is not None:
                    self.typed.put_nowait(base64.b64decode(data["data"]))
        return web.Response()


@pytest.fixture
async def echo(marathon: Marathon) -> AsyncIterator[Echo]:
    found = Echo()
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(found.app())
    found.port = endpoint.port
    marathon.info["marathon_config"]["mesos_leader_ui_url"] = f"http://127.0.0.1:{endpoint.port}/"
    yield found
    await endpoint.stop()


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Yield the events of an answer; comments are none."""
    async for line in answer.content:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
            yield name, json.loads((await answer.content.readline())[6:])


async def next_of(told: AsyncIterator[tuple[str, Any]]) -> tuple[str, Any]:
    return await asyncio.wait_for(told.__anext__(), PATIENCE_S)


async def test_what_is_typed_is_said_and_the_end_is_told(marathon: Marathon, echo: Echo) -> None:
    async with aiohttp.ClientSession(headers=OURS) as http:
        async with http.post(marathon.url + PATH, json=ASKED) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            told = events(answer)
            name, opened = await next_of(told)
            assert name == "opened"
            typing = f"{marathon.url}{PATH}/{opened['session']}"
            for text in ("grün\n", "\x03"):
                data = base64.b64encode(text.encode()).decode()
                async with http.post(typing, json={"typed": data}) as done:
                    assert done.status == 204
                assert await next_of(told) == ("said", data)
            async with http.post(typing, json={"rows": 5, "columns": 6}) as done:
                assert done.status == 204
            async with http.post(typing, json={"typed": base64.b64encode(b"q").decode()}) as done:
                assert done.status == 204
            assert await next_of(told) == ("ended", {"status": 7})
        async with http.post(typing, json={"rows": 5, "columns": 6}) as late:
            assert late.status == 404
    launch = echo.calls[0]["launch_nested_container_session"]
    assert launch["container_id"]["parent"] == {"value": "task"}
    assert launch["container"]["tty_info"]["window_size"] == {"rows": 24, "columns": 80}
    assert echo.fed[0] == {"type": "CONTAINER_ID", "container_id": launch["container_id"]}
    assert {"window_size": {"rows": 5, "columns": 6}} in [
        one["process_io"].get("control", {}).get("tty_info") for one in echo.fed[1:]
    ]
    assert {call["type"] for call in echo.calls} >= {"WAIT_NESTED_CONTAINER", "REMOVE_NESTED_CONTAINER"}


async def test_a_terminal_is_its_openers_alone(marathon: Marathon, echo: Echo) -> None:
    echo.wants = "Basic bWU="
    mine = {**OURS, "X-Mesos-Authorization": echo.wants}
    async with aiohttp.ClientSession() as http:
        async with http.post(marathon.url + PATH, json=ASKED, headers=OURS) as answer:
            assert (answer.status, answer.headers["X-Wanted-By"]) == (401, "mesos")
        async with http.post(marathon.url + PATH, json=ASKED) as answer:
            assert answer.status == 403
        async with http.post(marathon.url + PATH, json=ASKED, headers=mine) as answer:
            _, opened = await next_of(events(answer))
            typing = f"{marathon.url}{PATH}/{opened['session']}"
            size = {"rows": 5, "columns": 6}
            async with http.post(typing, json=size, headers=OURS) as refused:
                assert refused.status == 404
            async with http.post(typing, json=size) as refused:
                assert refused.status == 403
            async with http.post(typing, json=size, headers=mine) as done:
                assert done.status == 204


async def test_who_leaves_ends_it(marathon: Marathon, echo: Echo) -> None:
    async with aiohttp.ClientSession(headers=OURS) as http:
        async with http.post(marathon.url + PATH, json=ASKED) as answer:
            await next_of(events(answer))
            answer.close()

        # The agent sees that nobody listens when it says something.
        async def talk() -> None:
            while not echo.left.is_set():
                echo.typed.put_nowait(b"?" * 1000)
                await asyncio.sleep(0.01)

        await asyncio.wait_for(talk(), PATIENCE_S)


async def test_what_the_agent_refuses_is_said_in_its_words(marathon: Marathon, echo: Echo) -> None:
    echo.refuses = 400
    answer = await marathon.call("POST", PATH, ASKED, headers=OURS)
    assert (answer.status, answer.body) == (400, {"message": "no such container"})
    echo.port = 9
    answer = await marathon.call("POST", PATH, ASKED, headers=OURS)
    assert answer.status in (400, 503)


@pytest.mark.parametrize(
    "changes",
    [
        {"container_id": None},
        {"container_id": "task"},
        {"container_id": {"value": ""}},
        {"container_id": {"value": "a", "parent": {}}},
        {"command": 7},
        {"rows": 0},
        {"columns": 10_000},
        {"rows": True},
        {"rows": None},
    ],
)
def test_what_names_no_terminal_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        session_call({**ASKED, **changes}, "s")


def test_a_container_of_a_pod_is_named_with_its_parent() -> None:
    asked = {**ASKED, "container_id": {"value": "task", "parent": {"value": "executor"}}, "command": "top"}
    body = session_call(asked, "s")["launch_nested_container_session"]
    assert body["container_id"] == {"value": "s", "parent": {"value": "task", "parent": {"value": "executor"}}}
    assert body["command"]["value"].endswith("; top")


@pytest.mark.parametrize("typed", ["%", 7, None, "ä"])
def test_what_is_typed_is_bytes(typed: Any) -> None:
    with pytest.raises(BadInput, match="base64"):
        records_of({"typed": typed})


def test_nothing_typed_is_not_the_end_of_input() -> None:
    assert records_of({"typed": ""}) == []
    assert records_of({"typed": "YQ==", "rows": 1, "columns": 2}) == [
        process_io.resized(1, 2),
        process_io.typed(b"a"),
    ]


async def test_a_program_that_does_not_read_is_not_sent_more_and_more() -> None:
    from yarl import URL

    session = Session(URL("http://127.0.0.1"), {"value": "c"}, None)
    session.put(b"x" * (MOST_TYPED - 1))
    with pytest.raises(TooMany):
        session.put(b"yy")
    records = session.records()
    assert await records.__anext__() == process_io.feeding({"value": "c"})
    assert len(await records.__anext__()) == MOST_TYPED - 1
    session.put(b"yy")
    await records.aclose()  # type: ignore[attr-defined]
