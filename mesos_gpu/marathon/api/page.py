"""The page at /ui/, and below /ui/api/ what it needs beside Marathon's own API: master, agents, `why`.

Everything below /ui/api/ wants a header that a page of another site cannot send: a browser would ask first whether it
may (CORS preflight, Fetch standard), and the answer is no.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

from mesos_gpu.errors import NotFound
from mesos_gpu.marathon.api.advice import AdviceApi
from mesos_gpu.marathon.api.answers import read_object, refusal
from mesos_gpu.marathon.api.console import ConsoleApi
from mesos_gpu.marathon.api.mesos_door import (
    AGENT_READS,
    MASTER_CALLS,
    MASTER_READS,
    STREAM,
    MesosDoor,
    credentials_of,
    unknown_to_mesos,
)
from mesos_gpu.marathon.api.terminal import TerminalApi
from mesos_gpu.marathon.api.why import WhyApi
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.process.http import EventStream
from mesos_gpu.ui import assets, landing

ASKED_BY = "X-Requested-By"
PAGE = "mesos-gpu-ui"


class PageApi:
    """Handlers of `/`, /ui/ and /ui/api/."""

    def __init__(self, door: MesosDoor, why: WhyApi, advice: AdviceApi) -> None:
        self._door, self._why, self._console = door, why, ConsoleApi(door)
        self._terminal, self._advice = TerminalApi(door), advice

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; these have no twins ending in a slash."""
        return [
            web.get("/", self.root),
            web.get("/ui", self.root),
            web.get("/ui/api/master/events", ours(self.events)),
            web.get("/ui/api/master/{path:.+}", ours(self.master)),
            web.post("/ui/api/master/call", ours(self.call)),
            web.get("/ui/api/agents/{agent}/files/read", ours(self.read)),
            web.get("/ui/api/agents/{agent}/{path:.+}", ours(self.agent)),
            web.post("/ui/api/agents/{agent}/run", ours(self._console.run)),
            web.post("/ui/api/agents/{agent}/terminal", ours(self._terminal.open)),
            web.post("/ui/api/agents/{agent}/terminal/{session}", ours(self._terminal.put)),
            web.post("/ui/api/advice", ours(self._advice.show)),
            web.get("/ui/api/why/{app_id:.+}", ours(self._why.show)),
            web.get("/ui/{path:.*}", self.file),
        ]

    async def root(self, request: web.Request) -> web.Response:
        """Lead browsers to the page; programs find nothing here."""
        if request.path == "/" and not landing.wants_page(request):
            raise web.HTTPNotFound
        return landing.redirect("/ui/")

    async def file(self, request: web.Request) -> web.Response:
        """Answer with a file of the page."""
        return assets.answer(request, request.match_info["path"])

    async def master(self, request: web.Request) -> web.StreamResponse:
        """Answer with what an endpoint of the master shows."""
        path = request.match_info["path"]
        if path not in MASTER_READS:
            raise NotFound(f"the page does not ask the master for /{path}")
        return await self._door.passed(request, "GET", self._door.master(path))

    async def agent(self, request: web.Request) -> web.StreamResponse:
        """Answer with what an endpoint of an agent shows."""
        path = request.match_info["path"]
        if path not in AGENT_READS:
            raise NotFound(f"the page does not ask agents for /{path}")
        url = await self._door.agent(request.match_info["agent"], path, credentials_of(request))
        return await self._door.passed(request, "GET", url)

    async def read(self, request: web.Request) -> web.StreamResponse:
        """Answer with a piece of a file of a sandbox."""
        url = await self._door.agent(request.match_info["agent"], "files/read", credentials_of(request))
        return await self._door.piece(request, url)

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Make a call of the master's operator API."""
        document = await read_object(request)
        if document.get("type") not in MASTER_CALLS:
            raise NotFound(f"the page does not make the call {document.get('type')}")
        return await self._door.passed(request, "POST", self._door.master("api/v1"), json.dumps(document).encode())

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send what happens in the cluster as server-sent events, for as long as the client listens.

        The first one is SUBSCRIBED without the state of the cluster, which the page has asked for what it shows of it.
        """
        body = json.dumps({"type": "SUBSCRIBE"})
        headers = {"Content-Type": "application/json"}
        try:
            async with self._door.request(
                "POST", self._door.master("api/v1"), credentials_of(request), data=body, headers=headers, timeout=STREAM
            ) as answer:
                if answer.status == 401:
                    return unknown_to_mesos()
                if answer.status != 200:
                    return refusal(answer.status, (await answer.text())[:2000])
                stream = await EventStream.open(
                    request, {"Cache-Control": "no-cache"}, content_type="text/event-stream"
                )
                await _pass_events(answer, stream)
                return stream.response
        except (aiohttp.ClientError, TimeoutError) as error:
            return refusal(503, f"the master does not answer: {error or type(error).__name__}")


async def _pass_events(answer: aiohttp.ClientResponse, stream: EventStream) -> None:
    """Pass records on as server-sent events until either side ends; breaks of the master's stream end ours."""

    async def pump() -> None:
        decoder = RecordDecoder()
        try:
            async for piece in answer.content.iter_any():
                for record in decoder.feed(piece):
                    event = json.loads(record)
                    if event.get("type") == "SUBSCRIBED":
                        event = {"type": "SUBSCRIBED"}
                    stream.send_raw(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        except (aiohttp.ClientError, TimeoutError):
            pass
        stream.close()

    pumping = asyncio.ensure_future(pump())
    try:
        await stream.closed()
    finally:
        pumping.cancel()


def ours(handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
    """Return the handler for requests alone that no page of another site can send."""

    async def only_ours(request: web.Request) -> web.StreamResponse:
        if request.headers.get(ASKED_BY) != PAGE:
            return refusal(403, f"this is for the page of this Marathon, which says {ASKED_BY}: {PAGE}")
        answer: web.StreamResponse = await handler(request)
        return answer

    return only_ours
