"""POST /api/v1/executor: calls of executors, and their streams of events.

Checks, statuses and words in Mesos' order (src/slave/http.cpp, Http::executor; src/slave/validation.cpp).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aiohttp import web

from mesos_gpu.agent.decisions.frameworks import Frameworks
from mesos_gpu.agent.decisions.permissions import claims_problem
from mesos_gpu.agent.launching.nested import container_name
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import DEFAULT, ExecutorKey, Stage
from mesos_gpu.mesos import messages, recordio
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.uuids import NOT_VALID, is_uuid
from mesos_gpu.process.authentication import principal_of
from mesos_gpu.process.http import EventStream, error_response
from mesos_gpu.process.requests import (
    JSON,
    PROTOBUF,
    HttpProblem,
    accepted_type,
    method_not_allowed,
    read_call,
    refuse,
)

log = logging.getLogger(__name__)

CALL, EVENT = "mesos.v1.executor.Call", "mesos.v1.executor.Event"
HEARTBEAT_S = 30 * 60.0
"""Mesos' DEFAULT_EXECUTOR_HEARTBEAT_INTERVAL."""


class ExecutorStream:
    """One executor's stream, in JSON or protobuf, with a heartbeat every half hour."""

    def __init__(self, stream: EventStream, kind: str) -> None:
        self._stream, self._kind = stream, kind
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)

    def send(self, event: Document) -> None:
        """Send one event as one record."""
        if self._kind == PROTOBUF:
            self._stream.send_raw(recordio.encode(messages.encode(EVENT, event)))
        else:
            self._stream.send(event)

    def close(self) -> None:
        """End the stream after what was sent."""
        self._timer.cancel()
        self._stream.close()

    def _beat(self) -> None:
        self.send({"type": "HEARTBEAT"})
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)


class Stream(Protocol):
    """The way to an executor."""

    def send(self, event: Document) -> None:
        """Send an event (v1)."""

    def close(self) -> None:
        """End it after what was sent."""


class ExecutorStreams:
    """The open stream of each executor; the newest counts."""

    def __init__(self) -> None:
        self._streams: dict[ExecutorKey, Stream] = {}

    def open(self, key: ExecutorKey, stream: Stream) -> None:
        """Take a stream for an executor's, and close the one it had."""
        self.close(key)
        self._streams[key] = stream

    def sender(self, key: ExecutorKey) -> Callable[[Document], None]:
        """Return what sends events (v1) on the stream that an executor has now.

        Without a stream, and when it is not the executor's any more, they are lost, as messages to a process that is
        gone: what is on its way to one stream must not come on the next, before its SUBSCRIBED.
        """
        stream = self._streams.get(key)

        def send(event: Document) -> None:
            if stream is None or self._streams.get(key) is not stream:
                log.warning("no stream to executor %s of %s for %s", key.executor, key.framework, event["type"])
            else:
                stream.send(event)

        return send

    def closer(self, key: ExecutorKey) -> Callable[[], None]:
        """Return what ends the stream that an executor has now."""
        stream = self._streams.get(key)
        return lambda: None if stream is None else self._close_if(key, stream)

    def _close_if(self, key: ExecutorKey, stream: Stream) -> None:
        if self._streams.get(key) is stream:
            self.close(key)

    def close(self, key: ExecutorKey) -> None:
        """End an executor's stream."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.close()

    def drop(self, key: ExecutorKey, stream: Stream) -> bool:
        """Forget a stream that ended; return whether it was the executor's newest."""
        stream.close()
        if self._streams.get(key) is not stream:
            return False
        del self._streams[key]
        return True


class ExecutorApi:
    """The endpoint. `frameworks` are only read; what happens is posted.

    `ready` says whether recovery has come that far. `pid_of` gives the init of a container by its id, nested ones
    included, or None. `issues_tokens` says whether this agent gives executors tokens: the default executor, which
    always sends its own, is then not believed without.
    """

    def __init__(
        self,
        frameworks: Frameworks,
        streams: ExecutorStreams,
        *,
        post: Callable[[ev.Event], None],
        ready: Callable[[], bool],
        pid_of: Callable[[ContainerId], int | None],
        issues_tokens: Callable[[], bool] = lambda: False,
    ) -> None:
        self._issues_tokens = issues_tokens
        self._frameworks, self._streams, self._post = frameworks, streams, post
        self._ready, self._pid_of = ready, pid_of

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        if not self._ready():
            return error_response(503, "Agent has not finished recovery")
        if request.method != "POST":
            return method_not_allowed(request, "POST")
        try:
            call = await read_call(request, CALL)
            problem = call_problem(call)
            if problem is not None:
                raise refuse(400, f"Failed to validate executor::Call: {problem}")
            key = ExecutorKey(call["framework_id"]["value"], call["executor_id"]["value"])
            if key.framework not in self._frameworks.active:
                raise refuse(400, "Framework cannot be found")
            executor = self._frameworks.executor(key)
            if executor is None:
                raise refuse(400, "Executor cannot be found")
            problem = claims_problem(
                principal_of(request),
                key.framework,
                key.executor,
                executor.container_id,
                needs_token=self._issues_tokens() and executor.info.get("type") == DEFAULT,
            )
            if problem is not None:
                raise refuse(403, problem)
            if call["type"] == "SUBSCRIBE":
                return await self._subscribe(request, key, call["subscribe"])
            if executor.stage in (Stage.LAUNCHING, Stage.REGISTERING):
                raise refuse(403, "Executor is not subscribed")
            return self._call(call, key)
        except HttpProblem as refused:
            return refused.response

    async def _subscribe(self, request: web.Request, key: ExecutorKey, body: Document) -> web.StreamResponse:
        kind = accepted_type(request)
        if kind is None:
            raise refuse(406, f"Expecting 'Accept' to allow '{PROTOBUF}' or '{JSON}'")
        response = await EventStream.open(request, content_type=kind)
        stream = ExecutorStream(response, kind)
        self._streams.open(key, stream)
        tasks = tuple(info["task_id"]["value"] for info in body.get("unacknowledged_tasks", ()))
        updates = tuple(self._with_pid(update["status"]) for update in body.get("unacknowledged_updates", ()))
        try:
            self._post(ev.Subscribed(key, tasks, updates))
            await response.closed()
        finally:
            if self._streams.drop(key, stream):
                self._post(ev.StreamClosed(key))
        return response.response

    def _call(self, call: Document, key: ExecutorKey) -> web.Response:
        match call["type"]:
            case "UPDATE":
                self._post(ev.ExecutorSays(key, self._with_pid(call["update"]["status"])))
            case "MESSAGE":
                self._post(ev.ExecutorMessage(key, call["message"]["data"]))
            case "HEARTBEAT":
                pass
            case _:
                return error_response(501, "501 Not Implemented.")
        return web.Response(status=202)

    def _with_pid(self, status: TaskStatus) -> TaskStatus:
        """Return a status with the pid of the nested container that it names, while that runs."""
        container = status.get("container_status") or {}
        container_id = container.get("container_id") or {}
        if "parent" not in container_id:
            return status
        pid = self._pid_of(container_name(container_id))
        return status if pid is None else {**status, "container_status": {**container, "executor_pid": pid}}


def call_problem(call: Mapping[str, Any]) -> str | None:
    """Return why an executor's Call of the right shape is refused with 400, in Mesos' words; None when it is fine."""
    kind = call.get("type")
    if kind is None:
        return "Expecting 'type' to be present"
    for field in ("executor_id", "framework_id"):
        if not call.get(field, {}).get("value"):
            return f"Expecting '{field}' to be present"
    if kind in ("SUBSCRIBE", "UPDATE", "MESSAGE") and kind.lower() not in call:
        return f"Expecting '{kind.lower()}' to be present"
    if kind == "SUBSCRIBE":
        updates = call["subscribe"].get("unacknowledged_updates", ())
        return next(filter(None, (_status_problem(call, update["status"]) for update in updates)), None)
    return _status_problem(call, call["update"]["status"]) if kind == "UPDATE" else None


def _status_problem(call: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    name, framework = call["executor_id"]["value"], call["framework_id"]["value"]
    if "uuid" not in status:
        return "Expecting 'uuid' to be present"
    if not is_uuid(status["uuid"]):
        return NOT_VALID
    named = status.get("executor_id", {}).get("value", name)
    if named != name:
        return f"ExecutorID in Call: {name} does not match ExecutorID in TaskStatus: {named}"
    if status.get("source") != "SOURCE_EXECUTOR":
        whose = f"executor {name} of framework {framework}"
        return f"Received Call from {whose} with invalid source, expecting 'SOURCE_EXECUTOR'"
    if status["state"] == "TASK_STAGING":
        return f"Received TASK_STAGING from executor {name} of framework {framework} which is not allowed"
    return None
