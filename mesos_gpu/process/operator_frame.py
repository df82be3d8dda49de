"""What the HTTP of a Mesos program is made of, whichever program: master and agent give it their parts.

Every endpoint answers at `/x` and at `/PROCESS/x` (`/master/state`, `/slave(1)/state`), and trailing segments of a path
are dropped until an endpoint fits: that is how `/api/v1/operator` is `/api/v1`. Whoever may not come in is refused
before an endpoint is asked, and what endpoints raise becomes an answer in Mesos' words. `//x` is `/x`, and what is only
looked at answers to every method, as there: there are clients that ask for `/tasks` by POST.
Source: Mesos 3rdparty/libprocess/src/process.cpp (ProcessBase::consume, handlers by path), src/version, src/logging.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from aiohttp import web
from msgspec import Struct, field

from mesos_gpu.errors import (
    BadInput,
    Conflict,
    ContainerError,
    DeviceError,
    Forbidden,
    ImageError,
    MesosGpuError,
    NotFound,
    Unavailable,
)
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import ENDPOINTS, OPEN, Acls
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.authentication import Gate, principal_of, viewer_of
from mesos_gpu.process.build import build
from mesos_gpu.process.files_api import FilesApi
from mesos_gpu.process.http import error_response, json_response, make_app
from mesos_gpu.process.logging_level import LoggingLevel
from mesos_gpu.process.requests import PROTOBUF, HttpProblem, check_timeout, method_not_allowed
from mesos_gpu.process.system_metrics import system_stats

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

STATUS_OF: Mapping[type[MesosGpuError], int] = {
    NotFound: 404,
    Forbidden: 403,
    BadInput: 400,
    Conflict: 409,
    Unavailable: 503,
    # The program is there, what it tried was not: a failed future, which libprocess answers with 500.
    ContainerError: 500,
    DeviceError: 500,
    ImageError: 500,
}
"""Statuses of what endpoints raise; the nearest ancestor decides, and 500 is for what has none."""
ANY_SEGMENT = "*"
"""Stands, in the name of an endpoint, for any one segment of a path; `segment` returns which it was."""
_SEGMENT = web.RequestKey("mesos_gpu.segment", str)
_ONLY_GET = frozenset({"flags", "containers", "monitor/statistics"})
"""What Mesos shows to no other method once it has ACLs: their lists know a GET alone (src/common/http.cpp)."""


class Parts(Struct, frozen=True):
    """What a program gives to the frame. Endpoints are named by their path without the program's own prefix."""

    program: str
    """`master` or `agent`, for /help."""
    process_id: str
    """The prefix that paths may have, without slashes: `master`, `slave(1)`."""
    flags: Mapping[str, str]
    metrics: Callable[[], Mapping[str, float]]
    files: FilesApi
    use_of: Callable[[str, str], str]
    """What an endpoint is for, by its name and the method asked: what guards it."""
    shown: Mapping[str, Handler] = field(default_factory=dict)
    """Endpoints that are looked at, by any method, as in Mesos."""
    own: Mapping[str, Handler] = field(default_factory=dict)
    """Those that Mesos does not have: GET and HEAD."""
    called: Mapping[str, Handler] = field(default_factory=dict)
    """Endpoints that look at the method themselves."""
    for_executors: frozenset[str] = frozenset()
    """Endpoints that executors can use with their tokens; all others answer them with 403."""
    home: Callable[[web.Request, bool], web.Response | None] | None = None
    """What a browser finds at `/`, None for a program; told whether who asks may see frameworks and agents."""


class OperatorFrame:
    """All HTTP of one program."""

    def __init__(
        self, parts: Parts, *, gate: Gate | None = None, acls: Acls = OPEN, json_suffixes: bool = False
    ) -> None:
        """`gate` says who may in, `acls` what somebody may do once inside.

        With `json_suffixes`, `/state.json` is `/state`, as it was before Mesos 1.0.
        """
        self._parts, self._gate, self._acls, self._json_suffixes = parts, gate or Gate(), acls, json_suffixes
        self._level = LoggingLevel()
        shown: Mapping[str, Handler] = {
            "health": self._health,
            "version": self._version,
            "flags": self._flags,
            "metrics/snapshot": self._metrics,
            "system/stats.json": self._stats,
            "logging/toggle": self._level.toggle,
            "help": self._help,
            **parts.files.handlers(),
            **parts.shown,
        }
        self._endpoints: dict[str, Handler] = {
            name: only("GET", handler) if acls.active and name in _ONLY_GET else handler
            for name, handler in shown.items()
        }
        self._endpoints.update({name: only("GET", handler) for name, handler in parts.own.items()})
        self._endpoints.update(parts.called)

    def make_app(self) -> web.Application:
        """Return the application."""
        app = make_app()
        app.router.add_route("*", "/{path:.*}", self._answer)
        app.on_cleanup.append(self._log_as_configured)
        return app

    def viewer(self, request: web.Request) -> Viewer:
        """Return what whoever makes a request may see."""
        return viewer_of(request, self._acls)

    async def call(self, kind: str, body: Document, viewer: Viewer) -> Document | None:
        """Return the body of the answer to a v1 call that every program takes; None for a call it does not.

        Raises BadInput, NotFound, Forbidden.
        """
        match kind:
            case "GET_HEALTH":
                return {"healthy": True}
            case "GET_FLAGS":
                self._may_see_flags(viewer)
                return {"flags": [{"name": name, "value": value} for name, value in self._parts.flags.items()]}
            case "GET_VERSION":
                return {"version_info": dict(build())}
            case "GET_METRICS":
                numbers = self._parts.metrics()
                return {"metrics": [{"name": name, "value": float(value)} for name, value in numbers.items()]}
            case "GET_LOGGING_LEVEL":
                return {"level": self._level.level}
            case "LIST_FILES":
                return await self._parts.files.list_files(body, viewer)
            case "READ_FILE":
                return await self._parts.files.read_file(body, viewer)
            case _:
                return None

    def set_logging_level(self, body: Document) -> None:
        """Carry out SET_LOGGING_LEVEL. Raises BadInput."""
        self._level.set_from(body)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = self._find(request.match_info["path"])
        if request.path == "/" and self._parts.home is not None:
            knows = self._gate.refusal(request, self._parts.use_of("state", "GET")) is None
            page = self._parts.home(request, knows)
            if page is not None:
                return page
        if found is None:
            return error_response(404, "404 Not Found.")
        name, handler, segment = found
        request[_SEGMENT] = segment
        try:
            refusal = self._gate.refusal(request, self._parts.use_of(name, request.method))
            if refusal is not None:
                return refusal
            principal = principal_of(request)
            if principal is not None and principal.is_executor and name not in self._parts.for_executors:
                raise Forbidden
            if f"/{name}" in ENDPOINTS and not self.viewer(request).may("get_endpoints", f"/{name}"):
                raise Forbidden
            return await handler(request)
        except HttpProblem as refused:
            return refused.response
        except MesosGpuError as error:
            status = status_of(error)
            if status == 500:
                log.warning("%s %s: %s", request.method, request.path, error)
            return error_response(status, str(error))

    def _find(self, path: str) -> tuple[str, Handler, str] | None:
        """Return what answers a path: the endpoint's name, its handler, and the segment that its name leaves open."""
        first, _, rest = path.partition("/")
        segments = (rest if first == self._parts.process_id else path).strip("/").split("/")
        while segments:
            for name, segment in self._names(segments):
                handler = self._endpoints.get(name)
                if handler is not None:
                    return name, handler, segment
            segments = segments[:-1]
        return None

    def _names(self, segments: list[str]) -> Iterable[tuple[str, str]]:
        """Yield under which names an endpoint may answer these segments."""
        name = "/".join(segments)
        yield name, ""
        if self._json_suffixes and name.endswith(".json"):
            yield name.removesuffix(".json"), ""
        if len(segments) > 2:
            yield "/".join([*segments[:-2], ANY_SEGMENT, segments[-1]]), segments[-2]

    async def _log_as_configured(self, app: web.Application) -> None:
        self._level.reset()

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return json_response(build(), request=request)

    async def _flags(self, request: web.Request) -> web.Response:
        self._may_see_flags(self.viewer(request))
        return json_response({"flags": dict(self._parts.flags)}, request=request)

    async def _metrics(self, request: web.Request) -> web.Response:
        check_timeout(request)
        return json_response(self._parts.metrics(), request=request)

    async def _stats(self, request: web.Request) -> web.Response:
        return json_response(system_stats(), request=request)

    async def _help(self, request: web.Request) -> web.Response:
        """List the endpoints. Mesos renders a manual there; this is plain text."""
        lines = [
            f"HTTP endpoints of this {self._parts.program}, as in Apache Mesos. "
            "`api/v1` takes calls as POST, in JSON or protobuf.",
            "",
            *(f"/{path}" for path in sorted(self._endpoints)),
        ]
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")

    @staticmethod
    def _may_see_flags(viewer: Viewer) -> None:
        if not viewer.may("view_flags"):
            raise Forbidden


def only(method: str, handler: Handler) -> Handler:
    """Return the handler for one method (HEAD is GET), which answers others with Mesos' 405."""
    taken = {"GET", "HEAD"} if method == "GET" else {method}

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method not in taken:
            return method_not_allowed(request, method)
        return await handler(request)

    return handle


def segment(request: web.Request) -> str:
    """Return the segment of a request's path that the endpoint's name leaves open."""
    return request[_SEGMENT]


def status_of(error: MesosGpuError) -> int:
    """Return the status of an error: that of its nearest ancestor in STATUS_OF."""
    return next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), 500)


def v1_answer(type_name: str, document: Document, content_type: str) -> web.Response:
    """Return the answer to a v1 call, of a message type such as `mesos.v1.master.Response`, in the form asked for."""
    if content_type == PROTOBUF:
        return web.Response(body=messages.encode(type_name, document), headers={"Content-Type": PROTOBUF})
    return json_response(document)
