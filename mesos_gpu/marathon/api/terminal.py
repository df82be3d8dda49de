"""/ui/api/agents/AGENT/terminal: a shell, or any program, in the container of a task, with a terminal to type in.

A page cannot send a request that never ends (Fetch standard: streams as bodies want HTTP/2), nor put a header into
a WebSocket's. So what is said comes as the answer of one request, and what is typed in requests of its own, each with
the credentials and the header of every call of the page. From here on it is Mesos': LAUNCH_NESTED_CONTAINER_SESSION,
whose answer is what is said, and one ATTACH_CONTAINER_INPUT that carries all that is typed (Mesos src/slave/http.cpp).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from mesos_gpu.errors import BadInput, NotFound, ProtocolError, TooMany
from mesos_gpu.marathon.api.answers import read_object, refusal
from mesos_gpu.marathon.api.mesos_door import STREAM, MesosDoor, credentials_of, unknown_to_mesos
from mesos_gpu.mesos.clients import process_io
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.process.http import EventStream

log = logging.getLogger(__name__)

SHELL = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"
LOCALE = 'LANG="${LANG:-C.UTF-8}"; export LANG; '
"""Terminals of browsers speak UTF-8, and without a locale shells take nothing but ASCII."""
HEARTBEAT_S = 20.0
WAIT_S = 15.0
"""How long the agent may take to say how a program ended, when it has said its last."""
MOST_TYPED = 1024 * 1024
"""Bytes that may wait for a program that does not read."""
MOST_SAID = 256 * 1024
"""Bytes that may wait for a browser that does not read: then the program waits as well."""
LARGEST = 1000
"""Rows or columns of the largest window."""
_RECORDS = {"Accept": "application/recordio", "Message-Accept": "application/json"}
_TYPED = {"Content-Type": "application/recordio", "Message-Content-Type": "application/json"}
_JSON = {"Content-Type": "application/json"}


@dataclass(slots=True)
class Session:
    """One terminal: where its container is, who opened it, and what is still to be typed there."""

    url: URL
    container_id: dict[str, Any]
    credentials: str | None
    typed: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    waiting: int = 0
    """Bytes in `typed`."""

    def put(self, record: bytes) -> None:
        """Have a record sent. Raises TooMany when the program has not read what was typed before."""
        if self.waiting + len(record) > MOST_TYPED:
            raise TooMany("the program has not read what was typed before; try again when it has")
        self.waiting += len(record)
        self.typed.put_nowait(record)

    async def records(self) -> AsyncIterator[bytes]:
        """Yield what is typed, and heartbeats, for as long as it is asked."""
        yield process_io.feeding(self.container_id)
        while True:
            try:
                record = await asyncio.wait_for(self.typed.get(), HEARTBEAT_S)
            except asyncio.TimeoutError:
                yield process_io.heartbeat(HEARTBEAT_S)
                continue
            self.waiting -= len(record)
            yield record


class TerminalApi:
    """The handlers. Sessions are known here alone, and end with the answer that shows them."""

    def __init__(self, door: MesosDoor) -> None:
        self._door = door
        self._sessions: dict[str, Session] = {}

    async def open(self, request: web.Request) -> web.StreamResponse:
        """Start a program with a terminal, and answer with events: `opened`, `said` as it says it, `ended` with how."""
        name = str(uuid.uuid4())
        call = session_call(await read_object(request), name)
        credentials = credentials_of(request)
        url = await self._door.agent(request.match_info["agent"], "api/v1", credentials)
        session = Session(url, call["launch_nested_container_session"]["container_id"], credentials)
        headers = {**_JSON, **_RECORDS}
        try:
            async with self._door.request(
                "POST", url, credentials, data=json.dumps(call), headers=headers, timeout=STREAM
            ) as answer:
                if answer.status == 401:
                    return unknown_to_mesos()
                if answer.status != 200:
                    return refusal(answer.status, (await answer.text())[:2000])
                headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
                stream = await EventStream.open(request, headers, content_type="text/event-stream")
                self._sessions[name] = session
                working = [
                    asyncio.ensure_future(self._type(session)),
                    asyncio.ensure_future(self._show(session, name, answer, stream)),
                ]
                try:
                    await stream.closed()
                finally:
                    self._sessions.pop(name, None)
                    for work in working:
                        work.cancel()
                    await asyncio.gather(*working, return_exceptions=True)
                return stream.response
        except (aiohttp.ClientError, TimeoutError) as error:
            return refusal(503, f"the agent does not answer: {error or type(error).__name__}")

    async def put(self, request: web.Request) -> web.Response:
        """Take what was typed, or the window's new size, for a terminal that this caller opened."""
        asked = await read_object(request)
        session = self._sessions.get(request.match_info["session"])
        mine = session is not None and hmac.compare_digest(
            (session.credentials or "").encode(), (credentials_of(request) or "").encode()
        )
        if session is None or not mine:
            raise NotFound("there is no such terminal: its program has ended")
        for record in records_of(asked):
            session.put(record)
        return web.Response(status=204)

    async def _type(self, session: Session) -> None:
        """Carry what is typed to the agent until the program ends; what it says shows that as well."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
        try:
            async with self._door.request(
                "POST", session.url, session.credentials, data=session.records(), headers=_TYPED, timeout=timeout
            ) as answer:
                text = (await answer.text())[:500]
                if answer.status != 200 and answer.status != 404 and process_io.NO_INPUT not in text:
                    log.warning("what was typed in a terminal was refused: %s %s", answer.status, text)
        except (aiohttp.ClientError, TimeoutError) as error:
            log.info("a terminal takes no more input: %s", error or type(error).__name__)

    async def _show(self, session: Session, name: str, answer: aiohttp.ClientResponse, stream: EventStream) -> None:
        ending = asyncio.ensure_future(self._status(session))
        stream.send_raw(_event("opened", {"session": name}))
        try:
            decoder = RecordDecoder()
            async for piece in answer.content.iter_any():
                for record in decoder.feed(piece):
                    said = process_io.output_of(record)
                    text = b": alive\n\n" if said is None else _said(said.data)
                    stream.send_raw(text)
                await stream.room(MOST_SAID)
            await asyncio.wait([ending], timeout=WAIT_S)
            stream.send_raw(_event("ended", {"status": ending.result() if ending.done() else None}))
            await self._forget(session)
        except (aiohttp.ClientError, TimeoutError, ProtocolError) as error:
            stream.send_raw(_event("lost", {"message": f"the agent does not answer: {error or type(error).__name__}"}))
        finally:
            ending.cancel()
            stream.close()

    async def _status(self, session: Session) -> int | None:
        """Return the exit status of the program as a shell has it; None when the agent does not tell."""
        body = {"container_id": session.container_id}
        found = await self._call(session, {"type": "WAIT_NESTED_CONTAINER", "wait_nested_container": body}, None)
        try:
            return process_io.exit_status(int(json.loads(found)["wait_nested_container"]["exit_status"]))
        except (ValueError, LookupError, TypeError):
            return None

    async def _forget(self, session: Session) -> None:
        """Have the agent forget the session, which it remembers until the task ends, else; nothing depends on it."""
        body = {"container_id": session.container_id}
        await self._call(session, {"type": "REMOVE_NESTED_CONTAINER", "remove_nested_container": body}, WAIT_S)

    async def _call(self, session: Session, call: Mapping[str, Any], patience_s: float | None) -> bytes:
        timeout = aiohttp.ClientTimeout(total=patience_s, sock_connect=5.0)
        data, url, who = json.dumps(call), session.url, session.credentials
        try:
            async with self._door.request("POST", url, who, data=data, headers=_JSON, timeout=timeout) as answer:
                return bytes(await answer.read())
        except (aiohttp.ClientError, TimeoutError):
            return b""


def session_call(asked: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the call that opens the terminal that the page asks for. Raises BadInput."""
    parent, command = asked.get("container_id"), asked.get("command") or SHELL
    if not isinstance(command, str):
        raise BadInput("command must be text: what is to run in the terminal, for a shell")
    window = _window(asked)
    container_id = {"value": name, "parent": container_of(parent)}
    variables = [{"name": "TERM", "value": "xterm-256color", "type": "VALUE"}]
    body = {
        "container_id": container_id,
        "command": {"shell": True, "value": LOCALE + command, "environment": {"variables": variables}},
        "container": {"type": "MESOS", "tty_info": {"window_size": window}},
    }
    return {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": body}


def records_of(asked: Mapping[str, Any]) -> list[bytes]:
    """Return the records that say what the page sends: `typed` in base64, and the window. Raises BadInput."""
    records = []
    if "rows" in asked or "columns" in asked:
        window = _window(asked)
        records.append(process_io.resized(window["rows"], window["columns"]))
    if "typed" in asked:
        try:
            data = base64.b64decode(asked["typed"], validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise BadInput("typed must be bytes in base64") from None
        if data:  # none would be the end of input, and a terminal has Ctrl-D for that
            records.append(process_io.typed(data))
    return records


def container_of(asked: Any) -> dict[str, Any]:
    """Return the ContainerID that the page names: its value, and its parent where it has one. Raises BadInput."""
    if isinstance(asked, Mapping) and isinstance(asked.get("value"), str) and asked["value"]:
        found: dict[str, Any] = {"value": asked["value"]}
        if asked.get("parent") is not None:
            found["parent"] = container_of(asked["parent"])
        return found
    raise BadInput("container_id must be that of a task's container: its value, and its parent's if it has one")


def _window(asked: Mapping[str, Any]) -> dict[str, int]:
    found = {name: asked.get(name) for name in ("rows", "columns")}
    if not all(type(size) is int and 0 < size <= LARGEST for size in found.values()):
        raise BadInput(f"rows and columns must be whole numbers from 1 to {LARGEST}")
    return {name: int(size or 0) for name, size in found.items()}


def _said(data: bytes) -> bytes:
    return b'event: said\ndata: "%b"\n\n' % base64.b64encode(data) if data else b""


def _event(name: str, document: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()
