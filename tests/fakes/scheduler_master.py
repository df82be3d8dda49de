"""The scheduler's side of a Mesos master, without a cluster: v1 subscriptions over real HTTP, calls written down."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import EventStream, make_app, read_json
from mesos_gpu.process.secure.tls import Tls

FIRST_ID = "11111111-aaaa-bbbb-cccc-000000000000"


class SchedulerMaster:
    """Says what a test lets it say to the framework that subscribed last."""

    def __init__(self, tls: Tls | None = None) -> None:
        self.endpoint = Endpoint("127.0.0.1", 0, tls=tls)
        self.subscriptions: list[dict[str, Any]] = []
        self.attempts = 0
        self.shown: dict[str, str | None] = {}
        """The last header Authorization by type of call."""
        self.tried: asyncio.Queue[int] = asyncio.Queue()
        self.refuse_with: int | None = None
        """Answer every subscription with this status instead."""
        self.fail_calls_with: int | None = None
        self.hang_up_on_next_call = False
        """Close the connection instead of answering, as a server does that was idle for long."""
        self.calls: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.subscribed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._ids = (f"{FIRST_ID}-{n:04}" for n in itertools.count())
        self._streams = itertools.count()
        self._stream: EventStream | None = None
        self._stream_id = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.endpoint.port}"

    async def start(self) -> None:
        app = make_app()
        app.router.add_post("/api/v1/scheduler", self._call)
        await self.endpoint.start(app)

    async def stop(self) -> None:
        await self.endpoint.stop()

    def send(self, event: Mapping[str, Any]) -> None:
        assert self._stream is not None
        self._stream.send(event)

    def offer(self, *offers: Mapping[str, Any]) -> None:
        self.send({"type": "OFFERS", "offers": {"offers": list(offers)}})

    def rescind(self, offer_id: str) -> None:
        self.send({"type": "RESCIND", "rescind": {"offer_id": {"value": offer_id}}})

    def status(self, status: Mapping[str, Any]) -> None:
        self.send({"type": "UPDATE", "update": {"status": dict(status)}})

    def break_connection(self) -> None:
        assert self._stream is not None
        self._stream.close()

    async def next_call(self, kind: str) -> dict[str, Any]:
        """Wait for the next call of a type; those before it are passed over."""
        while True:
            call = await asyncio.wait_for(self.calls.get(), 60)
            if call["type"] == kind:
                return call

    async def next_subscription(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.subscribed.get(), 60)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        call = await read_json(request)
        self.shown[call["type"]] = request.headers.get("Authorization")
        if call["type"] == "SUBSCRIBE":
            return await self._subscribe(request, call)
        if self.hang_up_on_next_call and request.transport is not None:
            self.hang_up_on_next_call = False
            request.transport.close()
            return web.Response()
        if self.fail_calls_with is not None:
            return web.Response(status=self.fail_calls_with, text="no")
        if request.headers.get("Mesos-Stream-Id") != self._stream_id:
            return web.Response(status=400, text="wrong stream id")
        self.calls.put_nowait(call)
        return web.Response(status=202)

    async def _subscribe(self, request: web.Request, call: dict[str, Any]) -> web.StreamResponse:
        self.attempts += 1
        self.tried.put_nowait(self.attempts)
        if self.refuse_with is not None:
            return web.Response(status=self.refuse_with, text="refused")
        framework_id = call.get("framework_id") or {"value": next(self._ids)}
        self._stream_id = f"stream-{next(self._streams)}"
        stream = await EventStream.open(request, {"Mesos-Stream-Id": self._stream_id})
        self._stream = stream
        master = {"id": FIRST_ID, "hostname": "127.0.0.1", "port": self.endpoint.port, "version": "1.12.0-dev"}
        subscribed = {"framework_id": framework_id, "heartbeat_interval_seconds": 15.0, "master_info": master}
        stream.send({"type": "SUBSCRIBED", "subscribed": subscribed})
        stream.send({"type": "HEARTBEAT"})
        self.subscriptions.append(call)
        self.subscribed.put_nowait(call)
        await stream.closed()
        return stream.response
