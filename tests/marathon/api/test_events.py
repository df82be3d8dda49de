"""/v2/events over HTTP: what is told, to whom, and what becomes of who does not read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import aiohttp
import pytest

from mesos_gpu.process import streams
from tests.support.marathon.builders import app
from tests.support.marathon.service import Marathon


async def test_events(marathon: Marathon) -> None:
    assert (await marathon.call("GET", "/v2/events")).status == 405
    headers = {"Accept": "text/event-stream"}
    path = "/v2/events?event_type=deployment_success&event_type=event_stream_attached"
    async with marathon.http.get(marathon.url + path, headers=headers) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = _lines(stream)
        assert await anext(lines) == "event: event_stream_attached"
        await anext(lines)
        answer = await marathon.call("POST", "/v2/apps", app(instances=0))
        assert await anext(lines) == "event: deployment_success"
        event = json.loads((await anext(lines)).removeprefix("data: "))
    assert event["eventType"] == "deployment_success"
    assert event["id"] == answer.headers["Marathon-Deployment-Id"]
    assert event["timestamp"].endswith("Z")


async def test_a_listener_that_does_not_read_is_cut_off_and_others_are_told_everything(
    marathon: Marathon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 128 * 1024)
    asked = b"GET /v2/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", marathon.endpoint.port, limit=1024)
    writer.write(asked)
    await asyncio.wait_for(reader.readuntil(b"event_stream_attached"), 60)
    bus, metrics = marathon.scheduler.bus, marathon.scheduler.metrics
    headers, sent = {"Accept": "text/event-stream"}, 0
    async with marathon.http.get(marathon.url + "/v2/events?event_type=many", headers=headers) as stream:
        lines = _lines(stream)
        while metrics.listeners == 2:
            assert sent < 1000, "what the sleeper was sent is kept without end"
            for _ in range(10):
                sent += 1
                bus.publish("many", {"number": sent, "words": "A" * 10_000}, hold=True)
            bus.flush()
            for number in range(sent - 9, sent + 1):
                assert await anext(lines) == "event: many"
                assert json.loads((await anext(lines)).removeprefix("data: "))["number"] == number
        assert sent > 10
        assert (await marathon.call("GET", "/v2/info")).status == 200
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _lines(stream: aiohttp.ClientResponse) -> Any:
    while True:
        line = (await asyncio.wait_for(stream.content.readline(), 60)).decode().strip()
        if line:
            yield line
