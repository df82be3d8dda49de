"""A Marathon of which there is only what the page asks for: as many apps and tasks as one likes, and their events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from mesos_gpu.ui import assets

TASKS_EACH = 5
AGENTS = 50
STARTED = "2026-01-01T00:00:00.000Z"


class LargeMarathon:
    """Its answers are made once; `publish` sends events to whoever listens."""

    def __init__(self, apps: int) -> None:
        self.apps = [_app(i) for i in range(apps)]
        self.url = ""
        self._listeners: list[web.StreamResponse] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        slaves = [_agent(i) for i in range(AGENTS)]
        self._answers: dict[str, bytes] = {
            path: json.dumps(document).encode()
            for path, document in {
                "/v2/apps": {"apps": self.apps},
                "/v2/pods/::status": [],
                "/v1/jobs": [],
                "/v2/queue": {"queue": []},
                "/v2/deployments": [],
                "/v2/info": {"name": "marathon"},
                "/ui/api/master/slaves": {"slaves": slaves},
            }.items()
        }

    def publish(self, events: list[dict[str, Any]]) -> None:
        """Send events, and return when they have left."""
        text = "".join(f"event: {one['eventType']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()

        async def send() -> None:
            for listener in list(self._listeners):
                try:
                    await listener.write(text)
                except ConnectionError:  # that page was closed
                    self._listeners.remove(listener)

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(30)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in self._answers:
            return web.Response(body=self._answers[path], content_type="application/json")
        if path in ("/v2/events", "/ui/api/master/events"):
            return await self._listen(request)
        if path.startswith("/v2/apps/"):
            app = next((app for app in self.apps if f"/v2/apps{app['id']}" == path), None)
            return web.json_response({"app": app}, status=200 if app else 404)
        if path.startswith("/ui/") and not path.startswith("/ui/api/"):
            return assets.answer(request, path.removeprefix("/ui/"))
        return web.json_response({"message": "not here"}, status=404)

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if request.path == "/v2/events":
            self._listeners.append(response)
        await self._stop.wait()
        return response

    @contextmanager
    def serving(self) -> Iterator[LargeMarathon]:
        """Serve in a thread."""
        ready = threading.Event()

        async def run() -> None:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready.set()
            await self._stop.wait()
            await runner.cleanup()

        thread = threading.Thread(target=lambda: self._loop.run_until_complete(run()), daemon=True)
        thread.start()
        ready.wait(30)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(30)
            self._loop.close()


def status_event(app: int, task: int, state: str) -> dict[str, Any]:
    """Return a status update of a task."""
    found = _task(app, task)
    return {
        "eventType": "status_update_event",
        "timestamp": STARTED,
        "taskId": found["id"],
        "appId": found["appId"],
        "taskStatus": state,
        "slaveId": found["slaveId"],
        "host": found["host"],
        "ports": found["ports"],
        "message": "",
        "version": STARTED,
    }


def _app(i: int) -> dict[str, Any]:
    return {
        "id": f"/team-{i % 40}/service-{i}",
        "cmd": "sleep 1000",
        "instances": TASKS_EACH,
        "cpus": 0.5,
        "mem": 512,
        "disk": 0,
        "gpus": i % 3,
        "labels": {"team": f"team-{i % 40}"},
        "version": STARTED,
        "tasks": [_task(i, n) for n in range(TASKS_EACH)],
    }


def _task(app: int, n: int) -> dict[str, Any]:
    agent = (app * TASKS_EACH + n) % AGENTS
    return {
        "id": f"team-{app % 40}_service-{app}.instance-{app:08x}-0000-0000-0000-{n:012x}._app.1",
        "appId": f"/team-{app % 40}/service-{app}",
        "state": "TASK_RUNNING",
        "host": f"machine-{agent}",
        "slaveId": f"S{agent}",
        "ports": [31000 + n],
        "stagedAt": STARTED,
        "startedAt": STARTED,
        "version": STARTED,
    }


def _agent(i: int) -> dict[str, Any]:
    resources = {"cpus": 64.0, "mem": 262144.0, "disk": 1e6, "gpus": 8.0, "ports": "[31000-32000]"}
    used = {"cpus": 50.0, "mem": 100000.0, "disk": 0.0, "gpus": 7.0}
    shown = {"id": f"S{i}", "hostname": f"machine-{i}", "pid": f"slave(1)@10.0.0.{i}:5051", "active": True}
    return {**shown, "resources": resources, "used_resources": used, "attributes": {"gpu_model": "A100"}}
