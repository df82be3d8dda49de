"""The agent's HTTP endpoints for operators, as Mesos': every one at `/x` and at `/slave(1)/x`.

As in libprocess, trailing segments of a path are dropped until an endpoint fits.
"""

from __future__ import annotations

import logging
import mimetypes
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import PurePosixPath

from aiohttp import web

from mesos_gpu.agent import views_v1
from mesos_gpu.agent.agent import Agent
from mesos_gpu.agent.container_api import ContainerApi
from mesos_gpu.agent.containers_shown import ContainersShown
from mesos_gpu.agent.files import SandboxFiles, as_text
from mesos_gpu.agent.gpu_api import GpuApi
from mesos_gpu.agent.image_api import ImageApi
from mesos_gpu.agent.images import AgentImages
from mesos_gpu.agent.logging_level import LoggingLevel
from mesos_gpu.agent.master_link import CAPABILITIES, MESOS_VERSION, PROCESS_ID
from mesos_gpu.agent.metrics import agent_metrics
from mesos_gpu.agent.paths import latest_path, virtual_latest_path
from mesos_gpu.agent.state_json import (
    attributes_shown,
    frameworks_shown,
    resources_shown,
    total_resources,
    used_resources,
)
from mesos_gpu.agent.v1_api import Sources, V1Api
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound
from mesos_gpu.mesos.flags import parse_duration
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.http import error_response, json_response, make_app
from mesos_gpu.process.requests import method_not_allowed

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
    """All HTTP of an agent. `flags` are shown as they were given, as text.

    With `json_suffixes`, `/state.json` is `/state`, as it was before Mesos 1.8.
    """

    def __init__(
        self,
        agent: Agent,
        flags: Mapping[str, str],
        images: AgentImages | None = None,
        *,
        json_suffixes: bool = False,
    ) -> None:
        self._agent, self._flags, self._json_suffixes = agent, flags, json_suffixes
        self._files = SandboxFiles(self._sandbox_of)
        self._gpus = GpuApi(agent)
        self._images = ImageApi(images)
        self._level = LoggingLevel()
        self._shown = ContainersShown(agent, self._gpus)
        self._v1 = V1Api(
            Sources(self._views(), self._shown.v1, self._images.prune_all),
            ContainerApi(agent.containers, lambda: agent.state.identity),
            self._files,
            self._level,
        )

    def make_app(self) -> web.Application:
        """Return the application with every route."""
        app = make_app()
        app.middlewares.append(_mesos_errors)
        self._gpus.add_to(app)
        self._images.add_to(app)
        self._gets: Mapping[str, Handler] = {
            "state": self._state,
            "flags": self._show_flags,
            "health": self._health,
            "containers": self._shown.containers,
            "monitor/statistics": self._shown.statistics,
            "version": self._version,
            "metrics/snapshot": self._metrics,
            "files/browse": self._browse,
            "files/read": self._read,
            "files/download": self._download,
            "files/debug": self._debug,
            "logging/toggle": self._toggle,
        }
        app.router.add_route("*", "/{path:.*}", self._route)
        return app

    async def _route(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        parts = path.split("/")
        if parts[0] == PROCESS_ID:
            parts = parts[1:]
        while parts:
            name = "/".join(parts)
            if self._json_suffixes:
                name = name.removesuffix(".json")
            if name == "api/v1":
                return await self._v1.handle(request)
            handler = self._gets.get(name)
            if handler is not None:
                if request.method not in ("GET", "HEAD"):
                    return method_not_allowed(request, "GET")
                return await handler(request)
            parts = parts[:-1]
        raise web.HTTPNotFound

    def _views(self) -> Mapping[str, Callable[[], Document]]:
        agent = self._agent
        return {
            "GET_HEALTH": lambda: {"healthy": True},
            "GET_FLAGS": lambda: views_v1.flags_shown(self._flags),
            "GET_VERSION": lambda: {"version_info": dict(BUILD)},
            "GET_METRICS": lambda: views_v1.metrics_shown(self._numbers()),
            "GET_STATE": lambda: views_v1.get_state(agent.state),
            "GET_TASKS": lambda: views_v1.get_tasks(agent.state),
            "GET_EXECUTORS": lambda: views_v1.get_executors(agent.state),
            "GET_FRAMEWORKS": lambda: views_v1.get_frameworks(agent.state),
            "GET_OPERATIONS": lambda: views_v1.get_operations(agent.holdings.operations.operations()),
            "GET_AGENT": lambda: views_v1.get_agent(agent.info, agent.agent_id),
            "GET_RESOURCE_PROVIDERS": dict,
        }

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
        return json_response(self._numbers(), request=request)

    def _numbers(self) -> dict[str, float]:
        agent = self._agent
        total = total_resources(agent.info, agent.holdings.kept)
        numbers = agent_metrics(
            agent.state,
            total,
            used_resources(agent.state),
            registered=agent.registered.is_set(),
            uptime_s=agent.clock.wall() - agent.started_wall_s,
        )
        return dict(sorted({**numbers, **_system()}.items()))

    async def _toggle(self, request: web.Request) -> web.Response:
        """Show the level, or set it for a while (3rdparty/libprocess/src/logging.cpp)."""
        level, duration = request.query.get("level"), request.query.get("duration")
        if level is None and duration is None:
            return web.Response(text=f"{self._level.level}\n")
        if level is None or duration is None:
            raise BadInput(f"Expecting '{'level' if level is None else 'duration'}=value' in query.\n")
        wanted = _number(request, "level")
        try:
            duration_s = parse_duration(duration)
        except ValueError as error:
            raise BadInput(f"Invalid duration '{duration}': {error}.\n") from None
        self._level.set(wanted or 0, duration_s)
        return web.Response()

    # --- files --------------------------------------------------------------------------------------------------

    async def _debug(self, request: web.Request) -> web.Response:
        """Show which virtual path is which real one."""
        return json_response(dict(reversed(list(self._sandboxes()))), request=request)

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
        for root, sandbox in self._sandboxes():
            if path == root or path.startswith(f"{root}/"):
                return root, sandbox
        return None

    def _sandboxes(self) -> Iterator[tuple[str, str]]:
        """Yield every virtual root with its real folder; where two have one, the first counts."""
        state = self._agent.state
        identity = state.identity
        for framework in (*state.frameworks.values(), *state.completed.values()):
            # The newest run first, so that `latest` is its.
            for task in (*framework.tasks.values(), *reversed(framework.completed)):
                if task.sandbox:
                    latest = latest_path(identity.work_dir, identity.agent_id, framework.id, task.executor_id)
                    for root in (task.sandbox, latest, virtual_latest_path(framework.id, task.executor_id)):
                        yield root, task.sandbox


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
