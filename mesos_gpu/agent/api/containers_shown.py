"""What /containers, /monitor/statistics and GET_CONTAINERS show. Source: Mesos src/slave/http.cpp, getContainers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from mesos_gpu.agent.api.gpu_api import GpuApi
from mesos_gpu.agent.decisions.permissions import sees_container
from mesos_gpu.agent.launching.nested import container_id_of
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model.executors import Executor, Stage
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.agent.views.state_json import executor_line
from mesos_gpu.container.spec.nesting import is_nested, top_level
from mesos_gpu.errors import NotFound
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.http import json_response


class ContainersShown:
    """Looks at an agent's containers: those of executors and, where asked for, nested and standalone ones."""

    def __init__(self, agent: Agent, gpus: GpuApi, viewer_of: Callable[[web.Request], Viewer]) -> None:
        self._agent, self._gpus, self._viewer_of = agent, gpus, viewer_of

    async def containers(self, request: web.Request) -> web.Response:
        """Answer /containers; the queries `show_nested=true` and `show_standalone=true` show more."""
        shown = []
        wanted = (_asked(request, "nested"), _asked(request, "standalone"))
        async for task, name, statistics in self._look(*wanted, self._viewer_of(request)):
            document: Document = {"container_id": name.rpartition(".")[2]}
            if task is not None:
                document.update(executor_line(task))
            document.update(
                statistics=statistics, status=self._status(name, task), gpus=await self._gpus.usage_of(name)
            )
            shown.append(document)
        return json_response(shown, request=request)

    async def statistics(self, request: web.Request) -> web.Response:
        """Answer /monitor/statistics, of executors alone, as far as the client may see these; Mesos shows all."""
        shown = [
            {**executor_line(task), "statistics": statistics, "gpus": await self._gpus.usage_of(name)}
            async for task, name, statistics in self._look(False, False, self._viewer_of(request))
            if task is not None
        ]
        return json_response(shown, request=request)

    async def v1(self, nested: bool, standalone: bool, viewer: Viewer) -> list[Document]:
        """Return the containers as GET_CONTAINERS shows them, as far as `viewer` may see them."""
        shown = []
        async for task, name, statistics in self._look(nested, standalone, viewer):
            status = self._status(name, task)
            document: Document = {"container_id": {"value": name.rpartition(".")[2]}}
            if task is not None:
                line = executor_line(task)
                document["framework_id"] = {"value": line["framework_id"]}
                document["executor_id"] = {"value": line["executor_id"]}
                document["executor_name"] = line["executor_name"]
            shown.append({**document, "container_status": status, "resource_statistics": statistics})
        return shown

    async def _look(
        self, nested: bool, standalone: bool, viewer: Viewer
    ) -> AsyncIterator[tuple[Task | Executor | None, ContainerId, Document]]:
        """Yield each container with its name and numbers; its task where it is that of an executor."""
        of_tasks = {task.container_id: task for task in self._running() if task.container_id is not None}
        containers = self._agent.containers
        named = dict.fromkeys(of_tasks)
        for name in sorted(containers.containers()) if nested or standalone else ():
            alone = top_level(name) not in of_tasks
            if (standalone or not alone) and (nested or not is_nested(name)):
                named[name] = None
        for name in named:
            if not sees_container(viewer, self._agent.state.frameworks, name):
                continue
            try:
                yield of_tasks.get(name), name, dict(await containers.usage(name))
            except NotFound:
                continue  # it ended while we looked

    def _running(self) -> list[Task | Executor]:
        """Return whatever has a container that runs: command tasks, and executors."""
        state, phases = self._agent.state, (Phase.RUNNING, Phase.ENDING)
        tasks = [task for task in state.frameworks.tasks() if task.phase in phases and not task.hosted]
        gone = (Stage.LAUNCHING, Stage.TERMINATED)
        return [*tasks, *(executor for executor in state.frameworks.executors() if executor.stage not in gone)]

    def _status(self, name: ContainerId, task: Task | Executor | None) -> Document:
        status: Document = {"container_id": container_id_of(name)}
        try:
            pid = task.pid if task is not None else self._agent.containers.record(name).pid
        except NotFound:
            pid = None
        if pid is not None:
            status["executor_pid"] = pid
        networks = self._agent.containers.network_infos(name)
        if networks:
            status["network_infos"] = [dict(info) for info in networks]
        return status


def _asked(request: web.Request, kind: str) -> bool:
    return request.query.get(f"show_{kind}", "").lower() in ("true", "1")
