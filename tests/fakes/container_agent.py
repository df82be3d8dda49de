"""An agent for executors: it says what a test tells it to, and keeps what it is told. Its containers are words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import EventStream, json_response, make_app
from mesos_gpu.process.secure.tls import Tls

INFO = {
    "executor_info": {"type": "DEFAULT", "executor_id": {"value": "pod"}},
    "framework_info": {"id": {"value": "F"}, "capabilities": [{"type": "TASK_KILLING_STATE"}]},
    "agent_info": {"hostname": "here"},
    "container_id": {"value": "top"},
}


class ContainerAgent:
    """`port` 0 takes a free one; start another on the same port, with the same `ends`, to play a restart."""

    def __init__(self, ends: dict[str, asyncio.Future[dict[str, Any]]] | None = None) -> None:
        self.ends = {} if ends is None else ends
        self.updates: list[dict[str, Any]] = []
        self.subscriptions: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.acknowledges = True
        self.refuses: str | None = None
        self.lingering = 0
        """How often it says that a container that is to be removed has not ended yet."""
        self.port = 0
        self._news = asyncio.Event()
        self._stream: EventStream | None = None
        self._runner: web.AppRunner | None = None
        self._endpoint: Endpoint | None = None

    async def start(self, port: int = 0, *, tls: Tls | None = None) -> ContainerAgent:
        app = make_app()
        app.router.add_post("/api/v1/executor", self._executor)
        app.router.add_post("/api/v1", self._container)
        if tls is not None:
            self._endpoint = Endpoint("127.0.0.1", port, tls=tls)
            await self._endpoint.start(app)
            self.port = self._endpoint.port
            return self
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._endpoint is not None:
            await self._endpoint.stop()

    def send(self, kind: str, **body: Any) -> None:
        assert self._stream is not None
        self._stream.send({"type": kind, **({kind.lower(): body} if body else {})})

    def states(self, task_id: str) -> list[str]:
        return [status["state"] for status in self.updates if status["task_id"]["value"] == task_id]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [call[kind.lower()] for call in self.calls if call["type"] == kind]

    def end(self, container_id: str, **end: Any) -> None:
        """End a container; the answer of WAIT_NESTED_CONTAINER."""
        self.ends[container_id].set_result(end)

    async def until(self, true: Callable[[], bool], timeout_s: float = 20.0) -> None:
        async def wait() -> None:
            while not true():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), timeout_s)

    def acknowledge(self, status: dict[str, Any]) -> None:
        self.send("ACKNOWLEDGED", task_id=status["task_id"], uuid=status["uuid"])

    async def _executor(self, request: web.Request) -> web.StreamResponse:
        call = await request.json()
        self._news.set()
        if call["type"] == "SUBSCRIBE":
            self.subscriptions.append(call)
            stream = self._stream = await EventStream.open(request)
            self.send("SUBSCRIBED", **INFO)
            for update in call["subscribe"]["unacknowledged_updates"]:
                self._take(update["status"])
            await stream.closed()
            return stream.response
        assert call["type"] == "UPDATE"
        self._take(call["update"]["status"])
        return web.Response(status=202)

    def _take(self, status: dict[str, Any]) -> None:
        self.updates.append(status)
        if self.acknowledges:
            self.acknowledge(status)
        self._news.set()

    async def _container(self, request: web.Request) -> web.Response:
        call = await request.json()
        self.calls.append(call)
        self._news.set()
        kind = call["type"]
        container_id = call[kind.lower()]["container_id"]
        name = container_id["value"]
        if kind == "LAUNCH_NESTED_CONTAINER":
            if self.refuses is not None:
                return web.Response(status=400, text=self.refuses)
            if name in self.ends:
                return web.Response(status=202)
            self.ends[name] = asyncio.get_running_loop().create_future()
        elif kind == "LAUNCH_NESTED_CONTAINER_SESSION":
            self.ends[name] = asyncio.get_running_loop().create_future()
            self.end(name, exit_status=0 if call[kind.lower()]["command"]["value"] == "true" else 3 << 8)
            return web.Response(body=b"")
        elif kind == "REMOVE_NESTED_CONTAINER":
            if self.lingering > 0:
                self.lingering -= 1
                return web.Response(status=500, text="Nested container has not terminated yet")
            self.ends.pop(name, None)
        elif name not in self.ends:
            return web.Response(status=404)
        elif kind == "WAIT_NESTED_CONTAINER":
            return json_response({"type": kind, kind.lower(): await asyncio.shield(self.ends[name])})
        elif kind == "KILL_NESTED_CONTAINER" and not self.ends[name].done():
            self.end(name, exit_status=call[kind.lower()]["signal"])
        return web.Response()
