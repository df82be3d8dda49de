"""The agent's HTTP endpoints for operators, as Mesos': every one at `/x` and at `/slave(1)/x`."""

from __future__ import annotations

import logging
import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath

from aiohttp import web

from mesos_gpu.agent.agent import Agent
from mesos_gpu.agent.executor_api import ExecutorApi
from mesos_gpu.agent.executors import Executor, Stage
from mesos_gpu.agent.gpu_api import GpuApi
from mesos_gpu.agent.image_api import ImageApi
from mesos_gpu.agent.images import AgentImages
from mesos_gpu.agent.master_link import CAPABILITIES, MESOS_VERSION, PROCESS_ID
from mesos_gpu.agent.metrics import agent_metrics
from mesos_gpu.agent.paths import latest_path, virtual_latest_path
from mesos_gpu.agent.state_json import (
    attributes_shown,
    executor_line,
    frameworks_shown,
    resources_shown,
    total_resources,
    used_resources,
)
from mesos_gpu.agent.tasks import Phase, Task
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.files import SandboxFiles, as_text
from mesos_gpu.process.http import error_response, json_response, make_app

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# /version has to name a build; pymesos and others read `version` only.
BUILD: Mapping[str, object] = {
    "build_date": "1970-01-01 00:00:00 UTC",
    "build_time": 0.0,
    "build_user": "mesos-gpu",
    "version": MESOS_VERSION,
}


class OperatorApi:
    """Reads an agent's state; changes nothing. `flags` are shown as they were given, as text."""

    def __init__(self, agent: Agent, flags: Mapping[str, str], images: AgentImages | None = None) -> None:
        self._agent, self._flags = agent, flags
        self._files = SandboxFiles(self._sandbox_of)
        self._gpus = GpuApi(agent)
        self._images = ImageApi(images)
        self._executors = ExecutorApi(
            agent.state,
            agent.streams,
            post=agent.post,
            ready=lambda: agent.takes_executors,
            pid_of=agent.containers.pid_of,
        )

    def make_app(self) -> web.Application:
        """Return the application with every route."""
        app = make_app()
        app.middlewares.append(_mesos_errors)
        routes: Mapping[str, Handler] = {
            "/state": self._state,
            "/flags": self._show_flags,
            "/health": self._health,
            "/containers": self._containers,
            "/monitor/statistics": self._statistics,
        }
        everywhere: Mapping[str, Handler] = {
            "/version": self._version,
            "/metrics/snapshot": self._metrics,
            "/files/browse": self._browse,
            "/files/read": self._read,
            "/files/download": self._download,
        }
        for path, handler in {**routes, **everywhere}.items():
            app.router.add_get(path, handler)
            app.router.add_get(f"/{PROCESS_ID}{path}", handler)
        for prefix in ("", f"/{PROCESS_ID}"):
            app.router.add_route("*", f"{prefix}/api/v1/executor", self._executors.handle)
        self._gpus.add_to(app)
        self._images.add_to(app)
        return app

    # --- state --------------------------------------------------------------------------------------------------

    async def _state(self, request: web.Request) -> web.Response:
        agent = self._agent
        identity, state = agent.state.identity, agent.state
        total = total_resources(agent.info, agent.holdings.kept)
        document: Document = {
            "version": BUILD["version"],
            "build_date": BUILD["build_date"],
            "build_time": BUILD["build_time"],
            "build_user": BUILD["build_user"],
            "start_time": agent.started_wall_s,
            "id": identity.agent_id,
            "pid": identity.pid,
            "hostname": agent.info["hostname"],
            "capabilities": list(CAPABILITIES),
            **resources_shown(total, used_resources(state)),
            "resource_providers": [],
            "attributes": attributes_shown(agent.info),
        }
        if agent.master is not None:
            document["master_hostname"] = agent.master.ip
        document["flags"] = dict(self._flags)
        document["frameworks"] = frameworks_shown(state.frameworks.values())
        document["completed_frameworks"] = frameworks_shown(state.completed.values())
        return json_response(document, request=request)

    async def _show_flags(self, request: web.Request) -> web.Response:
        return json_response({"flags": dict(self._flags)}, request=request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return json_response(BUILD, request=request)

    async def _metrics(self, request: web.Request) -> web.Response:
        agent = self._agent
        total = total_resources(agent.info, agent.holdings.kept)
        numbers = agent_metrics(
            agent.state,
            total,
            used_resources(agent.state),
            registered=agent.registered.is_set(),
            uptime_s=agent.clock.wall() - agent.started_wall_s,
        )
        fetched = {} if agent.fetcher is None else agent.fetcher.metrics()
        return json_response(dict(sorted({**numbers, **fetched, **_system()}.items())), request=request)

    # --- containers ---------------------------------------------------------------------------------------------

    async def _containers(self, request: web.Request) -> web.Response:
        shown = []
        for task in self._running():
            status: Document = {"container_id": {"value": task.container_id}}
            if task.pid is not None:
                status["executor_pid"] = task.pid
            statistics = await self._usage(task)
            if statistics is not None:
                line = {"container_id": task.container_id, **executor_line(task)}
                gpus = await self._gpus.usage_of(str(task.container_id))
                shown.append({**line, "statistics": statistics, "status": status, "gpus": gpus})
        return json_response(shown, request=request)

    async def _statistics(self, request: web.Request) -> web.Response:
        shown = []
        for task in self._running():
            statistics = await self._usage(task)
            if statistics is not None:
                gpus = await self._gpus.usage_of(str(task.container_id))
                shown.append({**executor_line(task), "statistics": statistics, "gpus": gpus})
        return json_response(shown, request=request)

    def _running(self) -> list[Task | Executor]:
        """Return whatever has a container that runs: command tasks, and executors."""
        state, phases = self._agent.state, (Phase.RUNNING, Phase.ENDING)
        tasks = [task for task in state.tasks() if task.phase in phases and not task.hosted]
        gone = (Stage.LAUNCHING, Stage.TERMINATED)
        return [*tasks, *(executor for executor in state.executors() if executor.stage not in gone)]

    async def _usage(self, task: Task | Executor) -> Document | None:
        try:
            return dict(await self._agent.containers.usage(str(task.container_id)))
        except NotFound:
            return None  # it ended while we looked

    # --- files --------------------------------------------------------------------------------------------------

    async def _browse(self, request: web.Request) -> web.Response:
        entries = self._files.browse(_query(request, "path"))
        return json_response([entry.to_json() for entry in entries], request=request)

    async def _read(self, request: web.Request) -> web.Response:
        offset, length = _number(request, "offset"), _number(request, "length")
        start, data, _ = self._files.read(_query(request, "path"), -1 if offset is None else offset, length)
        return json_response({"data": as_text(data), "offset": start}, request=request)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        path = _query(request, "path")
        file = os.fdopen(self._files.open(path), "rb")
        name = PurePosixPath(path).name
        content_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        printable = "".join(c if c.isprintable() and c not in '";\\' and ord(c) < 127 else "_" for c in name)
        return web.Response(
            body=file,
            headers={"Content-Type": content_type, "Content-Disposition": f"attachment; filename={printable}"},
        )

    def _sandbox_of(self, path: str) -> tuple[str, str] | None:
        """Return the virtual root and the real folder of the sandbox that a virtual path lies in."""
        state = self._agent.state
        identity = state.identity
        for framework in (*state.frameworks.values(), *state.completed.values()):
            # The newest run last, so that `latest` is its.
            live: list[Task | Executor] = [*framework.tasks.values(), *framework.executors.values()]
            for task in (*live, *reversed(framework.completed)):
                if not task.sandbox:
                    continue
                name = task.key.executor if isinstance(task, Executor) else task.executor_id
                latest = latest_path(identity.work_dir, identity.agent_id, framework.id, name)
                for root in (task.sandbox, latest, virtual_latest_path(framework.id, name)):
                    if path == root or path.startswith(f"{root}/"):
                        return root, task.sandbox
        return None


def _query(request: web.Request, name: str) -> str:
    value = request.query.get(name)
    if not value:
        raise BadInput(f"Expecting '{name}=value' in query.\n")
    return value


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"Failed to parse {name}: '{text}' is not a number.\n") from None


def _system() -> dict[str, float]:
    one, five, fifteen = os.getloadavg()
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "system/cpus_total": float(os.cpu_count() or 1),
        "system/load_1min": one,
        "system/load_5min": five,
        "system/load_15min": fifteen,
        "system/mem_total_bytes": float(page * os.sysconf("SC_PHYS_PAGES")),
        "system/mem_free_bytes": float(page * os.sysconf("SC_AVPHYS_PAGES")),
    }


@web.middleware
async def _mesos_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer refusals as Mesos words them."""
    try:
        return await handler(request)
    except NotFound as error:
        return error_response(404, str(error))
    except BadInput as error:
        return error_response(400, str(error))
    except MesosGpuError as error:
        log.warning("%s %s: %s", request.method, request.path, error)
        return error_response(500, str(error))
    except web.HTTPNotFound:
        return error_response(404, "404 Not Found.")
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(f"'{method}'" for method in sorted(error.allowed_methods - {"HEAD"}))
        words = f"Expecting one of {{ {allowed} }}, but received '{request.method}'."
        answer = error_response(405, f"405 Method Not Allowed. {words}")
        answer.headers["Allow"] = error.headers["Allow"]
        return answer
