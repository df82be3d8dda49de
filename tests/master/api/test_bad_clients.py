"""Clients that flood, stall, send halves or nonsense: each harms itself alone. All on real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import aiohttp
import pytest

from mesos_gpu.master.events.agents import ExecutorMessage, Register
from mesos_gpu.master.events.timers import Tick
from mesos_gpu.master.service import RunningMaster
from mesos_gpu.master.state.state import News
from mesos_gpu.process import streams
from mesos_gpu.process.http import MAX_REQUEST
from tests.support.master.build import framework_info, report
from tests.support.master.live import Scheduler, soon, until

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SUBSCRIBE = json.dumps({"type": "SUBSCRIBE", "subscribe": {"framework_info": framework_info("sleeper")}}).encode()


Connect = Callable[..., Awaitable[Connection]]


@pytest.fixture
async def connect(master: RunningMaster) -> AsyncIterator[Connect]:
    """Opens connections to the master, which are all closed in the end."""
    writers: list[asyncio.StreamWriter] = []

    async def open_one(limit: int = 2**16) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.endpoint.port, limit=limit)
        writers.append(writer)
        return reader, writer

    yield open_one
    for writer in writers:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def request(path: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def healthy(master: RunningMaster) -> bool:
    """Somebody else is served, and at once."""
    async with aiohttp.ClientSession() as session, session.get(f"{master.url}/health") as response:
        return response.status == 200


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await soon(reader.readuntil(b"\r\n\r\n"))
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return int(head.split()[1]), await soon(reader.readexactly(length))


async def test_half_requests_keep_nobody_waiting(connect: Connect, master: RunningMaster) -> None:
    halves = [
        b"",
        b"P",
        b"POST /api/v1 HTTP/1.1\r\nHost: x\r\n",
        request("/api/v1", b'{"type":', length=1000),
        request("/api/v1/scheduler", b'{"type":', length=1000),
        b"POST /api/v1 HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"POST /master/mesos.internal.RegisterSlaveMessage HTTP/1.1\r\nUser-Agent: libprocess/slave(1)@127.0.0.1:1\r\n",
    ]
    stalled = [await connect() for _ in range(10) for _ in halves]
    for index, (_, writer) in enumerate(stalled):
        writer.write(halves[index % len(halves)])
        await writer.drain()
    assert await healthy(master)
    for _, writer in stalled:
        writer.close()
    assert await healthy(master)
    assert not master.engine.state.frameworks


async def test_a_body_beyond_the_limit_is_refused_unread(connect: Connect, master: RunningMaster) -> None:
    for path in ("/api/v1", "/api/v1/scheduler", "/teardown"):
        reader, writer = await connect()
        writer.write(request(path, b"", length=MAX_REQUEST + 1))
        writer.write(b" " * 65536)
        status, words = await answer(reader)
        assert status == 413
        assert str(MAX_REQUEST).encode() in words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 200_000, b"Failed to parse body into JSON"),
        (b'{"type":' * 50_000, b"Failed to parse body into JSON"),
        (b"\xff\xfe", b"Failed to parse body into JSON"),
        (b"null", b"Failed to convert JSON into Call protobuf: Expecting a JSON object"),
        (b'{"type":7}', b"Failed to convert JSON into Call protobuf: Not expecting a JSON number for field 'type'"),
        (b'{"type":"' + b"x" * 100_000 + b'"}', b"Expecting 'type' to be present"),
    ],
)
async def test_nonsense_is_answered_400_and_the_connection_lives(
    connect: Connect, master: RunningMaster, body: bytes, words: bytes
) -> None:
    reader, writer = await connect()
    for path in ("/api/v1/scheduler", "/api/v1"):
        writer.write(request(path, body))
        status, text = await answer(reader)
        assert (status, words in text) == (400, True), text[:200]
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await answer(reader))[0] == 200


async def test_what_is_not_http_ends_that_connection(connect: Connect, master: RunningMaster) -> None:
    for noise in (b"\x16\x03\x01" * 50 + b"\r\n\r\n", b"A" * 200_000, b"GET / HTTP/9.9\r\n\r\n"):
        reader, writer = await connect()
        writer.write(noise)
        try:
            data = await soon(reader.read())
        except ConnectionResetError:
            data = b""
        assert data == b"" or data.startswith(b"HTTP/1.")
    assert await healthy(master)


async def test_a_flood_on_one_connection_does_not_hold_up_others(
    connect: Connect, master: RunningMaster, scheduler: Scheduler
) -> None:
    await scheduler.subscribe()
    call = {"type": "REVIVE", "framework_id": {"value": scheduler.framework_id}}
    body = json.dumps(call).encode()
    reader, writer = await connect()
    count = 3000
    writer.write(request("/api/v1/scheduler", body, f"Mesos-Stream-Id: {scheduler.stream_id}") * count)
    assert await healthy(master)
    [framework] = master.engine.state.frameworks.values()
    answered_first = framework.counters["calls/revive"]
    assert answered_first < count, "the flood was served before the other client"
    for _ in range(count):
        assert (await answer(reader))[0] == 202
    assert framework.counters["calls/revive"] == count


async def test_a_scheduler_that_does_not_read_is_disconnected_and_others_go_on(
    connect: Connect, master: RunningMaster, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 128 * 1024)
    sleeper_reader, sleeper = await connect(limit=1024)
    sleeper.write(request("/api/v1/scheduler", SUBSCRIBE))
    await soon(sleeper_reader.readuntil(b"HEARTBEAT"))
    await scheduler.subscribe()
    state = master.engine.state
    asleep = next(framework for framework in state.frameworks.values() if framework.name == "sleeper")
    awake = state.frameworks[scheduler.framework_id]
    await master.engine.store(Register(report()))
    [agent] = state.agents.values()
    body = {"agent_id": {"value": agent.id}, "executor_id": {"value": "e"}, "data": "A" * 60_000}
    for _ in range(2000):
        if not asleep.connected:
            break
        for framework in (asleep, awake):
            master.engine.do(ExecutorMessage(agent.id, framework.id, "e", body["data"]))
        assert await scheduler.event("MESSAGE") == body
    assert not asleep.connected, "what it was sent is kept without end"
    assert awake.connected
    assert asleep.id in state.frameworks, "it has its failover timeout to come back, and to read"


async def test_an_operator_that_does_not_read_is_cut_off_and_others_are_told_everything(
    connect: Connect, master: RunningMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 128 * 1024)
    subscribe = request("/api/v1", b'{"type": "SUBSCRIBE"}')
    sleeper_reader, sleeper = await connect(limit=1024)
    sleeper.write(subscribe)
    await soon(sleeper_reader.readuntil(b"SUBSCRIBED"))
    reader, writer = await connect(limit=1024 * 1024)
    writer.write(subscribe)
    await soon(reader.readuntil(b"SUBSCRIBED"))
    assert master.engine.watchers == 2
    state, sent = master.engine.state, 0
    while master.engine.watchers == 2:
        assert sent < 1000, "what the sleeper was sent is kept without end"
        for _ in range(10):
            sent += 1
            state.news.append(News("TASK_ADDED", {"task": {"name": f"<task {sent}>", "labels": "A" * 10_000}}))
        master.engine.do(Tick())
        await soon(reader.readuntil(b"<task %d>" % sent))
    assert await healthy(master)
    state.news.append(News("TASK_ADDED", {"task": {"name": "<the last>"}}))
    master.engine.do(Tick())
    await soon(reader.readuntil(b"<the last>"))


async def test_a_connection_that_ends_in_the_middle_of_a_subscription_leaves_nothing(
    connect: Connect, master: RunningMaster
) -> None:
    for cut in (len(SUBSCRIBE), 10):
        _, writer = await connect()
        writer.write(request("/api/v1/scheduler", SUBSCRIBE[:cut], length=len(SUBSCRIBE)))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    state = master.engine.state
    await until(lambda: not any(framework.connected for framework in state.frameworks.values()))
    assert await healthy(master)
