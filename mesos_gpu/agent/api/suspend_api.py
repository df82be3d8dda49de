"""The agent's HTTP endpoints that suspend and resume containers with what they have on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from mesos_gpu.agent.api.here import is_from_here
from mesos_gpu.agent.api.share_api import CHANGES_GPUS
from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.loop.suspending import Suspending
from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.http import error_response, json_response, read_json
from mesos_gpu.process.operator_frame import Handler, only


class SuspendApi:
    """Takes `{"container_id": ...}`, from this machine only; answers with who is suspended."""

    def __init__(self, agent: Agent, viewer_of: Callable[[web.Request], Viewer]) -> None:
        self._agent, self._viewer_of = agent, viewer_of

    def called(self) -> Mapping[str, Handler]:
        """Return the endpoints."""
        return {"gpus/suspend": only("POST", self._suspend), "gpus/resume": only("POST", self._resume)}

    async def _suspend(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        suspending, container = self._suspending(), await _container(request)
        await suspending.suspend(container)
        return json_response(_shown(suspending.suspender), request=request)

    async def _resume(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        suspending, container = self._suspending(), await _container(request)
        await suspending.resume(container)
        return json_response(_shown(suspending.suspender), request=request)

    def _refused(self, request: web.Request) -> web.Response | None:
        if not is_from_here(request):
            return error_response(403, "Only this machine may suspend and resume what runs on it.")
        if not self._viewer_of(request).may(CHANGES_GPUS):
            return error_response(403, "Not authorized to suspend and resume what runs on GPUs.")
        return None

    def _suspending(self) -> Suspending:
        if self._agent.suspending is None:
            raise NotFound("this agent hands out no GPUs")
        return self._agent.suspending


def _shown(suspender: Suspender) -> list[Document]:
    return [
        {"container_id": name, "phase": one.phase.value, "gpus": list(one.gpus)}
        for name, one in sorted(suspender.book.items())
    ]


async def _container(request: web.Request) -> ContainerId:
    document = await read_json(request)
    container = document.get("container_id") if isinstance(document, dict) else None
    if not isinstance(container, str) or not container:
        raise BadInput('say which container: {"container_id": "..."}')
    return ContainerId(container)
