"""POST /api/v1/scheduler: calls of schedulers, and their streams of events.

The order of checks, the statuses and the words are Mesos' (docs/scheduler-http-api.md; src/master/http.cpp,
Master::Http::scheduler). A refusal of the framework itself is not an HTTP error: it is an ERROR event on the stream.
"""

from __future__ import annotations

import uuid

from aiohttp import web

from mesos_gpu.errors import BadInput, Forbidden
from mesos_gpu.master.api.event_stream import TypedStream
from mesos_gpu.master.engine.engine import Engine
from mesos_gpu.master.events.schedulers import CALLS, Called, HeartbeatSent, Subscribe
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.validation.calls import call_problem
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.authentication import principal_of
from mesos_gpu.process.http import EventStream, error_response
from mesos_gpu.process.requests import (
    JSON,
    PROTOBUF,
    HttpProblem,
    accepted_type,
    header,
    method_not_allowed,
    read_call,
    refuse,
)

STREAM_ID = "Mesos-Stream-Id"
CALL, EVENT = "mesos.v1.scheduler.Call", "mesos.v1.scheduler.Event"


class SchedulerApi:
    """The endpoint; `engine` owns the state."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        try:
            call = await read_call(request, CALL)
            principal = principal_of(request)
            problem = call_problem(call, None if principal is None else principal.value)
            if problem is not None:
                raise refuse(400, f"Failed to validate scheduler::Call: {problem}")
            self._engine.count(f"calls_{call['type'].lower()}")
            if call["type"] == "SUBSCRIBE":
                return await self._subscribe(request, call)
            framework = self._caller(request, call)
            self._engine.do(Called(framework.id, call["type"]))
            return self._call(call, framework)
        except HttpProblem as refused:
            return refused.response

    async def _subscribe(self, request: web.Request, call: Document) -> web.StreamResponse:
        kind = accepted_type(request)
        if kind is None:
            raise refuse(406, f"Expecting 'Accept' to allow '{PROTOBUF}' or '{JSON}'")
        if STREAM_ID in request.headers:
            raise refuse(400, f"Subscribe calls should not include the '{STREAM_ID}' header")
        principal = principal_of(request)
        if principal is not None:
            # Checked before to be the same where it says one; its own word would be worth nothing else.
            call["subscribe"]["framework_info"].setdefault("principal", principal.value)
        stream_id = str(uuid.uuid4())
        response = await EventStream.open(request, {STREAM_ID: stream_id}, content_type=kind)
        state = self._engine.state

        def on_heartbeat() -> None:
            self._engine.do(HeartbeatSent(stream_id))

        heartbeat_s = state.settings.heartbeat_interval_s
        stream = TypedStream(response, kind, EVENT, heartbeat_s, on_heartbeat=on_heartbeat)
        self._engine.open_stream(stream_id, stream)
        try:
            self._engine.do(Subscribe(stream_id, call["subscribe"]))
            subscribed = state.framework_of(stream_id)
            if subscribed is not None:
                self._engine.do(Called(subscribed.id, "SUBSCRIBE"))
            await response.closed()
        finally:
            stream.close()
            self._engine.stream_closed(stream_id)
        return response.response

    def _caller(self, request: web.Request, call: Document) -> Framework:
        """Return the framework that calls, once its stream id shows that it is the one subscribed now."""
        framework = self._engine.state.frameworks.get(call["framework_id"]["value"])
        if framework is None:
            raise refuse(400, "Framework cannot be found")
        principal = principal_of(request)
        if principal is not None and principal.value != framework.info.get("principal"):
            raise refuse(
                400,
                f"Authenticated principal '{principal}' does not match principal "
                f"'{framework.info.get('principal', '')}' set in `FrameworkInfo`",
            )
        if not framework.connected:
            raise refuse(403, "Framework is not subscribed")
        if framework.pid is not None:
            raise refuse(403, "Framework is not connected via HTTP")
        given = header(request, STREAM_ID)
        if given is None:
            raise refuse(400, f"All non-subscribe calls should include the '{STREAM_ID}' header")
        if given != framework.stream_id:
            raise refuse(
                400,
                f"The stream ID '{given}' included in this request didn't match the stream ID currently associated "
                f"with framework ID {framework.id}",
            )
        return framework

    def _call(self, call: Document, framework: Framework) -> web.Response:
        kind = call["type"]
        if kind == "UNKNOWN":
            return error_response(501, "501 Not Implemented.")
        try:
            self._engine.do(CALLS[kind](framework.id, call.get(kind.lower(), {})))
        except BadInput as error:
            return error_response(400, str(error))
        except Forbidden as error:
            return error_response(403, str(error))
        return web.Response(status=200 if kind == "UPDATE_FRAMEWORK" else 202)
