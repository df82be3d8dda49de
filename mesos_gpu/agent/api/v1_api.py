"""POST /api/v1 of the agent: what a request asks for, in which form it is answered, and who answers it.

Source: Mesos src/slave/http.cpp (Http::api), src/slave/validation.cpp.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from msgspec import Struct

from mesos_gpu.agent.api.container_api import RECORDIO, ContainerApi
from mesos_gpu.agent.launching.nested import id_problem
from mesos_gpu.errors import Forbidden
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.operator_frame import v1_answer
from mesos_gpu.process.requests import (
    JSON,
    PROTOBUF,
    HttpProblem,
    accepts,
    header,
    method_not_allowed,
    read_call,
    refuse,
)

CALL, RESPONSE = "mesos.v1.agent.Call", "mesos.v1.agent.Response"
TYPES = f"'{JSON}', '{PROTOBUF}' or '{RECORDIO}'"

STREAMED = frozenset({"LAUNCH_NESTED_CONTAINER_SESSION", "ATTACH_CONTAINER_OUTPUT"})
OPTIONAL = frozenset({"get_containers"})
"""Fields of their call that need not be there."""
ONLY_NESTED = frozenset(
    {
        "LAUNCH_NESTED_CONTAINER",
        "WAIT_NESTED_CONTAINER",
        "KILL_NESTED_CONTAINER",
        "REMOVE_NESTED_CONTAINER",
        "LAUNCH_NESTED_CONTAINER_SESSION",
    }
)
NOT_HERE = frozenset(
    {
        "ADD_RESOURCE_PROVIDER_CONFIG",
        "UPDATE_RESOURCE_PROVIDER_CONFIG",
        "REMOVE_RESOURCE_PROVIDER_CONFIG",
        "MARK_RESOURCE_PROVIDER_GONE",
    }
)


class Sources(Struct, frozen=True):
    """Where answers come from; each is asked when it is needed.

    `common` answers what every program answers, None for other calls; `views` has what needs no field of a call but its
    type; `containers` is told whether to show nested and standalone ones; `prune` removes images that nothing uses.
    """

    common: Callable[[str, Document, Viewer], Awaitable[Document | None]]
    views: Mapping[str, Callable[[Viewer], Document]]
    containers: Callable[[bool, bool, Viewer], Awaitable[list[Document]]]
    prune: Callable[[], Awaitable[None]]
    set_logging_level: Callable[[Document], None]


class V1Api:
    """The handler of `/api/v1`."""

    def __init__(
        self,
        sources: Sources,
        containers: ContainerApi,
        *,
        viewer_of: Callable[[web.Request], Viewer],
        may: Callable[[Viewer, str, Mapping[str, Any]], bool],
    ) -> None:
        """`may` says whether somebody may make a call of a type, with its body."""
        self._sources, self._containers = sources, containers
        self._viewer_of, self._may = viewer_of, may

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Raises HttpProblem, and what the frame has statuses for."""
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        viewer = self._viewer_of(request)
        sent = (header(request, "Content-Type") or "").split(";")[0].strip().lower()
        message_content = header(request, "Message-Content-Type")
        if sent == RECORDIO:
            if message_content is None:
                raise refuse(400, "Expecting 'Message-Content-Type' to be set for streaming requests")
            if message_content not in (JSON, PROTOBUF):
                raise refuse(415, f"Expecting 'Message-Content-Type' of {JSON} or {PROTOBUF}")
            return await self._containers.attach_input(
                request, message_content, lambda body: self._may(viewer, "ATTACH_CONTAINER_INPUT", body)
            )
        if message_content is not None and sent in (JSON, PROTOBUF):
            raise refuse(415, "Expecting 'Message-Content-Type' to be not set for non-streaming requests")
        call = await read_call(request, CALL)
        kind = _checked(call)
        if kind == "ATTACH_CONTAINER_INPUT":
            raise refuse(415, f"Expecting 'Content-Type' to be {RECORDIO} for {kind} call")
        content_type, message_type = _accepted(request, streamed=kind in STREAMED)
        body = call.get(kind.lower(), {})
        if not self._may(viewer, kind, body):
            raise Forbidden
        match kind:
            case "LAUNCH_NESTED_CONTAINER_SESSION":
                return await self._containers.session(request, body, content_type, message_type)
            case "ATTACH_CONTAINER_OUTPUT":
                return await self._containers.attach_output(request, body, content_type, message_type)
            case "LAUNCH_NESTED_CONTAINER" | "LAUNCH_CONTAINER":
                return await self._containers.launch(body)
            case "KILL_NESTED_CONTAINER" | "KILL_CONTAINER":
                return await self._containers.kill(body)
            case "REMOVE_NESTED_CONTAINER" | "REMOVE_CONTAINER":
                return await self._containers.remove(body)
            case "SET_LOGGING_LEVEL":
                self._sources.set_logging_level(dict(body))
                return web.Response()
            case "PRUNE_IMAGES":
                await self._sources.prune()
                return web.Response()
        return v1_answer(RESPONSE, await self._document(kind, body, viewer), content_type)

    async def _document(self, kind: str, body: Mapping[str, Any], viewer: Viewer) -> Document:
        if kind in ("WAIT_NESTED_CONTAINER", "WAIT_CONTAINER"):
            return await self._containers.wait(kind, body)
        if kind == "GET_CONTAINERS":
            wanted = (body.get("show_nested", False), body.get("show_standalone", False))
            shown = await self._sources.containers(*wanted, viewer)
            return {"type": kind, "get_containers": {"containers": shown}} if shown else {"type": kind}
        common = await self._sources.common(kind, dict(body), viewer)
        if common is not None:
            return {"type": kind, kind.lower(): common}
        view = self._sources.views.get(kind)
        if view is None:
            raise refuse(501, f"{kind} is not supported by this agent")
        return {"type": kind, kind.lower(): view(viewer)}


def _checked(call: Mapping[str, Any]) -> str:
    """Return the type of a call that has all its type asks for. Raises HttpProblem with Mesos' words."""
    kind = str(call.get("type", "UNKNOWN"))
    if kind == "UNKNOWN":
        raise _invalid("Expecting 'type' to be present")
    field = kind.lower()
    if kind in NOT_HERE:
        raise refuse(501, f"{kind} is not supported by this agent: it has no resource providers")
    if field in messages.field_names(CALL) and field not in OPTIONAL and field not in call:
        raise _invalid(f"Expecting '{field}' to be present")
    body = call.get(field) or {}
    if "container_id" in body:
        problem = id_problem(body["container_id"])
        if problem is not None:
            raise _invalid(f"'{field}.container_id' is invalid: {problem}")
        if kind in ONLY_NESTED and "parent" not in body["container_id"]:
            raise _invalid(f"Expecting '{field}.container_id.parent' to be present")
    return kind


def _invalid(problem: str) -> HttpProblem:
    return refuse(400, f"Failed to validate agent::Call: {problem}")


def _accepted(request: web.Request, *, streamed: bool) -> tuple[str, str]:
    """Return the type of the answer and, for a stream, of the messages in it. Raises HttpProblem."""
    content_type = accepts(header(request, "Accept"), (JSON, PROTOBUF, RECORDIO))
    if content_type is None:
        raise refuse(406, f"Expecting 'Accept' to allow {TYPES}")
    wanted = header(request, "Message-Accept")
    if content_type != RECORDIO:
        if wanted is not None:
            raise refuse(406, "Expecting 'Message-Accept' to be not set for non-streaming responses")
        return content_type, content_type
    if not streamed:
        raise refuse(406, f"Expecting 'Accept' to allow '{JSON}' or '{PROTOBUF}': this answer is no stream")
    message_type = accepts(wanted, (JSON, PROTOBUF))
    if message_type is None:
        raise refuse(406, f"Expecting 'Message-Accept' to allow '{JSON}' or '{PROTOBUF}'")
    return content_type, message_type
