"""Bodies that are begun and not ended are bounded together, on real sockets; who sends little is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.process.bodies import BODIES, Bodies, read_body, read_form
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app

KIB = 1024
MOST = 1024 * KIB


async def _echo(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await read_body(request))))


async def _form(request: web.Request) -> web.Response:
    return web.json_response(await read_form(request))


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    monkeypatch.setattr("mesos_gpu.process.endpoint._LINGER_S", 0.1)
    app = make_app()
    app[BODIES] = Bodies(MOST)
    app.router.add_post("/echo", _echo)
    app.router.add_post("/form", _form)
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    yield endpoint
    await endpoint.stop()


async def begin(endpoint: Endpoint, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send `size` bytes of a body that is said to be longer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {size + 1}\r\n\r\n".encode() + b"x" * size)
    await writer.drain()
    return reader, writer


async def post(endpoint: Endpoint, body: bytes, path: str = "/echo") -> tuple[int, str]:
    url = f"http://127.0.0.1:{endpoint.port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as response:
        return response.status, await response.text()


async def test_of_too_many_unfinished_bodies_the_largest_gives_way_and_small_ones_are_served(
    endpoint: Endpoint,
) -> None:
    large = await begin(endpoint, 700 * KIB)
    medium = [await begin(endpoint, 300 * KIB), await begin(endpoint, 200 * KIB)]
    head = await asyncio.wait_for(large[0].readuntil(b"\r\n\r\n"), 60)
    assert head.startswith(b"HTTP/1.1 503 ")
    assert str(MOST).encode() in await asyncio.wait_for(large[0].read(), 60), "and that connection is closed"
    large[1].close()
    assert await post(endpoint, b"small") == (200, "5")
    # A body of one byte more than these have is whole, and they are held no longer.
    for size, (reader, writer) in zip((300, 200), medium, strict=True):
        writer.write(b"x")
        answer = await asyncio.wait_for(reader.readuntil(str(size * KIB + 1).encode()), 60)
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert await post(endpoint, b"x" * MOST) == (200, str(MOST)), "nothing is counted any more"


async def test_a_sender_that_goes_in_the_middle_is_counted_no_more(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        _, writer = await begin(endpoint, 700 * KIB)
        writer.close()
        await writer.wait_closed()
    assert await post(endpoint, b"x" * MOST) == (200, str(MOST))
    assert not caplog.records, "and nobody is told of it"


async def test_forms_have_the_first_of_each_name(endpoint: Endpoint) -> None:
    assert await post(endpoint, b"a=1&b=%7B%7D&a=2&c=", "/form") == (200, '{"c": "", "a": "1", "b": "{}"}')
