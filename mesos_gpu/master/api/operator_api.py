"""The operator's endpoints: GET /state and its kin, POST /api/v1, and how paths find their handler.

Every path answers with and without `/master`, and trailing segments are dropped until a handler fits, as in
libprocess; that is how `/api/v1/operator` is `/api/v1`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from mesos_gpu.errors import BadInput, Conflict, Forbidden, NotFound, Unavailable
from mesos_gpu.master.api import cluster_api, operator_operations, operator_stream
from mesos_gpu.master.api.access import use_of
from mesos_gpu.master.api.cluster_api import ClusterApi
from mesos_gpu.master.api.scheduler_api import SchedulerApi
from mesos_gpu.master.decisions import permissions
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.operators import OperatorEvent, RemoveFramework
from mesos_gpu.master.views import metrics, views, views_v1
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.authorization import ENDPOINTS
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.viewing import Viewer
from mesos_gpu.process.authentication import Gate, principal_of, viewer_of
from mesos_gpu.process.bodies import read_form
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.help import help_page
from mesos_gpu.process.http import error_response, json_response, make_app
from mesos_gpu.process.logging_level import LoggingLevel
from mesos_gpu.process.requests import (
    JSON,
    PROTOBUF,
    HttpProblem,
    accepted_type,
    check_timeout,
    method_not_allowed,
    read_call,
    refuse,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
VERSION = "1.12.0"
"""The Mesos whose protocol this is; pymesos takes whole numbers between dots only."""
BUILD: Document = {
    "build_date": "1970-01-01 00:00:00 UTC",
    "build_time": 0.0,
    "build_user": "mesos-gpu",
    "version": VERSION,
}
LOG = "/master/log"
"""Where Mesos shows a master's log."""
CALL, RESPONSE = "mesos.v1.master.Call", "mesos.v1.master.Response"


class OperatorApi:
    """All HTTP of a master, the scheduler API among it."""

    def __init__(
        self,
        engine: Engine,
        flags: Mapping[str, str],
        *,
        cluster: str | None = None,
        system: Callable[[], dict[str, float]] = dict,
        json_suffixes: bool = False,
        log_file: str | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`flags` are shown as text; `system()` gives the machine's own metrics; `log_file` is where our log goes.

        `gate` says who may in; what somebody may do once inside is said by the state's settings.
        """
        self._engine, self._flags, self._cluster, self._system = engine, flags, cluster, system
        self._gate, self._acls = gate or Gate(), engine.state.settings.acls
        get: Mapping[str, Handler] = {
            "state": self._state,
            "state-summary": self._summary,
            "slaves": self._slaves,
            "frameworks": self._frameworks,
            "tasks": self._tasks,
            "roles": self._roles,
            "metrics/snapshot": self._metrics,
            "version": self._version,
            "flags": self._show_flags,
            "health": self._health,
            "redirect": self._redirect,
            "system/stats.json": self._stats,
            "help": self._help,
        }
        self._handlers: dict[str, Handler] = {path: _only_get(handler) for path, handler in get.items()}
        self._handlers |= ClusterApi(engine).handlers
        self._handlers["api/v1/scheduler"] = SchedulerApi(engine).handle
        self._handlers["api/v1"] = self._v1
        self._handlers["teardown"] = self._teardown
        self._json_suffixes = json_suffixes
        roots = {} if log_file is None else {LOG: log_file}
        self._files = FilesApi(
            SandboxFiles(lambda path: (path, roots[path]) if path in roots else None),
            lambda: roots,
            acls=self._acls,
            may_see=lambda path, viewer: path not in roots or viewer.may("access_mesos_logs"),
        )
        self._logging = LoggingLevel()
        handlers = {**self._files.handlers(), "logging/toggle": self._logging.toggle}
        self._handlers |= {path: _only_get(handler) for path, handler in handlers.items()}
        self._handlers.update(operator_operations.handlers(engine))

    def make_app(self) -> web.Application:
        """Return the application."""
        app = make_app()
        app.router.add_route("*", "/{path:.*}", self._route)
        app.on_cleanup.append(self._log_as_configured)
        return app

    async def _route(self, request: web.Request) -> web.StreamResponse:
        found = self._find(request.match_info["path"])
        if found is None:
            return error_response(404, "404 Not Found.")
        name, handler = found
        refusal = self._gate.refusal(request, use_of(name))
        if refusal is not None:
            return refusal
        try:
            if f"/{name}" in ENDPOINTS and not self._viewer(request).may("get_endpoints", f"/{name}"):
                raise Forbidden
            return await handler(request)
        except NotFound as error:
            return error_response(404, str(error))
        except Forbidden as error:
            return error_response(403, str(error))
        except BadInput as error:
            return error_response(400, str(error))
        except Unavailable as error:
            return error_response(503, str(error))

    def _find(self, path: str) -> tuple[str, Handler] | None:
        """Return what answers a path, with the name that it goes by."""
        parts = path.split("/")
        if parts[0] == "master":
            parts = parts[1:]
        while parts:
            known = "/".join(parts)
            handler = self._handlers.get(known)
            if handler is None and self._json_suffixes and known.endswith(".json"):
                known = known.removesuffix(".json")
                handler = self._handlers.get(known)
            if handler is not None:
                return known, handler
            parts = parts[:-1]
        return None

    async def _log_as_configured(self, app: web.Application) -> None:
        self._logging.reset()

    # GET endpoints.

    async def _state(self, request: web.Request) -> web.Response:
        viewer = self._viewer(request)
        document = views.state_view(self._engine.state, BUILD, self._flags, self._cluster, viewer)
        if "external_log_file" in self._flags and viewer.may("view_flags"):
            document["external_log_file"] = self._flags["external_log_file"]
        return json_response(document, request=request)

    async def _summary(self, request: web.Request) -> web.Response:
        shown = views.summary_view(self._engine.state, self._cluster, self._viewer(request))
        return json_response(shown, request=request)

    async def _slaves(self, request: web.Request) -> web.Response:
        shown = views.slaves_view(self._engine.state, request.query.get("slave_id"), self._viewer(request))
        return json_response(shown, request=request)

    async def _frameworks(self, request: web.Request) -> web.Response:
        framework_id = request.query.get("framework_id")
        shown = views.frameworks_view(self._engine.state, framework_id, self._viewer(request))
        return json_response(shown, request=request)

    async def _tasks(self, request: web.Request) -> web.Response:
        query = request.query
        shown = views.tasks_view(
            self._engine.state,
            limit=_number(query.get("limit"), views.DEFAULT_TASK_LIMIT),
            offset=_number(query.get("offset"), 0),
            ascending=query.get("order") == "asc",
            framework_id=query.get("framework_id"),
            task_id=query.get("task_id"),
            viewer=self._viewer(request),
        )
        return json_response(shown, request=request)

    async def _roles(self, request: web.Request) -> web.Response:
        return json_response(views.roles_view(self._engine.state, self._viewer(request)), request=request)

    async def _metrics(self, request: web.Request) -> web.Response:
        check_timeout(request)
        return json_response(self._snapshot(), request=request)

    async def _version(self, request: web.Request) -> web.Response:
        return json_response(BUILD, request=request)

    async def _show_flags(self, request: web.Request) -> web.Response:
        if not self._viewer(request).may("view_flags"):
            raise Forbidden
        return json_response({"flags": dict(self._flags)}, request=request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _stats(self, request: web.Request) -> web.Response:
        found = {name.removeprefix("system/"): value for name, value in self._system().items()}
        # The oldest endpoint of all has names of its own.
        return json_response({name.replace("load_", "avg_load_"): found[name] for name in found}, request=request)

    async def _help(self, request: web.Request) -> web.Response:
        return help_page("master", self._handlers)

    async def _redirect(self, request: web.Request) -> web.Response:
        info = self._engine.state.master_info
        return web.Response(status=307, headers={"Location": f"//{info['hostname']}:{info['port']}"})

    # Actions.

    async def _teardown(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        framework_id = (await read_form(request)).get("frameworkId")
        if framework_id is None:
            return error_response(400, "Missing 'frameworkId' query parameter in the request body")
        return self._remove_framework(request, str(framework_id))

    def _remove_framework(self, request: web.Request, framework_id: str) -> web.Response:
        if framework_id not in self._engine.state.frameworks:
            return error_response(400, "No framework found with specified ID")
        if not permissions.may(
            self._engine.state, principal_of(request), "TEARDOWN", {"framework_id": {"value": framework_id}}
        ):
            raise Forbidden
        self._engine.do(RemoveFramework(framework_id))
        return web.Response()

    async def _v1(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        try:
            call = await read_call(request, CALL)
            return await self._answer(request, call)
        except HttpProblem as refused:
            return refused.response

    async def _answer(self, request: web.Request, call: Document) -> web.StreamResponse:
        kind = call.get("type")
        if kind is None:
            raise refuse(400, "Failed to validate master::Call: Expecting 'type' to be present")
        field = str(kind).lower()
        if field in messages.field_names(CALL) and field not in call:
            raise refuse(400, f"Failed to validate master::Call: Expecting '{field}' to be present")
        if kind == "TEARDOWN":
            return self._remove_framework(request, call["teardown"]["framework_id"]["value"])
        if kind in operator_operations.V1_CALLS:
            return operator_operations.v1(self._engine, call, principal_of(request))
        if kind in cluster_api.CHANGES or kind == "SET_LOGGING_LEVEL":
            if not permissions.may(self._engine.state, principal_of(request), kind, call[field]):
                raise Forbidden
            if kind in cluster_api.CHANGES:
                return await self._change(cluster_api.CHANGES[kind](call[field]))
            self._logging.set_from(call[field])
            return web.Response()
        accepted = accepted_type(request)
        if accepted is None:
            raise refuse(406, f"Expecting 'Accept' to allow '{JSON}' or '{PROTOBUF}'")
        if kind == "SUBSCRIBE":
            return await operator_stream.subscribe(self._engine, request, accepted, self._viewer(request))
        if kind == "GET_FLAGS" and not self._viewer(request).may("view_flags"):
            raise Forbidden
        if kind in ("LIST_FILES", "READ_FILE"):
            answer = self._files.list_files if kind == "LIST_FILES" else self._files.read_file
            body: Document | None = answer(call[field], self._viewer(request))
        else:
            body = self._body(str(kind), self._viewer(request))
        document = {"type": kind} if body is None else {"type": kind, field: body}
        if accepted == PROTOBUF:
            return web.Response(body=messages.encode(RESPONSE, document), headers={"Content-Type": PROTOBUF})
        return json_response(document)

    async def _change(self, event: OperatorEvent) -> web.Response:
        try:
            await self._engine.store(event)
        except BadInput as error:
            raise refuse(400, str(error)) from None
        except Conflict as error:
            raise refuse(409, str(error)) from None
        return web.Response()

    def _viewer(self, request: web.Request) -> Viewer:
        return viewer_of(request, self._acls)

    def _body(self, kind: str, viewer: Viewer) -> Document | None:
        state = self._engine.state
        match kind:
            case "GET_HEALTH":
                return {"healthy": True}
            case "GET_FLAGS":
                return {"flags": [{"name": name, "value": value} for name, value in self._flags.items()]}
            case "GET_VERSION":
                return {"version_info": BUILD}
            case "GET_METRICS":
                return {"metrics": [{"name": name, "value": value} for name, value in self._snapshot().items()]}
            case "GET_LOGGING_LEVEL":
                return {"level": self._logging.level}
        if kind in views_v1.READS:
            return views_v1.READS[kind](state, viewer)
        if kind in cluster_api.READS:
            return cluster_api.read(state, kind, viewer)
        raise refuse(501, f"{kind} is not supported by this master")

    def _snapshot(self) -> dict[str, float]:
        listeners = {"master/operator_event_stream_subscribers": float(self._engine.watchers)}
        return metrics.snapshot(
            self._engine.state, self._engine.now(), {**self._system(), **listeners, **self._engine.metrics()}
        )


def _only_get(handler: Handler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return method_not_allowed(request, "GET")
        return await handler(request)

    return handle


def _number(text: str | None, default: int) -> int:
    try:
        return default if text is None else int(text)
    except ValueError:
        return default
