"""POST /api/v1/executor over a real socket, against what a real Mesos said to a custom executor."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos import messages, recordio
from mesos_gpu.mesos.messages import devolve
from mesos_gpu.mesos.uuids import random_uuid
from tests.fakes.master import ScriptedMaster
from tests.support import places
from tests.support.agent.documents import AGENT_ID
from tests.support.agent.hosting import IDS, hosted
from tests.support.agent.running import FRAMEWORK, SUBSCRIBE, Running, Start, known
from tests.support.golden import Golden

RECORDED = json.loads((places.RECORDED / "executor-session.json").read_text())
SIDE: list[dict[str, Any]] = RECORDED["executor_side"]
JSON, PROTOBUF = "application/json", "application/x-protobuf"
CALL, EVENT = "mesos.v1.executor.Call", "mesos.v1.executor.Event"


def update(task_id: str, state: str, number: int, **more: Any) -> dict[str, Any]:
    uuid = base64.b64encode(random_uuid(number.to_bytes(16, "big"))).decode()
    status = {"task_id": {"value": task_id}, "state": state, "uuid": uuid, "source": "SOURCE_EXECUTOR", **more}
    return {**IDS, "type": "UPDATE", "update": {"status": status}}


class Client:
    """An executor, by hand."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = f"{url}/api/v1/executor", session

    async def call(self, document: object, **headers: str) -> tuple[int, str]:
        sent = {"Content-Type": JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        async with self.session.post(self.url, data=data, headers=sent) as response:
            return response.status, await response.text()

    @asynccontextmanager
    async def subscribe(self, document: dict[str, Any] = SUBSCRIBE, kind: str = JSON) -> AsyncIterator[Events]:
        body = json.dumps(document).encode() if kind == JSON else messages.encode(CALL, document)
        async with self.session.post(self.url, data=body, headers={"Content-Type": kind, "Accept": kind}) as response:
            assert response.status == 200, await response.text()
            yield Events(response, kind)


class Events:
    """What comes on a stream."""

    def __init__(self, response: aiohttp.ClientResponse, kind: str) -> None:
        self.response, self._kind = response, kind
        self._decoder, self._waiting = recordio.RecordDecoder(), list[bytes]()

    async def next(self) -> dict[str, Any] | None:
        """Return the next event, None at the end of the stream."""
        while not self._waiting:
            chunk = await self.response.content.readany()
            if not chunk:
                return None
            self._waiting += self._decoder.feed(chunk)
        record = self._waiting.pop(0)
        return json.loads(record) if self._kind == JSON else messages.decode(EVENT, record)  # type: ignore[no-any-return]

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next()) is not None:
            if event["type"] == kind:
                return event
        raise AssertionError(f"the stream ended without {kind}")


@pytest.fixture
async def running(start: Start, master: ScriptedMaster) -> Running:
    """Return an agent with one executor whose container runs."""
    running = await start()
    master.run(FRAMEWORK, devolve("mesos.TaskInfo", hosted("t1", gpus=1)))
    await known(running)
    return running


@pytest.fixture
async def client(running: Running) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield Client(running.url, session)


def shape(value: Any) -> Any:
    """Return the keys and types of a document; lists by their first entry."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


async def test_a_session_is_as_a_real_mesos_had_it(running: Running, client: Client, master: ScriptedMaster) -> None:
    real_events = [line["event"] for line in SIDE if "event" in line]
    async with client.subscribe() as events:
        headers = events.response.headers
        (subscription,) = [line for line in SIDE if "subscribe" in line]
        assert {name for name in headers if name != "Date"} == set(subscription["headers"]) - {"Date"}
        assert headers["Content-Type"] == subscription["headers"]["Content-Type"]
        seen = [await events.next(), await events.next()]
        assert await client.call(update("t1", "TASK_STARTING", 1)) == (202, "")
        assert await client.call(update("t1", "TASK_RUNNING", 2, data="eA==")) == (202, "")
        assert await client.call({**IDS, "type": "MESSAGE", "message": {"data": "eA=="}}) == (202, "")
        assert (await master.got("ExecutorToFrameworkMessage"))["data"] == "eA=="
        seen += [await events.next(), await events.next()]
        master.send("FrameworkToExecutorMessage", {"slave_id": {"value": AGENT_ID}, **IDS, "data": "aGk="})
        seen.append(await events.next())
        master.send("KillTaskMessage", {"framework_id": IDS["framework_id"], "task_id": {"value": "t1"}})
        seen.append(await events.next())
        assert await client.call(update("t1", "TASK_KILLED", 3)) == (202, "")
        seen.append(await events.next())
        await master.reaches("t1", "TASK_KILLED")
        master.send("ShutdownExecutorMessage", IDS)
        seen.append(await events.next())
    assert [event["type"] for event in seen if event] == [event["type"] for event in real_events]
    for ours, real in zip(seen[2:], real_events[2:], strict=False):
        assert shape(ours) == shape(real)
    ours, real = seen[0]["subscribed"], real_events[0]["subscribed"]  # type: ignore[index]
    assert set(ours) == set(real)
    assert set(ours["agent_info"]) == set(real["agent_info"])
    executor = next(iter(running.agent.state.frameworks.executors()))
    running.containers.end(executor.container_id, Termination(exit_code=0))
    assert (await master.got("ExitedExecutorMessage"))["status"] == 0


async def test_what_the_state_shows_of_it_is_what_mesos_shows(running: Running, client: Client) -> None:
    async with client.subscribe() as events:
        await events.until("LAUNCH")
        await client.call(update("t1", "TASK_STARTING", 1))
        await client.call(update("t1", "TASK_RUNNING", 2))
        async with client.session.get(f"{running.url}/state") as response:
            ours = (await response.json())["frameworks"][0]["executors"][0]
    real = RECORDED["agent_state_while_running"]["response"]["body"]["frameworks"][0]["executors"][0]
    assert set(ours) == set(real)
    assert ours["type"] == "CUSTOM"
    assert set(ours["tasks"][0]) == set(real["tasks"][0]) - {"labels"}  # this task has none
    assert ours["tasks"][0]["executor_id"] == "echo"


async def test_protobuf_is_spoken_too(running: Running, client: Client) -> None:
    async with client.subscribe(kind=PROTOBUF) as events:
        assert events.response.headers["Content-Type"] == PROTOBUF
        launch = await events.until("LAUNCH")
        assert launch["launch"]["task"]["task_id"] == {"value": "t1"}
        body = messages.encode(CALL, {**update("t1", "TASK_RUNNING", 1)})
        assert (await client.call(body, Content_Type=PROTOBUF))[0] == 202
        assert (await events.next() or {})["type"] == "ACKNOWLEDGED"


async def test_calls_that_are_refused_with_the_status_and_words_of_mesos(
    running: Running, client: Client, golden: Golden
) -> None:
    status = update("t1", "TASK_RUNNING", 1)
    async with client.session.get(client.url) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
    assert (await client.call(b"{", Content_Type="text/plain"))[0] == 415
    assert (await client.call(b"{"))[0] == 400
    assert await client.call({**IDS}) == (400, golden)
    assert await client.call(status) == (403, golden)
    assert await client.call({**SUBSCRIBE, "executor_id": {"value": "no"}}) == (400, golden)
    assert await client.call({**SUBSCRIBE, "framework_id": {"value": "no"}}) == (400, golden)
    assert (await client.call(SUBSCRIBE, Accept="text/html"))[0] == 406
    assert await client.call({**IDS, "type": "UPDATE"}) == (400, golden)
    assert await client.call({**IDS, "type": "MESSAGE"}) == (400, golden)
    del status["update"]["status"]["uuid"]
    assert await client.call(status) == (400, golden)
    # Random bytes whose version is none of 1 to 5 are none.
    status["update"]["status"]["uuid"] = base64.b64encode(b"v" * 16).decode()
    assert await client.call(status) == (400, golden)
    assert await client.call(update("t1", "TASK_RUNNING", 1, source="SOURCE_MASTER")) == (400, golden)
    assert await client.call(update("t1", "TASK_STAGING", 1)) == (400, golden)
    assert await client.call(update("t1", "TASK_RUNNING", 1, executor_id={"value": "other"})) == (400, golden)
    async with client.subscribe():
        assert await client.call({**IDS, "type": "HEARTBEAT"}) == (202, "")
        assert (await client.call({**IDS, "type": "UNKNOWN"}))[0] == 501
    running.agent.takes_executors = False
    assert await client.call(SUBSCRIBE) == (503, golden)


async def test_a_second_subscription_closes_the_first(running: Running, client: Client) -> None:
    async with client.subscribe() as first:
        await first.until("LAUNCH")
        async with client.subscribe() as second:
            assert (await second.next() or {})["type"] == "SUBSCRIBED"
            assert await first.next() is None
            assert next(iter(running.agent.state.frameworks.executors())).connected


async def test_after_a_restart_the_executor_says_what_the_agent_missed(
    start: Start, running: Running, client: Client, master: ScriptedMaster
) -> None:
    async with client.subscribe() as events:
        await events.until("LAUNCH")
        await client.call(update("t1", "TASK_RUNNING", 1))
        await master.reaches("t1", "TASK_RUNNING")
    master.run(FRAMEWORK, devolve("mesos.TaskInfo", hosted("t2")), launch_executor=False)
    await known(running, 2)
    port = running.endpoint.port
    await running.die()
    beginning = asyncio.ensure_future(start(running.containers, port=port))
    missed = {"status": update("t1", "TASK_FINISHED", 2)["update"]["status"]}
    again = {**SUBSCRIBE, "subscribe": {"unacknowledged_tasks": [], "unacknowledged_updates": [missed]}}
    while (await _status(client)) != 400:  # noqa: ASYNC110 - 503, or nobody there, until the agent takes executors
        await asyncio.sleep(0.01)
    async with client.subscribe(again) as events:
        assert (await events.next() or {})["type"] == "SUBSCRIBED"
        assert (await events.until("ACKNOWLEDGED"))["acknowledged"]["task_id"] == {"value": "t1"}
        await beginning
        await master.reaches("t1", "TASK_FINISHED")
        status = (await master.reaches("t2", "TASK_DROPPED"))["status"]
        assert status["reason"] == "REASON_SLAVE_RESTARTED"


async def test_an_executor_that_does_not_come_back_is_ended(
    start: Start, running: Running, client: Client, master: ScriptedMaster
) -> None:
    async with client.subscribe() as events:
        await events.until("LAUNCH")
        await client.call(update("t1", "TASK_RUNNING", 1))
        await master.reaches("t1", "TASK_RUNNING")
    await running.die()
    again = await start(running.containers, port=running.endpoint.port)
    status = (await master.reaches("t1", "TASK_GONE"))["status"]
    assert status["reason"] == "REASON_EXECUTOR_REREGISTRATION_TIMEOUT"
    assert again.containers.kills[-1][1] == 0.0


async def _status(client: Client) -> int:
    try:
        return (await client.call({**IDS}))[0]
    except aiohttp.ClientError:
        return 0
