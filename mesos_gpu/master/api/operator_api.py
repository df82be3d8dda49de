"""The operator's endpoints of a master: GET /state and its kin, POST /api/v1; the frame is `process.operator_frame`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from aiohttp import web

from mesos_gpu.errors import BadInput, Conflict, Forbidden
from mesos_gpu.master.api import cluster_api, operator_operations, operator_stream
from mesos_gpu.master.api.access import use_of
from mesos_gpu.master.api.cluster_api import ClusterApi
from mesos_gpu.master.api.scheduler_api import SchedulerApi
from mesos_gpu.master.decisions import permissions
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.operators import OperatorEvent, RemoveFramework
from mesos_gpu.master.views import metrics, views, views_v1
from mesos_gpu.master.views.agent_pages import AgentPages
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.ids import FrameworkId, TaskId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.authentication import Gate, principal_of
from mesos_gpu.process.bodies import read_form
from mesos_gpu.process.build import build
from mesos_gpu.process.files import SandboxFiles
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.http import encoded_json_response, error_response, json_response
from mesos_gpu.process.operator_frame import OperatorFrame, Parts, only, v1_answer
from mesos_gpu.process.requests import JSON, PROTOBUF, accepted_type, read_call, refuse
from mesos_gpu.process.system_metrics import system_metrics
from mesos_gpu.ui import landing

LOG = "/master/log"
"""Where Mesos shows a master's log."""
MAX_DIGITS = 18
"""Of a number in a query; more is more than there is of anything, and int() refuses thousands of them."""
_Id = TypeVar("_Id")
CALL, RESPONSE = "mesos.v1.master.Call", "mesos.v1.master.Response"


class OperatorApi:
    """All HTTP of a master, the scheduler API among it."""

    def __init__(
        self,
        engine: Engine,
        flags: Mapping[str, str],
        *,
        cluster: str | None = None,
        json_suffixes: bool = False,
        log_file: str | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`flags` are shown as text; `log_file` is where our log goes.

        `gate` says who may in; what somebody may do once inside is said by the state's settings.
        """
        self._engine, self._flags, self._cluster, self._log_file = engine, flags, cluster, log_file
        self._agent_pages = AgentPages()
        acls = engine.state.settings.acls
        roots = {} if log_file is None else {LOG: log_file}
        self._frame = OperatorFrame(
            Parts(
                program="master",
                process_id="master",
                flags=flags,
                metrics=self._snapshot,
                files=FilesApi(
                    SandboxFiles(lambda path: (path, roots[path]) if path in roots else None),
                    lambda: roots,
                    acls=acls,
                    may_see=lambda path, viewer: path not in roots or viewer.may("access_mesos_logs"),
                ),
                use_of=use_of,
                shown={
                    "state": self._state,
                    "state-summary": self._summary,
                    "slaves": self._slaves,
                    "frameworks": self._frameworks,
                    "tasks": self._tasks,
                    "roles": self._roles,
                    "redirect": self._redirect,
                },
                called={
                    **ClusterApi(engine).handlers,
                    **operator_operations.handlers(engine),
                    "api/v1/scheduler": SchedulerApi(engine).handle,
                    "api/v1": only("POST", self._v1),
                    "teardown": only("POST", self._teardown),
                },
                home=self._home,
            ),
            gate=gate,
            acls=acls,
            json_suffixes=json_suffixes,
        )

    def make_app(self) -> web.Application:
        """Return the application."""
        return self._frame.make_app()

    def _home(self, request: web.Request, knows: bool) -> web.Response | None:
        """Lead a browser to the page of the Marathon that is registered here; plain links where there is none."""
        if not landing.wants_page(request):
            return None
        frameworks = self._engine.state.frameworks.values()
        named = [(one.name, str(one.info.get("webui_url", ""))) for one in frameworks]
        agent = request.query.get("agent", "")
        pages = [landing.page_of(url, "machines", agent) for name, url in named if name == "marathon"]
        if pages and pages[0] is not None:
            return landing.redirect(pages[0])
        links = [(url, f"{name}: its own page") for name, url in named if knows]
        return landing.links_page(
            "Mesos master",
            "No Marathon with a page is registered here. What this master shows of itself:",
            [*links, *((f"/{path}", f"/{path}") for path in ("state", "slaves", "frameworks", "roles", "help"))],
        )

    # GET endpoints.

    async def _state(self, request: web.Request) -> web.Response:
        viewer = self._viewer(request)
        document = views.state_view(self._engine.state, build(), self._flags, self._cluster, viewer)
        if self._log_file is not None and viewer.may("view_flags"):
            document["external_log_file"] = self._log_file
        return json_response(document, request=request)

    async def _summary(self, request: web.Request) -> web.Response:
        shown = views.summary_view(self._engine.state, self._cluster, self._viewer(request))
        return json_response(shown, request=request)

    async def _slaves(self, request: web.Request) -> web.Response:
        state, slave_id, viewer = self._engine.state, request.query.get("slave_id"), self._viewer(request)
        if slave_id is not None or not viewer.sees_all:
            return json_response(views.slaves_view(state, slave_id, viewer), request=request)
        for _ in self._agent_pages.refresh(state):
            await asyncio.sleep(0)  # a large cluster takes a while, and others have their turn meanwhile
        return encoded_json_response(self._agent_pages.page(state), request=request)

    async def _frameworks(self, request: web.Request) -> web.Response:
        framework_id = _id(request, "framework_id", FrameworkId)
        shown = views.frameworks_view(self._engine.state, framework_id, self._viewer(request))
        return json_response(shown, request=request)

    async def _tasks(self, request: web.Request) -> web.Response:
        query = request.query
        shown = views.tasks_view(
            self._engine.state,
            limit=_number(query.get("limit"), views.DEFAULT_TASK_LIMIT),
            offset=_number(query.get("offset"), 0),
            ascending=query.get("order") == "asc",
            framework_id=_id(request, "framework_id", FrameworkId),
            task_id=_id(request, "task_id", TaskId),
            viewer=self._viewer(request),
        )
        return json_response(shown, request=request)

    async def _roles(self, request: web.Request) -> web.Response:
        return json_response(views.roles_view(self._engine.state, self._viewer(request)), request=request)

    async def _redirect(self, request: web.Request) -> web.Response:
        info = self._engine.state.master_info
        return web.Response(status=307, headers={"Location": f"//{info['hostname']}:{info['port']}"})

    # Actions.

    async def _teardown(self, request: web.Request) -> web.StreamResponse:
        framework_id = (await read_form(request)).get("frameworkId")
        if framework_id is None:
            return error_response(400, "Missing 'frameworkId' query parameter in the request body")
        return self._remove_framework(request, FrameworkId(framework_id))

    def _remove_framework(self, request: web.Request, framework_id: FrameworkId) -> web.Response:
        if framework_id not in self._engine.state.frameworks:
            return error_response(400, "No framework found with specified ID")
        if not permissions.may(
            self._engine.state, principal_of(request), "TEARDOWN", {"framework_id": {"value": framework_id}}
        ):
            raise Forbidden
        self._engine.do(RemoveFramework(framework_id))
        return web.Response()

    async def _v1(self, request: web.Request) -> web.StreamResponse:
        call = await read_call(request, CALL)
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
            self._frame.set_logging_level(call[field])
            return web.Response()
        accepted = accepted_type(request)
        if accepted is None:
            raise refuse(406, f"Expecting 'Accept' to allow '{JSON}' or '{PROTOBUF}'")
        if kind == "SUBSCRIBE":
            return await operator_stream.subscribe(self._engine, request, accepted, self._viewer(request))
        viewer = self._viewer(request)
        body = await self._frame.call(str(kind), call.get(field, {}), viewer)
        if body is None:
            body = self._body(str(kind), viewer)
        return v1_answer(RESPONSE, {"type": kind} if body is None else {"type": kind, field: body}, accepted)

    async def _change(self, event: OperatorEvent) -> web.Response:
        try:
            await self._engine.store(event)
        except BadInput as error:
            raise refuse(400, str(error)) from None
        except Conflict as error:
            raise refuse(409, str(error)) from None
        return web.Response()

    def _viewer(self, request: web.Request) -> Viewer:
        return self._frame.viewer(request)

    def _body(self, kind: str, viewer: Viewer) -> Document | None:
        state = self._engine.state
        if kind in views_v1.READS:
            return views_v1.READS[kind](state, viewer)
        if kind in cluster_api.READS:
            return cluster_api.read(state, kind, viewer)
        raise refuse(501, f"{kind} is not supported by this master")

    def _snapshot(self) -> dict[str, float]:
        listeners = {"master/operator_event_stream_subscribers": float(self._engine.watchers)}
        return metrics.snapshot(
            self._engine.state, self._engine.now(), {**system_metrics(), **listeners, **self._engine.metrics()}
        )


def _number(text: str | None, default: int) -> int:
    try:
        return default if text is None else int(text)
    except ValueError:
        return default


def _id(request: web.Request, name: str, kind: Callable[[str], _Id]) -> _Id | None:
    text = request.query.get(name)
    return None if text is None else kind(text)
