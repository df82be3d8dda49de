"""The agent's HTTP endpoints about GPUs: how they are, what they do, and an operator's word that one is healthy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from aiohttp import web

from mesos_gpu.agent.agent import Agent
from mesos_gpu.agent.gpu_json import PROMETHEUS_TYPE, GpuView, exposition, gpu_shown, view_shown
from mesos_gpu.agent.master_link import PROCESS_ID
from mesos_gpu.errors import NotFound
from mesos_gpu.gpu.device import GpuUsage
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.http import error_response, json_response


class GpuApi:
    """Shows an agent's GPUs. `POST /gpus/UUID/healthy` is taken from this machine only: nobody shows credentials."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def add_to(self, app: web.Application) -> None:
        """Add the routes, each also under `/slave(1)`."""
        for prefix in ("", f"/{PROCESS_ID}"):
            app.router.add_get(f"{prefix}/gpus", self._show)
            app.router.add_post(f"{prefix}/gpus/{{uuid}}/healthy", self._clear)
            app.router.add_get(f"{prefix}/metrics", self._metrics)

    async def usage_of(self, container_id: str) -> Sequence[Document]:
        """Return the GPUs of a container with what they do."""
        gpus = self._agent.gpus
        held = [] if gpus is None else gpus.of(container_id)
        usage: Mapping[str, GpuUsage] = {} if gpus is None or not held else await gpus.usage()
        return [gpu_shown(gpu, usage.get(gpu.uuid)) for gpu in held]

    async def _show(self, request: web.Request) -> web.Response:
        return json_response([view_shown(view) for view in await self._views()], request=request)

    async def _metrics(self, request: web.Request) -> web.Response:
        advertised = 0 if self._agent.gpus is None else self._agent.gpus.advertised
        text = exposition(await self._views(), advertised=advertised)
        return web.Response(body=text.encode(), headers={"Content-Type": PROMETHEUS_TYPE})

    async def _clear(self, request: web.Request) -> web.Response:
        if not request.remote or not ipaddress.ip_address(request.remote).is_loopback:
            return error_response(403, "Only this machine may say that a GPU is healthy.")
        uuid = request.match_info["uuid"]
        if self._agent.gpus is None:
            raise NotFound(f"There is no GPU {uuid} on this agent")
        self._agent.gpus.clear(uuid)
        (view,) = [view for view in await self._views() if view.gpu.uuid == uuid]
        return json_response(view_shown(view), request=request)

    async def _views(self) -> list[GpuView]:
        gpus = self._agent.gpus
        if gpus is None:
            return []
        usage = await gpus.usage()
        tasks = {task.container_id: task for task in self._agent.state.tasks()}
        views = []
        for gpu in gpus.all():
            container = gpus.holder(gpu.uuid) or ""
            task = tasks.get(container)
            names = {} if task is None else {"framework": task.key.framework, "task": task.key.task}
            views.append(GpuView(gpu, usage.get(gpu.uuid), gpus.illness(gpu.uuid), container, **names))
        return views
