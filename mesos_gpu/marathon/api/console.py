"""/ui/api/agents/AGENT/run: a command in the container of a task, and what it says, for the page.

It is the agent's own call LAUNCH_NESTED_CONTAINER_SESSION: the command has the container's files, GPUs and limits, and
ends when its output is no longer read (Mesos src/slave/http.cpp, launchNestedContainerSession).
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import aiohttp
from aiohttp import web

from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.marathon.api.answers import read_object, refusal
from mesos_gpu.marathon.api.mesos_door import STREAM, MesosDoor, credentials_of, unknown_to_mesos
from mesos_gpu.marathon.api.terminal import container_of
from mesos_gpu.mesos.clients.process_io import output_of
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.process.http import EventStream

_HEADERS = {"Content-Type": "application/json", "Accept": "application/recordio", "Message-Accept": "application/json"}
_MOST_WAITING = 256 * 1024
"""Bytes that a browser may be behind; then the command waits for it."""


class ConsoleApi:
    """The handler."""

    def __init__(self, door: MesosDoor) -> None:
        self._door = door

    async def run(self, request: web.Request) -> web.StreamResponse:
        """Run `command` with a shell in the container `container_id`, and answer with what it writes, as it does."""
        call = session_call(await read_object(request), str(uuid.uuid4()))
        credentials = credentials_of(request)
        url = await self._door.agent(request.match_info["agent"], "api/v1", credentials)
        try:
            async with self._door.request(
                "POST", url, credentials, data=json.dumps(call), headers=_HEADERS, timeout=STREAM
            ) as answer:
                if answer.status == 401:
                    return unknown_to_mesos()
                if answer.status != 200:
                    return refusal(answer.status, (await answer.text())[:2000])
                headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
                stream = await EventStream.open(request, headers, content_type="application/octet-stream")
                pumping = asyncio.ensure_future(_pump(answer, stream))
                try:
                    await stream.closed()
                finally:
                    pumping.cancel()
                return stream.response
        except (aiohttp.ClientError, TimeoutError) as error:
            return refusal(503, f"the agent does not answer: {error or type(error).__name__}")


def session_call(asked: dict[str, Any], session_id: str) -> dict[str, Any]:
    """Return the call that runs what the page asks for. Raises BadInput."""
    command = asked.get("command")
    if not isinstance(command, str) or not command.strip():
        raise BadInput("command must be text: what is to run there")
    container_id = {"value": session_id, "parent": container_of(asked.get("container_id"))}
    body = {"container_id": container_id, "command": {"shell": True, "value": command}}
    return {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": body}


async def _pump(answer: aiohttp.ClientResponse, stream: EventStream) -> None:
    decoder = RecordDecoder()
    try:
        async for piece in answer.content.iter_any():
            for record in decoder.feed(piece):
                said = output_of(record)
                if said is not None and said.data:
                    stream.send_raw(said.data)
            await stream.room(_MOST_WAITING)
    except (aiohttp.ClientError, TimeoutError, ProtocolError):
        pass  # what was said until then has been passed on
    stream.close()
