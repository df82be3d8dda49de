"""Operators reserve and create, too: v1 calls, and the endpoints of before. 202, 400 or 409, as Mesos answers.

Source: Mesos src/master/http.cpp (reserve, unreserve, createVolumes, destroyVolumes, _operation).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web

from mesos_gpu.errors import BadInput, Conflict, ProtocolError
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.operators import Operate
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.process.authentication import principal_of
from mesos_gpu.process.bodies import read_form
from mesos_gpu.process.http import error_response
from mesos_gpu.process.requests import method_not_allowed

V1_CALLS: Mapping[str, str] = {
    "RESERVE_RESOURCES": "RESERVE",
    "UNRESERVE_RESOURCES": "UNRESERVE",
    "CREATE_VOLUMES": "CREATE",
    "DESTROY_VOLUMES": "DESTROY",
    "GROW_VOLUME": "GROW_VOLUME",
    "SHRINK_VOLUME": "SHRINK_VOLUME",
}
"""Calls of the v1 operator API, and the operations they are."""
_ENDPOINTS: Mapping[str, tuple[str, str]] = {
    "reserve": ("RESERVE", "resources"),
    "unreserve": ("UNRESERVE", "resources"),
    "create-volumes": ("CREATE", "volumes"),
    "destroy-volumes": ("DESTROY", "volumes"),
}


def v1(engine: Engine, call: Document, principal: Principal | None) -> web.Response:
    """Answer one of V1_CALLS, made by `principal`. Raises Forbidden."""
    kind = V1_CALLS[call["type"]]
    body = {key: value for key, value in call[call["type"].lower()].items() if key != "agent_id"}
    agent_id = call[call["type"].lower()].get("agent_id", {}).get("value")
    return _operate(engine, principal, agent_id, {"type": kind, kind.lower(): body})


def handlers(engine: Engine) -> dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
    """Return the endpoints of before, by path."""

    def handler(kind: str, field: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.method != "POST":
                return method_not_allowed(request, "POST")
            form = await read_form(request)
            for name in ("slaveId", field):
                if name not in form:
                    return error_response(400, f"Missing '{name}' query parameter in the request body")
            try:
                resources = _resources(str(form[field]))
            except ProtocolError as error:
                return error_response(400, f"Error in parsing '{field}' query parameter in the request body: {error}")
            operation = {"type": kind, kind.lower(): {field: resources}}
            return _operate(engine, principal_of(request), AgentId(form["slaveId"]), operation)

        return handle

    return {path: handler(kind, field) for path, (kind, field) in _ENDPOINTS.items()}


def _resources(text: str) -> list[Document]:
    try:
        documents = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ProtocolError(str(error)) from None
    if not isinstance(documents, list):
        raise ProtocolError("it is not a JSON array")
    return [messages.read("mesos.v1.Resource", document) for document in documents]


def _operate(
    engine: Engine, principal: Principal | None, agent_id: AgentId | None, operation: Document
) -> web.Response:
    if agent_id not in engine.state.agents:
        return error_response(400, "No agent found with specified ID")
    try:
        engine.do(Operate(agent_id, operation, principal))
    except BadInput as error:
        return error_response(400, str(error))
    except Conflict as error:
        return error_response(409, str(error))
    return web.Response(status=202)
