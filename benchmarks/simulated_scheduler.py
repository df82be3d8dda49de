"""A scheduler for `./run bench scale --master_alone`: what it says is what Marathon says, and it costs next to nothing.

It subscribes as Marathon does, accepts each offer with as many one-GPU tasks as it holds, declines the rest once it has
what it wants, and acknowledges each status with a call of its own, one after the other on each of its connections. Its
calls are texts with a few words filled in.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, cast

from mesos_gpu.mesos.recordio import RecordDecoder

CONNECTIONS = 4
REFUSE = '"filters": {"refuse_seconds": 120.0}'
FRAMEWORK: Any = {
    "user": "root",
    "name": "marathon",
    "roles": ["*"],
    "checkpoint": True,
    "failover_timeout": 604800.0,
    "capabilities": [
        {"type": capability}
        for capability in ("PARTITION_AWARE", "MULTI_ROLE", "REGION_AWARE", "TASK_KILLING_STATE", "GPU_RESOURCES")
    ],
}
_SCALAR = '{"name": "%s", "type": "SCALAR", "scalar": {"value": %s}, "role": "*", "allocation_info": {"role": "*"}}'
_RESOURCES = ", ".join(_SCALAR % pair for pair in (("cpus", "0.5"), ("mem", "64.0"), ("gpus", "1.0")))
_VARIABLES = ", ".join(
    f'{{"name": "{name}", "value": "{value}"}}'
    for name, value in {
        "HOST": "node-127.16.0.1",
        "MARATHON_APP_ENFORCE_GROUP_ROLE": "FALSE",
        "MARATHON_APP_ID": "/g0/a%(app)d",
        "MARATHON_APP_LABELS": "",
        "MARATHON_APP_RESOURCE_CPUS": "0.5",
        "MARATHON_APP_RESOURCE_DISK": "0.0",
        "MARATHON_APP_RESOURCE_GPUS": "1",
        "MARATHON_APP_RESOURCE_MEM": "64.0",
        "MARATHON_APP_VERSION": "2026-11-23T14:34:48.729Z",
        "MESOS_TASK_ID": "%(id)s",
        "PORT": "%(port)d",
        "PORT0": "%(port)d",
        "PORTS": "%(port)d",
        "PORT_10000": "%(port)d",
        "PORT_DEFAULT": "%(port)d",
    }.items()
)
TASK = (
    '{"name": "a%(app)d.g0", "task_id": {"value": "%(id)s"}, "agent_id": {"value": "%(agent)s"}, "resources": ['
    + _RESOURCES
    + ', {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": %(port)d, "end": %(port)d}]}, "role": "*", '
    '"allocation_info": {"role": "*"}}], "discovery": {"visibility": "FRAMEWORK", "name": "a%(app)d.g0", "ports": '
    '{"ports": [{"number": %(port)d, "protocol": "tcp", "name": "default"}]}}, "command": {"environment": '
    '{"variables": [' + _VARIABLES + ']}, "shell": true, "value": "sleep 100000"}}'
)


class _Calls(asyncio.Protocol):
    """One connection that stays open: a call, its answer, the next call, as pymesos does."""

    def __init__(self, waiting: deque[bytes], lost: asyncio.Future[None]) -> None:
        self._waiting, self._lost, self._answer = waiting, lost, b""
        self._transport: asyncio.Transport | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def next(self) -> None:
        """Make the next call that waits, unless one is under way."""
        if not self._busy and self._waiting and self._transport is not None:
            self._busy = True
            self._transport.write(self._waiting.popleft())

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._answer.endswith(b"\r\n\r\n"):
            assert self._answer.startswith(b"HTTP/1.1 202 "), self._answer
            self._answer, self._busy = b"", False
            self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class SimulatedScheduler:
    """Wants so many tasks on one GPU each, and no more offers after that."""

    def __init__(self, master: str, tasks: int, apps: int) -> None:
        self._host, _, port = master.removeprefix("http://").partition(":")
        self._port, self._wanted, self._apps = int(port), tasks, apps
        self._made = 0
        self._framework_id = self._stream_id = ""
        self._waiting: deque[bytes] = deque()
        self._calls: list[_Calls] = []
        self._listening: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the master hung up."""

    async def __aenter__(self) -> SimulatedScheduler:
        """Subscribe; offers are accepted from now on."""
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            made = await loop.create_connection(lambda: _Calls(self._waiting, self.lost), self._host, self._port)
            self._calls.append(made[1])
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=2**26)
        body = json.dumps({"type": "SUBSCRIBE", "subscribe": {"framework_info": FRAMEWORK}})
        writer.write(self._request(body, "Accept: application/json\r\n"))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 200 "), head
        names = (line.partition(": ") for line in head.split("\r\n"))
        self._stream_id = next(value for name, _, value in names if name == "Mesos-Stream-Id")
        self._listening = asyncio.create_task(self._listen(reader, writer))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        for calls in self._calls:
            calls.close()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = RecordDecoder()
        try:
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                for record in decoder.feed((await reader.readexactly(size + 2))[:-2]):
                    self._take(json.loads(record))
        finally:
            if not self.lost.done():
                self.lost.set_result(None)
            writer.close()

    def _take(self, event: Any) -> None:
        match event["type"]:
            case "SUBSCRIBED":
                self._framework_id = event["subscribed"]["framework_id"]["value"]
            case "OFFERS":
                self._answer(event["offers"]["offers"])
            case "UPDATE":
                status = event["update"]["status"]
                self._call(
                    "ACKNOWLEDGE",
                    '{{"agent_id": {{"value": "{}"}}, "task_id": {{"value": "{}"}}, "uuid": "{}"}}'.format(
                        status["agent_id"]["value"], status["task_id"]["value"], status["uuid"]
                    ),
                )

    def _answer(self, offers: list[Any]) -> None:
        refused: list[str] = []
        for offer in offers:
            free = next((int(r["scalar"]["value"]) for r in offer["resources"] if r["name"] == "gpus"), 0)
            count = min(free, self._wanted - self._made)
            if not count:
                refused.append(offer["id"]["value"])
                continue
            tasks = ", ".join(self._task(offer["agent_id"]["value"]) for _ in range(count))
            operation = f'{{"type": "LAUNCH", "launch": {{"task_infos": [{tasks}]}}}}'
            self._call(
                "ACCEPT",
                '{{"offer_ids": [{{"value": "{}"}}], "operations": [{}], {}}}'.format(
                    offer["id"]["value"], operation, REFUSE
                ),
            )
        if refused:
            ids = ", ".join(f'{{"value": "{offer_id}"}}' for offer_id in refused)
            self._call("DECLINE", f'{{"offer_ids": [{ids}], {REFUSE}}}')

    def _task(self, agent_id: str) -> str:
        self._made += 1
        app = self._made % self._apps
        task_id = f"g0_a{app}.instance-{self._made:08x}-d80b-58a8-9656-f0653e480f92._app.1"
        return TASK % {"app": app, "id": task_id, "agent": agent_id, "port": 31000 + self._made % 1000}

    def _call(self, kind: str, body: str) -> None:
        call = '{"type": "%s", "framework_id": {"value": "%s"}, "%s": %s}'
        text = call % (kind, self._framework_id, kind.lower(), body)
        self._waiting.append(self._request(text, f"Mesos-Stream-Id: {self._stream_id}\r\n"))
        for calls in self._calls:
            calls.next()

    def _request(self, body: str, header: str) -> bytes:
        return (
            f"POST /api/v1/scheduler HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAccept-Encoding: identity\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n{header}\r\n{body}"
        ).encode()
