"""The agent's HTTP endpoints for operators, as Mesos': every one at `/x` and at `/slave(1)/x`.

As in libprocess, trailing segments of a path are dropped until an endpoint fits.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping

from aiohttp import web

from mesos_gpu.agent.api.access import Access, use_of
from mesos_gpu.agent.api.container_api import ContainerApi
from mesos_gpu.agent.api.containers_shown import ContainersShown
from mesos_gpu.agent.api.gpu_api import GpuApi
from mesos_gpu.agent.api.image_api import ImageApi
from mesos_gpu.agent.api.v1_api import Sources, V1Api
from mesos_gpu.agent.cluster.master_link import CAPABILITIES, MESOS_VERSION, PROCESS_ID
from mesos_gpu.agent.decisions import permissions
from mesos_gpu.agent.loop.agent import Agent
from mesos_gpu.agent.loop.executor_api import ExecutorApi
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.paths import latest_path, virtual_latest_path
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.running.images import AgentImages
from mesos_gpu.agent.views import views_v1
from mesos_gpu.agent.views.metrics import agent_metrics
from mesos_gpu.agent.views.state_json import (
    attributes_shown,
    frameworks_shown,
    resources_shown,
    total_resources,
    used_resources,
)
from mesos_gpu.errors import BadInput, Forbidden, MesosGpuError, NotFound
from mesos_gpu.mesos.authorization import ENDPOINTS, OPEN
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.viewing import Viewer
from mesos_gpu.process.authentication import Gate, viewer_of
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.help import help_page
from mesos_gpu.process.http import error_response, json_response, make_app
from mesos_gpu.process.logging_level import LoggingLevel
from mesos_gpu.process.requests import check_timeout, method_not_allowed

log = logging.getLogger(__name__)
LOG, LOG_FLAG = "/slave/log", "external_log_file"
V1, ANYTHING = "api/v1", "/{path}"

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
        access: Access | None = None,
    ) -> None:
        self._agent, self._flags, self._json_suffixes = agent, flags, json_suffixes
        self._gate, self._acls = (Gate(), OPEN) if access is None else (access.gate, access.acls)
        self._files = FilesApi(
            SandboxFiles(self._sandbox_of),
            lambda: {root: folder for root, folder, _ in reversed(list(self._sandboxes()))},
            acls=self._acls,
            may_see=self._may_see,
        )
        self._gpus = GpuApi(agent, self._viewer)
        self._images = ImageApi(images, self._viewer)
        self._level = LoggingLevel()
        self._shown = ContainersShown(agent, self._gpus, self._viewer)
        self._v1 = V1Api(
            Sources(self._views(), self._shown.v1, self._images.prune_all),
            ContainerApi(
                agent.containers, lambda: agent.state.identity, agent.fetcher, sandboxes=agent.nested_sandboxes
            ),
            self._files,
            self._level,
            viewer_of=self._viewer,
            may=lambda viewer, kind, body: permissions.may(viewer, agent.state.frameworks, kind, body),
        )
        self._executors = ExecutorApi(
            agent.state.frameworks,
            agent.streams,
            post=agent.post,
            ready=lambda: agent.takes_executors,
            pid_of=agent.containers.pid_of,
        )

    def make_app(self) -> web.Application:
        """Return the application with every route."""
        app = make_app()
        app.middlewares.extend([_mesos_errors, self._guarded])
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
        app.router.add_route("*", "/{path:.*}", self._route)  # its canonical form is ANYTHING
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may come in, to endpoints that have a list of their own also by that."""
        name = self._name(request)
        refusal = self._gate.refusal(request, use_of(name, request.method))
        if refusal is not None:
            return refusal
        if f"/{name}" in ENDPOINTS and not self._viewer(request).may("get_endpoints", f"/{name}"):
            raise Forbidden
        return await handler(request)

    def _name(self, request: web.Request) -> str:
        """Return the name of the endpoint that answers, without `/slave(1)`; the path itself when none does."""
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical != ANYTHING:
            return resource.canonical.removeprefix(f"/{PROCESS_ID}").strip("/")
        path = request.match_info.get("path", request.path)
        return self._find(path) or path

    def _find(self, path: str) -> str | None:
        """Return the endpoint that a path leads to."""
        parts = path.split("/")
        if parts[0] == PROCESS_ID:
            parts = parts[1:]
        while parts:
            name = "/".join(parts)
            if self._json_suffixes:
                name = name.removesuffix(".json")
            if name == V1 or name in self._gets:
                return name
            parts = parts[:-1]
        return None

    async def _route(self, request: web.Request) -> web.StreamResponse:
        name = self._find(request.match_info["path"])
        if name is None:
            raise web.HTTPNotFound
        if name == V1:
            return await self._v1.handle(request)
        if request.method not in ("GET", "HEAD"):
            return method_not_allowed(request, "GET")
        return await self._gets[name](request)

    def _viewer(self, request: web.Request) -> Viewer:
        return viewer_of(request, self._acls)

    def _views(self) -> Mapping[str, Callable[[Viewer], Document]]:
        agent = self._agent
        return {
            "GET_HEALTH": lambda viewer: {"healthy": True},
            "GET_FLAGS": lambda viewer: views_v1.flags_shown(self._flags),
            "GET_VERSION": lambda viewer: {"version_info": dict(BUILD)},
            "GET_METRICS": lambda viewer: views_v1.metrics_shown(self._numbers()),
            "GET_STATE": lambda viewer: views_v1.get_state(agent.state, viewer),
            "GET_TASKS": lambda viewer: views_v1.get_tasks(agent.state, viewer),
            "GET_EXECUTORS": lambda viewer: views_v1.get_executors(agent.state, viewer),
            "GET_FRAMEWORKS": lambda viewer: views_v1.get_frameworks(agent.state, viewer),
            "GET_OPERATIONS": lambda viewer: views_v1.get_operations(agent.holdings.operations.operations(), viewer),
            "GET_AGENT": lambda viewer: views_v1.get_agent(agent.info, agent.agent_id),
            "GET_RESOURCE_PROVIDERS": lambda viewer: {},
        }

    # --- state --------------------------------------------------------------------------------------------------

    async def _state(self, request: web.Request) -> web.Response:
        agent, viewer = self._agent, self._viewer(request)
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
            **resources_shown(total, used_resources(state), viewer),
            "resource_providers": [],
            "attributes": attributes_shown(agent.info),
        }
        if agent.master is not None:
            document["master_hostname"] = agent.master.ip
        if viewer.may("view_flags"):
            if LOG_FLAG in self._flags:
                document[LOG_FLAG] = self._flags[LOG_FLAG]
            document["flags"] = dict(self._flags)
        document["frameworks"] = frameworks_shown(state.frameworks.active.values(), viewer)
        document["completed_frameworks"] = frameworks_shown(state.frameworks.completed.values(), viewer)
        return json_response(document, request=request)

    async def _show_flags(self, request: web.Request) -> web.Response:
        if not self._viewer(request).may("view_flags"):
            raise Forbidden
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
        return help_page("agent", {*self._gets, V1, "api/v1/executor"})

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
        numbers["slave/executor_directory_max_allowed_age_secs"] = agent.collector.allowed_age_s
        numbers["gc/path_removals_pending"] = float(agent.collector.pending)
        numbers["gc/path_removals_succeeded"] = float(agent.collector.succeeded)
        numbers["gc/path_removals_failed"] = float(agent.collector.failed)
        fetched = {} if agent.fetcher is None else agent.fetcher.metrics()
        return dict(sorted({**numbers, **fetched, **_system()}.items()))

    # --- files --------------------------------------------------------------------------------------------------

    def _sandbox_of(self, path: str) -> tuple[str, str] | None:
        """Return the virtual root and the real folder of the sandbox that a virtual path lies in."""
        found = self._find_sandbox(path)
        return None if found is None else found[:2]

    def _find_sandbox(self, path: str) -> tuple[str, str, tuple[Framework, Task | Executor] | None] | None:
        for root, folder, whose in self._sandboxes():
            if path == root or path.startswith(f"{root}/"):
                return root, folder, whose
        return None

    def _may_see(self, path: str, viewer: Viewer) -> bool:
        """Tell whether somebody may look at what lies at a virtual path; what is not there he may look for."""
        found = self._find_sandbox(path)
        if found is None:
            return True
        whose = found[2]
        return viewer.may("access_mesos_logs") if whose is None else permissions.may_enter(viewer, *whose)

    def _sandboxes(self) -> Iterator[tuple[str, str, tuple[Framework, Task | Executor] | None]]:
        """Yield every virtual root with its real folder, or file, and whose it is (None: the agent's own).

        Where two have one root, the first counts.
        """
        if LOG_FLAG in self._flags:
            yield LOG, self._flags[LOG_FLAG], None
        state = self._agent.state
        identity = state.identity
        for framework in (*state.frameworks.active.values(), *state.frameworks.completed.values()):
            # The newest run first, so that `latest` is its.
            live: list[Task | Executor] = [*framework.tasks.values(), *framework.executors.values()]
            for task in (*live, *reversed(framework.completed)):
                if task.sandbox and not task.collected:
                    name = task.key.executor if isinstance(task, Executor) else task.executor_id
                    latest = latest_path(identity.work_dir, identity.agent_id, framework.id, name)
                    for root in (task.sandbox, latest, virtual_latest_path(framework.id, name)):
                        yield root, task.sandbox, (framework, task)


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
    except Forbidden as error:
        return error_response(403, str(error))
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
