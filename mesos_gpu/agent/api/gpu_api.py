"""The agent's HTTP endpoints about GPUs: how they are, what they do, and an operator's word that one is healthy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.api.mig_api import MigApi
from mesos_gpu.agent.api.share_api import CHANGES_GPUS, ShareApi
from mesos_gpu.agent.api.suspend_api import SuspendApi
from mesos_gpu.agent.decisions.permissions import sees_container
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.model import share_json
from mesos_gpu.agent.model.gpu_json import PROMETHEUS_TYPE, GpuView, Sharer, Sharing, exposition, gpu_shown, view_shown
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.errors import NotFound
from mesos_gpu.gpu.device import Gpu, GpuUsage
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from mesos_gpu.mesos.shares.gpu_shares import level_of
from mesos_gpu.process.http import error_response, json_response
from mesos_gpu.process.operator_frame import ANY_SEGMENT, Handler, only, segment


class GpuApi:
    """Shows an agent's GPUs. `POST /gpus/UUID/healthy` is taken from this machine only.

    Mesos has no list for either: who holds a GPU is shown to those who may see that task.
    """

    def __init__(self, agent: Agent, viewer_of: Callable[[web.Request], Viewer] = lambda request: EVERYBODY) -> None:
        self._agent, self._viewer_of = agent, viewer_of
        self._shares = ShareApi(agent, viewer_of)
        self._suspending = SuspendApi(agent, viewer_of)
        self._mig = MigApi(agent, viewer_of)

    def shown(self) -> Mapping[str, Handler]:
        """Return the endpoints that are looked at, by name."""
        return {"gpus": self._show, "metrics": self._metrics, **self._shares.shown()}

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoints that change something."""
        return {
            f"gpus/{ANY_SEGMENT}/healthy": only("POST", self._clear),
            **self._shares.called(),
            **self._suspending.called(),
            **self._mig.called(),
        }

    async def usage_of(self, container_id: ContainerId) -> Sequence[Document]:
        """Return the GPUs of a container with what they do."""
        gpus = self._agent.gpus
        held = [] if gpus is None else gpus.of(container_id)
        usage: Mapping[str, GpuUsage] = {} if gpus is None or not held else await gpus.usage()
        return [gpu_shown(gpu, usage.get(gpu.uuid)) for gpu in held]

    async def _show(self, request: web.Request) -> web.Response:
        return json_response(
            [view_shown(view) for view in await self._views(self._viewer_of(request))], request=request
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        advertised = 0 if self._agent.gpus is None else self._agent.gpus.ledger.present
        views, hostname = await self._views(self._viewer_of(request)), str(self._agent.info.get("hostname", ""))
        text = exposition(views, advertised=advertised, hostname=hostname)
        text += share_json.exposition(self._shares.cards(self._viewer_of(request)))
        return web.Response(body=text.encode(), headers={"Content-Type": PROMETHEUS_TYPE})

    async def _clear(self, request: web.Request) -> web.Response:
        if not is_from_here(request):
            return error_response(403, "Only this machine may say that a GPU is healthy.")
        if not self._viewer_of(request).may(CHANGES_GPUS):
            return error_response(403, "Not authorized to say that a GPU is healthy.")
        uuid = segment(request)
        if self._agent.gpus is None:
            raise NotFound(f"There is no GPU {uuid} on this agent")
        self._agent.gpus.clear(uuid)
        (view,) = [view for view in await self._views(self._viewer_of(request)) if view.gpu.uuid == uuid]
        return json_response(view_shown(view), request=request)

    async def _views(self, viewer: Viewer) -> list[GpuView]:
        gpus = self._agent.gpus
        if gpus is None:
            return []
        usage = await gpus.usage()
        tasks = {task.container_id: task for task in self._agent.state.frameworks.tasks()}
        lent = {} if self._agent.desk is None else self._agent.desk.lender.by_gpu()
        views = []
        for gpu in gpus.all():
            container, does = gpus.holder(gpu.uuid) or ContainerId(""), usage.get(gpu.uuid)
            task = tasks.get(container)
            if container and not sees_container(viewer, self._agent.state.frameworks, container):
                container, task = ContainerId(""), None
                does = None if does is None else dataclasses.replace(does, processes=None)
            names: dict[str, Any] = {} if task is None else {"framework": task.key.framework, "task": task.key.task}
            if lease := lent.get(gpu.uuid):
                names = {"lease": lease.id, "door": lease.door, "holder": lease.holder or lease.container}
            views.append(GpuView(gpu, does, gpus.illness(gpu.uuid), container, **names))
        views += [self._shared(gpus, gpu, usage.get(gpu.uuid), tasks, viewer) for gpu in gpus.shared]
        owned = {str(task.container_id): task.key.task for task in tasks.values()}
        return [
            replace(view, past=gpus.past(view.gpu.uuid), tasks_of=_tasks_of(view.usage, gpus, owned)) for view in views
        ]

    def _shared(
        self,
        gpus: AgentGpus,
        gpu: Gpu,
        usage: GpuUsage | None,
        tasks: Mapping[ContainerId | None, Task],
        viewer: Viewer,
    ) -> GpuView:
        """Return a card that tasks share, with those that may be seen."""
        state, sharers = self._agent.state, []
        card = state.identity.shared_cards[gpu.index]
        for container in gpus.users(gpu):
            if not sees_container(viewer, state.frameworks, container):
                continue
            share, task = gpus.share(container), tasks.get(container)
            names = ("", "") if task is None else (task.key.framework, task.key.task)
            for part in (part for part in share.parts if part.card == gpu.index):
                level = level_of(share.parts, state.identity.shared_cards).word
                sharers.append(Sharer(container, *names, card.memory_of(part.mem_units), part.weight, level))
        if usage is not None and len(sharers) < len(gpus.users(gpu)):
            usage = dataclasses.replace(usage, processes=None)
        return GpuView(gpu, usage, gpus.illness(gpu.uuid), sharing=Sharing(card.level.word, tuple(sharers)))


def _tasks_of(usage: GpuUsage | None, gpus: AgentGpus, tasks: Mapping[str, str]) -> dict[int, str]:
    """Return the task of each process that is in a task's container."""
    owners = {one.pid: gpus.container_of(one.pid) for one in (usage.processes if usage else None) or ()}
    return {pid: tasks[container] for pid, container in owners.items() if container in tasks}
