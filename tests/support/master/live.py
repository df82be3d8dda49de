"""A whole master in process on a real port, with a scripted scheduler and a scripted agent around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any, TypeVar

import aiohttp

from mesos_gpu.master.flags import COMMAND_LINE, MasterFlags
from mesos_gpu.master.service import RunningMaster, open_master
from mesos_gpu.mesos.flags import parse_flags
from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import decode, devolve, encode
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.master.build import GPU_AGENT, UUID, framework_info
from tests.support.patience import TIMES

PATIENCE_S = 60.0 * TIMES
PREFIX = "mesos.internal."
JSON = {"Content-Type": "application/json"}
T = TypeVar("T")


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for what must happen; fail instead of hanging."""
    return await asyncio.wait_for(awaitable, PATIENCE_S)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what has no event of its own: the master's view of a connection that ended."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    await soon(poll())


def master_flags(work_dir: Path, *words: str) -> MasterFlags:
    return parse_flags(COMMAND_LINE, [f"--work_dir={work_dir}", "--port=0", *words], {})[0]


@asynccontextmanager
async def live_master(work_dir: Path, *words: str) -> AsyncIterator[RunningMaster]:
    master = await open_master(master_flags(work_dir, *words))
    try:
        yield master
    finally:
        await master.close()


class Scheduler:
    """A scheduler over HTTP: reads its stream into a queue, calls by hand."""

    def __init__(self, url: str, *, ssl: SSLContext | None = None) -> None:
        self.url = url
        self.events: asyncio.Queue[Document | None] = asyncio.Queue()
        self.framework_id = ""
        self.stream_id = ""
        self.headers: dict[str, str] = {}
        self._session = aiohttp.ClientSession(
            skip_auto_headers=["Content-Type", "Accept", "User-Agent"],
            connector=None if ssl is None else aiohttp.TCPConnector(ssl=ssl),
        )
        self._reading: asyncio.Task[None] | None = None
        self._response: aiohttp.ClientResponse | None = None

    async def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._response is not None:
            self._response.close()
        await self._session.close()

    async def open(self, info: Document, framework_id: str | None = None, **headers: str) -> int:
        """Subscribe; return the status."""
        call: Document = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
        if framework_id is not None:
            call["framework_id"] = {"value": framework_id}
            info["id"] = {"value": framework_id}
        response = await self._session.post(
            f"{self.url}/api/v1/scheduler", data=json.dumps(call), headers={**JSON, **headers}
        )
        self._response, self.headers = response, dict(response.headers)
        if response.status == 200:
            self.stream_id = response.headers["Mesos-Stream-Id"]
            self._reading = asyncio.create_task(self._read(response))
        else:
            self.events.put_nowait({"type": "REFUSED", "refused": (await response.text())})
        return response.status

    async def subscribe(self, info: Document | None = None, framework_id: str | None = None) -> Document:
        """Subscribe as it should go; return the body of SUBSCRIBED."""
        assert await self.open(info or framework_info(), framework_id) == 200
        subscribed = await self.event("SUBSCRIBED")
        self.framework_id = subscribed["framework_id"]["value"]
        return subscribed

    async def call(self, kind: str, body: Document | None = None, **headers: str) -> aiohttp.ClientResponse:
        document: Document = {"type": kind, "framework_id": {"value": self.framework_id}}
        if body is not None:
            document[kind.lower()] = body
        sent = {**JSON, "Mesos-Stream-Id": self.stream_id, **headers}
        response = await self._session.post(f"{self.url}/api/v1/scheduler", data=json.dumps(document), headers=sent)
        await response.read()
        return response

    async def operate(self, kind: str, body: Document) -> tuple[int, str]:
        """Make a call of the operator API; return its status and body."""
        data = json.dumps({"type": kind, kind.lower(): body})
        async with self._session.post(f"{self.url}/api/v1", data=data, headers=JSON) as response:
            return response.status, await response.text()

    async def event(self, kind: str, skip: tuple[str, ...] = ("HEARTBEAT",)) -> Any:
        """The body of the next event, which is of this type; others in `skip` are passed over."""
        while True:
            event = await soon(self.events.get())
            assert event is not None, f"the stream ended before {kind}"
            if event["type"] == kind:
                return event.get(kind.lower())
            assert event["type"] in skip, f"{event} came before {kind}"

    async def offer(self) -> Document:
        offers = (await self.event("OFFERS"))["offers"]
        assert len(offers) == 1
        return offers[0]  # type: ignore[no-any-return]

    async def status(self, skip: tuple[str, ...] = ("HEARTBEAT", "OFFERS")) -> Document:
        return (await self.event("UPDATE", skip))["status"]  # type: ignore[no-any-return]

    async def launch(self, offer: Document, *tasks: Document, refuse_s: float = 3600) -> None:
        operations = [{"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}]
        filters = {"refuse_seconds": refuse_s}
        body = {"offer_ids": [offer["id"]], "operations": operations, "filters": filters}
        assert (await self.call("ACCEPT", body)).status == 202

    async def acknowledge(self, status: Document) -> None:
        body = {key: status[key] for key in ("agent_id", "task_id", "uuid")}
        assert (await self.call("ACKNOWLEDGE", body)).status == 202

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        decoder = RecordDecoder()
        try:
            async for chunk in response.content.iter_any():
                for record in decoder.feed(chunk):
                    self.events.put_nowait(json.loads(record))
        except aiohttp.ClientError:
            pass
        self.events.put_nowait(None)


class ScriptedAgent:
    """The agent's side of the wire, by hand. It answers pings; all else is the test's."""

    def __init__(self, master: str) -> None:
        host, _, port = master.removeprefix("http://").partition(":")
        self.master = Pid("master", host, int(port))
        self.endpoint = Endpoint("127.0.0.1", 0)
        self.messages: asyncio.Queue[tuple[str, Document]] = asyncio.Queue()
        self.exited: asyncio.Queue[Pid] = asyncio.Queue()
        self.pings: list[Document] = []
        self.answers_pings = True
        self.on_ping: Callable[[Document], None] = lambda ping: None
        self.id = ""

    async def start(self) -> None:
        await self.endpoint.start(make_app())
        self.endpoint.spawn("slave(1)", self._on_message, self.exited.put_nowait)

    async def stop(self) -> None:
        await self.endpoint.stop()

    @property
    def pid(self) -> str:
        return str(self.endpoint.pid("slave(1)"))

    def info(self, resources: str = GPU_AGENT) -> Document:
        info: Document = {"hostname": "127.0.0.1", "port": self.endpoint.port, "checkpoint": True}
        info["resources"] = Resources.parse(resources).to_json()
        return info | ({"id": {"value": self.id}} if self.id else {})

    def say(self, name: str, document: Document) -> None:
        self.endpoint.send("slave(1)", self.master, PREFIX + name, encode(PREFIX + name, document))

    def introduce(self, name: str, resources: str = GPU_AGENT, **more: Any) -> None:
        capabilities = ["MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT"]
        self.endpoint.link("slave(1)", self.master)
        document = {
            "slave": self.info(resources),
            "version": "1.12.0",
            "agent_capabilities": [{"type": capability} for capability in capabilities],
            "resource_version_uuid": {"value": UUID},
        }
        self.say(name, {**document, **more})

    async def register(self, resources: str = GPU_AGENT) -> None:
        self.introduce("RegisterSlaveMessage", resources)
        self.id = (await self.message("SlaveRegisteredMessage"))["slave_id"]["value"]

    async def reregister(self, tasks: list[Document], frameworks: list[Document]) -> Document:
        self.introduce("ReregisterSlaveMessage", tasks=tasks, frameworks=frameworks)
        return await self.message("SlaveReregisteredMessage")

    def update(self, run: Document, state: str, uuid: str = UUID, **more: Any) -> None:
        """Report a task that a RunTaskMessage asked for."""
        status: Document = {
            "task_id": run["task"]["task_id"],
            "state": state,
            "slave_id": {"value": self.id},
            "executor_id": run["task"]["task_id"],
            "source": "SOURCE_EXECUTOR",
            "timestamp": 1_795_256_500.5,
            "uuid": uuid,
            **more,
        }
        update = {
            "framework_id": run["framework"]["id"],
            "executor_id": status["executor_id"],
            "slave_id": status["slave_id"],
            "status": status,
            "timestamp": status["timestamp"],
            "uuid": uuid,
            "latest_state": state,
        }
        self.say("StatusUpdateMessage", {"update": update, "pid": self.pid})

    async def message(self, name: str, skip: tuple[str, ...] = ()) -> Document:
        """The next message, which has this name; pings, and those in `skip`, are passed over."""
        while True:
            found, document = await soon(self.messages.get())
            if found == name:
                return document
            assert found in skip, f"{found} came before {name}"

    def task_of(self, run: Document, state: str) -> Document:
        """The Task that the agent would list for a task it runs."""
        task = {key: run["task"][key] for key in ("name", "task_id", "slave_id", "resources")}
        return {**task, "framework_id": run["framework"]["id"], "state": state}

    def _on_message(self, message: Message) -> None:
        name, document = message.name.removeprefix(PREFIX), decode(message.name, message.body)
        if name == "PingSlaveMessage":
            self.pings.append(document)
            if self.answers_pings:
                self.endpoint.send("slave(1)", message.sender, f"{PREFIX}PongSlaveMessage", b"")
            self.on_ping(document)
        else:
            self.messages.put_nowait((name, document))


def internal_framework(info: Document) -> Document:
    return devolve("mesos.FrameworkInfo", info)
