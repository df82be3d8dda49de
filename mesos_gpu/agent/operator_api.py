"""The agent's HTTP endpoints for operators, as Mesos': every one at `/x` and at `/slave(1)/x`.

As in libprocess, trailing segments of a path are dropped until an endpoint fits.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping

from aiohttp import web

from mesos_gpu.agent import views_v1
from mesos_gpu.agent.agent import Agent
from mesos_gpu.agent.container_api import ContainerApi
from mesos_gpu.agent.containers_shown import ContainersShown
from mesos_gpu.agent.executor_api import ExecutorApi
from mesos_gpu.agent.executors import Executor
from mesos_gpu.agent.gpu_api import GpuApi
from mesos_gpu.agent.image_api import ImageApi
from mesos_gpu.agent.images import AgentImages
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
from mesos_gpu.agent.tasks import Task
from mesos_gpu.agent.v1_api import Sources, V1Api
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.help import help_page
from mesos_gpu.process.http import error_response, json_response, make_app
from mesos_gpu.process.logging_level import LoggingLevel
from mesos_gpu.process.requests import check_timeout, method_not_allowed

log = logging.getLogger(__name__)
LOG, LOG_FLAG = "/slave/log", "external_log_file"

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

    With `json_suffixes`, `/state.json` is `/state`, as it was before Mesos 1.0.
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
        self._files = FilesApi(SandboxFiles(self._sandbox_of), lambda: dict(reversed(list(self._sandboxes()))))
        self._gpus = GpuApi(agent)
        self._images = ImageApi(images)
        self._level = LoggingLevel()
        self._shown = ContainersShown(agent, self._gpus)
        self._v1 = V1Api(
            Sources(self._views(), self._shown.v1, self._images.prune_all),
            ContainerApi(
                agent.containers, lambda: agent.state.identity, agent.fetcher, sandboxes=agent.nested_sandboxes
            ),
            self._files,
            self._level,
        )
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
        for prefix in ("", f"/{PROCESS_ID}"):
            app.router.add_route("*", f"{prefix}/api/v1/executor", self._executors.handle)
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
            "system/stats.json": self._stats,
            "help": self._help,
            **self._files.handlers(),
            "logging/toggle": self._level.toggle,
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
        if LOG_FLAG in self._flags:
            document[LOG_FLAG] = self._flags[LOG_FLAG]
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
        check_timeout(request)
        return json_response(self._numbers(), request=request)

    async def _stats(self, request: web.Request) -> web.Response:
        # The oldest endpoint of all has names of its own.
        found = {name.removeprefix("system/"): value for name, value in _system().items()}
        return json_response({name.replace("load_", "avg_load_"): found[name] for name in found}, request=request)

    async def _help(self, request: web.Request) -> web.Response:
        return help_page("agent", {*self._gets, "api/v1", "api/v1/executor"})

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
        numbers["slave/recovery_time_secs"] = agent.recovery_s
        numbers["gc/path_removals_pending"] = float(agent.collector.pending)
        numbers["gc/path_removals_succeeded"] = float(agent.collector.succeeded)
        numbers["gc/path_removals_failed"] = float(agent.collector.failed)
        fetched = {} if agent.fetcher is None else agent.fetcher.metrics()
        return dict(sorted({**numbers, **fetched, **_system()}.items()))

    # --- files --------------------------------------------------------------------------------------------------

    def _sandbox_of(self, path: str) -> tuple[str, str] | None:
        """Return the virtual root and the real folder of the sandbox that a virtual path lies in."""
        for root, sandbox in self._sandboxes():
            if path == root or path.startswith(f"{root}/"):
                return root, sandbox
        return None

    def _sandboxes(self) -> Iterator[tuple[str, str]]:
        """Yield every virtual root with its real folder, or file; where two have one, the first counts."""
        if LOG_FLAG in self._flags:
            yield LOG, self._flags[LOG_FLAG]
        state = self._agent.state
        identity = state.identity
        for framework in (*state.frameworks.values(), *state.completed.values()):
            # The newest run first, so that `latest` is its.
            live: list[Task | Executor] = [*framework.tasks.values(), *framework.executors.values()]
            for task in (*live, *reversed(framework.completed)):
                if task.sandbox and not task.collected:
                    name = task.key.executor if isinstance(task, Executor) else task.executor_id
                    latest = latest_path(identity.work_dir, identity.agent_id, framework.id, name)
                    for root in (task.sandbox, latest, virtual_latest_path(framework.id, name)):
                        yield root, task.sandbox


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
