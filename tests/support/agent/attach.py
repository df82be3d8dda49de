"""A client of LAUNCH_NESTED_CONTAINER_SESSION and ATTACH_CONTAINER_*, as command lines have one; over aiohttp alone."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from mesos_gpu.mesos import messages, recordio

RECORDIO = "application/recordio"
JSON = "application/json"
PROTOBUF = "application/x-protobuf"


def container_id(name: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for part in name.split("."):
        document = {"value": part, **({"parent": document} if document else {})}
    return document


class Client:
    """The v1 API of one agent."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self.url = http, f"{url}/api/v1"

    async def post(self, kind: str, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, Any]:
        """Return the status and the answer, read as JSON where it is."""
        call = {"type": kind, **({kind.lower(): fields} if fields else {})}
        async with self._http.post(self.url, json=call, headers=headers) as response:
            body = await response.read()
            return response.status, json.loads(body) if response.content_type == JSON else body.decode()

    async def wait(self, name: str) -> Any:
        status, answer = await self.post("WAIT_NESTED_CONTAINER", container_id=container_id(name))
        assert status == 200, answer
        return answer["wait_nested_container"].get("exit_status")

    @asynccontextmanager
    async def output(self, call: dict[str, Any], message_type: str = JSON) -> AsyncIterator[Output]:
        """Post a call that is answered by a stream."""
        headers = {"Accept": RECORDIO, "Message-Accept": message_type, "Content-Type": JSON}
        async with self._http.post(self.url, data=json.dumps(call), headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.headers["Content-Type"] == RECORDIO
            assert response.headers["Message-Content-Type"] == message_type
            try:
                yield Output(response, message_type)
            finally:
                response.close()  # without waiting for its end, which may be for the agent to wait for

    def session(self, name: str, line: str, tty: tuple[int, int] | None = None, **output: Any) -> Any:
        body: dict[str, Any] = {"container_id": container_id(name), "command": {"shell": True, "value": line}}
        if tty is not None:
            window = {"rows": tty[0], "columns": tty[1]}
            body["container"] = {"type": "MESOS", "tty_info": {"window_size": window}}
        call = {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": body}
        return self.output(call, **output)

    def attach(self, name: str, message_type: str = JSON) -> Input:
        """Begin to feed a container."""
        return Input(self._http, self.url, name, message_type)


class Output:
    """ProcessIO from an agent."""

    def __init__(self, response: aiohttp.ClientResponse, message_type: str) -> None:
        self._response, self._message_type = response, message_type
        self._decoder = recordio.RecordDecoder()
        self.said: dict[str, bytes] = {"STDOUT": b"", "STDERR": b""}
        self.heartbeats = 0

    async def next(self) -> bool:
        """Take what comes next; False at the end."""
        chunk = await self._response.content.readany()
        for record in self._decoder.feed(chunk):
            self._take(record)
        return bool(chunk)

    async def until(self, text: bytes) -> None:
        while text not in self.said["STDOUT"]:
            try:
                more = await asyncio.wait_for(self.next(), 60)
            except (asyncio.TimeoutError, TimeoutError):
                more = False
            assert more, self.said

    async def repeat(self, text: bytes, do: Callable[[], None]) -> None:
        """Do something again and again, as a person would, until `text` was said."""
        while text not in self.said["STDOUT"]:
            do()
            try:
                assert await asyncio.wait_for(self.next(), 0.5), self.said
            except (asyncio.TimeoutError, TimeoutError):
                continue

    async def end(self) -> dict[str, bytes]:
        while await asyncio.wait_for(self.next(), 60):
            pass
        return self.said

    def _take(self, record: bytes) -> None:
        if self._message_type == PROTOBUF:
            message = messages.decode("mesos.v1.agent.ProcessIO", record)
        else:
            message = json.loads(record)
        if message["type"] == "DATA":
            self.said[message["data"]["type"]] += base64.b64decode(message["data"]["data"])
        else:
            self.heartbeats += 1


class Input:
    """A request that feeds a container, record by record."""

    def __init__(self, http: aiohttp.ClientSession, url: str, name: str, message_type: str) -> None:
        self._records: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._message_type = message_type
        self._send({"type": "CONTAINER_ID", "container_id": container_id(name)})
        headers = {"Content-Type": RECORDIO, "Message-Content-Type": message_type}
        self._posting = asyncio.ensure_future(self._post(http, url, headers))

    def type(self, data: bytes) -> None:
        text = base64.b64encode(data).decode()
        self._io({"type": "DATA", "data": {"type": "STDIN", "data": text}})

    def resize(self, rows: int, columns: int) -> None:
        window = {"window_size": {"rows": rows, "columns": columns}}
        self._io({"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": window}})

    def beat(self) -> None:
        beat = {"interval": {"nanoseconds": 30_000_000_000}}
        self._io({"type": "CONTROL", "control": {"type": "HEARTBEAT", "heartbeat": beat}})

    async def answer(self) -> tuple[int, str]:
        """Return what the agent says of it, which it may do before all was sent."""
        return await asyncio.wait_for(asyncio.shield(self._posting), 60)

    async def end(self) -> tuple[int, str]:
        self._records.put_nowait(None)
        return await self.answer()

    def _io(self, document: dict[str, Any]) -> None:
        self._send({"type": "PROCESS_IO", "process_io": document})

    def _send(self, body: dict[str, Any]) -> None:
        call = {"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": body}
        protobuf = self._message_type == PROTOBUF
        data = messages.encode("mesos.v1.agent.Call", call) if protobuf else json.dumps(call).encode()
        self._records.put_nowait(recordio.encode(data))

    async def _post(self, http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> tuple[int, str]:
        async def records() -> AsyncIterator[bytes]:
            while (record := await self._records.get()) is not None:
                yield record

        async with http.post(url, data=records(), headers=headers) as response:
            return response.status, await response.text()
