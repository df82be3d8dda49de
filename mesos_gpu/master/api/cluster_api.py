"""The operator's endpoints for weights, quota and maintenance, and the v1 calls that do the same.

Source: Mesos src/master/http.cpp, weights_handler.cpp, quota_handler.cpp; recorded answers of 1.12.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from mesos_gpu.errors import BadInput, Conflict, Forbidden, ProtocolError
from mesos_gpu.master.decisions import maintenance, permissions, roles
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.operators import (
    DeactivateAgent,
    DrainAgent,
    MarkAgentGone,
    OperatorEvent,
    ReactivateAgent,
    RemoveQuota,
    SetQuota,
    StartMaintenance,
    StopMaintenance,
    UpdateQuota,
    UpdateSchedule,
    UpdateWeights,
)
from mesos_gpu.master.model.quota import status_of
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.viewing import Viewer
from mesos_gpu.process.authentication import principal_of, viewer_of
from mesos_gpu.process.bodies import read_body
from mesos_gpu.process.http import error_response, json_response
from mesos_gpu.process.requests import json_problem, method_not_allowed

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHANGES: Mapping[str, Callable[[Document], OperatorEvent]] = {
    "UPDATE_WEIGHTS": lambda body: UpdateWeights(body.get("weight_infos", ())),
    "UPDATE_QUOTA": UpdateQuota,
    "SET_QUOTA": lambda body: SetQuota(body["quota_request"]),
    "REMOVE_QUOTA": lambda body: RemoveQuota(body["role"]),
    "UPDATE_MAINTENANCE_SCHEDULE": lambda body: UpdateSchedule(body["schedule"]),
    "START_MAINTENANCE": lambda body: StartMaintenance(body.get("machines", ())),
    "STOP_MAINTENANCE": lambda body: StopMaintenance(body.get("machines", ())),
    "DEACTIVATE_AGENT": lambda body: DeactivateAgent(body["agent_id"]["value"]),
    "DRAIN_AGENT": lambda body: DrainAgent(body["agent_id"]["value"], body),
    "REACTIVATE_AGENT": lambda body: ReactivateAgent(body["agent_id"]["value"]),
    "MARK_AGENT_GONE": lambda body: MarkAgentGone(body["agent_id"]["value"]),
}
"""What v1 calls ask for that are answered with nothing, or with why not; made of the body of the call."""


def read(state: MasterState, kind: str, viewer: Viewer) -> Document | None:
    """Return the body of GET_WEIGHTS, GET_QUOTA, GET_MAINTENANCE_SCHEDULE or GET_MAINTENANCE_STATUS."""
    if kind == "GET_WEIGHTS":
        infos = _weights(state, viewer)
        return {"weight_infos": infos} if infos else None
    if kind == "GET_QUOTA":
        return {"status": _quotas(state, viewer)}
    if kind == "GET_MAINTENANCE_SCHEDULE":
        return {"schedule": _schedule(state, viewer)}
    return {"status": _status(state, viewer)}


def _weights(state: MasterState, viewer: Viewer) -> list[Document]:
    return [info for info in roles.weight_infos(state) if viewer.role(info["role"])]


def _quotas(state: MasterState, viewer: Viewer) -> Document:
    return status_of({role: q for role, q in state.policy.quotas.items() if viewer.may("get_quotas", role)})


def _schedule(state: MasterState, viewer: Viewer) -> Document:
    return state.policy.schedule if viewer.may("get_maintenance_schedules") else {}


def _status(state: MasterState, viewer: Viewer) -> Document:
    return maintenance.status(state) if viewer.may("get_maintenance_statuses") else {}


READS = frozenset({"GET_WEIGHTS", "GET_QUOTA", "GET_MAINTENANCE_SCHEDULE", "GET_MAINTENANCE_STATUS"})


class ClusterApi:
    """The unversioned endpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.handlers: Mapping[str, Handler] = {
            "weights": self._weights,
            "quota": self._quota,
            "maintenance/schedule": self._schedule,
            "maintenance/status": self._status,
            "machine/down": self._machine_down,
            "machine/up": self._machine_up,
        }
        """By path."""

    async def _weights(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            shown = _weights(self._engine.state, self._viewer(request))
            infos = [{"role": info["role"], "weight": info["weight"]} for info in shown]
            return json_response(infos, request=request)
        if request.method != "PUT":
            return method_not_allowed(request, "GET", "PUT")
        text = await _text(request)
        try:
            infos = _list(text, "mesos.v1.WeightInfo")
        except _NotJson as error:
            return error_response(400, f"Failed to parse update weights request JSON ('{text}'): {error}")
        except BadInput as error:
            return error_response(400, f"Failed to convert weights JSON array to protobuf ('{text}'): {error}")
        return await self._change(request, "UPDATE_WEIGHTS", {"weight_infos": infos})

    async def _quota(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return json_response(_quotas(self._engine.state, self._viewer(request)), request=request)
        if request.method == "DELETE":
            return await self._remove_quota(request)
        if request.method != "POST":
            return method_not_allowed(request, "GET", "POST", "DELETE")
        text = await _text(request)
        try:
            asked = _object(text, "mesos.v1.quota.QuotaRequest")
        except _NotJson as error:
            return error_response(400, f"Failed to parse set quota request JSON '{text}': {error}")
        except BadInput as error:
            return error_response(400, f"Failed to validate set quota request JSON '{text}': {error}")
        return await self._change(request, "SET_QUOTA", {"quota_request": asked})

    async def _remove_quota(self, request: web.Request) -> web.Response:
        path = request.path
        role = Role(path.partition("quota")[2].strip("/"))
        if not role:
            found = len([part for part in path.split("/") if part])
            words = f"Failed to parse remove quota request for path '{path}': expected 3 tokens, found {found} tokens"
            return error_response(400, words)
        asked = f" for path '{path}'"
        return await self._change(request, "REMOVE_QUOTA", {"role": role}, RemoveQuota(role, asked))

    async def _schedule(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return json_response(_schedule(self._engine.state, self._viewer(request)), request=request)
        if request.method != "POST":
            return method_not_allowed(request, "GET", "POST")
        try:
            schedule = _object(await _text(request), "mesos.v1.maintenance.Schedule")
        except BadInput as error:
            return error_response(400, str(error))
        return await self._change(request, "UPDATE_MAINTENANCE_SCHEDULE", {"schedule": schedule})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return method_not_allowed(request, "GET")
        return json_response(_status(self._engine.state, self._viewer(request)), request=request)

    async def _machine_down(self, request: web.Request) -> web.StreamResponse:
        return await self._machines(request, "START_MAINTENANCE")

    async def _machine_up(self, request: web.Request) -> web.StreamResponse:
        return await self._machines(request, "STOP_MAINTENANCE")

    async def _machines(self, request: web.Request, kind: str) -> web.StreamResponse:
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        try:
            machines = _list(await _text(request), "mesos.v1.MachineID")
        except BadInput as error:
            return error_response(400, str(error))
        return await self._change(request, kind, {"machines": machines})

    def _viewer(self, request: web.Request) -> Viewer:
        return viewer_of(request, self._engine.state.settings.acls)

    async def _change(
        self, request: web.Request, kind: str, body: Document, event: OperatorEvent | None = None
    ) -> web.Response:
        """Do what the v1 call of this kind and body asks for, or `event` does. Raises Forbidden."""
        if not permissions.may(self._engine.state, principal_of(request), kind, body):
            raise Forbidden
        try:
            await self._engine.store(CHANGES[kind](body) if event is None else event)
        except BadInput as error:
            return error_response(400, str(error))
        except Conflict as error:
            return error_response(409, str(error))
        return web.Response()


class _NotJson(BadInput):
    """A body that does not parse."""


async def _text(request: web.Request) -> str:
    """Return the body. Raises BadInput if it is not UTF-8: with replaced bytes it could be another document."""
    data = await read_body(request)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadInput(f"Failed to parse body into JSON: {json_problem(data)}") from None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise _NotJson(json_problem(text.encode())) from None


def _object(text: str, type_name: str) -> Document:
    document = _json(text)
    if not isinstance(document, dict):
        raise _NotJson("Expecting a JSON object")
    return _message(document, type_name)


def _list(text: str, type_name: str) -> list[Document]:
    documents = _json(text)
    if not isinstance(documents, list):
        raise _NotJson("Expecting a JSON array")
    return [_message(document, type_name) for document in documents]


def _message(document: Any, type_name: str) -> Document:
    try:
        return messages.read(type_name, document)
    except ProtocolError as error:
        raise BadInput(str(error)) from None
