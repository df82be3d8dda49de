"""Plain clients through the tunnel to peers that speak TLS."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.base.linux.peers import uid_of_socket
from mesos_gpu.mesos.security.tls_settings import TlsSettings
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import EventStream, json_response, make_app
from mesos_gpu.process.secure.tls import Tls
from mesos_gpu.process.tunnel import Owner, Tunnel
from tests.support.logs import logged
from tests.support.tls import Authority

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    certificate, key = authority.issue("node")
    ca = str(authority.certificate)
    return TlsSettings(str(certificate), str(key), ca_file=ca, verify_server=True, verify_ip=True, require_client=True)


class Far:
    """The peer behind the tunnel."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[EventStream] = asyncio.Queue()
        self.ended: asyncio.Queue[EventStream] = asyncio.Queue()

    def app(self) -> web.Application:
        async def echo(request: web.Request) -> web.Response:
            return web.Response(body=await request.read(), headers={"Scheme": request.scheme})

        async def events(request: web.Request) -> web.StreamResponse:
            stream = await EventStream.open(request)
            self.streams.put_nowait(stream)
            await stream.closed()
            self.ended.put_nowait(stream)
            return stream.response

        app = make_app()
        app.router.add_post("/echo", echo)
        app.router.add_get("/events", events)
        app.router.add_get("/", _done)
        return app


async def _done(_: web.Request) -> web.Response:
    return json_response({})


@asynccontextmanager
async def way(settings: TlsSettings, owner_of: Owner | None = None) -> AsyncIterator[tuple[Far, Endpoint, Tunnel]]:
    far, endpoint = Far(), Endpoint("127.0.0.1", 0, tls=Tls(settings))
    await endpoint.start(far.app())
    tunnel = Tunnel(Tls(settings), owner_of=owner_of)
    try:
        yield far, endpoint, tunnel
    finally:
        await tunnel.close()
        await endpoint.stop()


async def test_large_bodies_go_both_ways_and_leave_over_tls(settings: TlsSettings) -> None:
    async with way(settings) as (_, endpoint, tunnel), aiohttp.ClientSession() as session:
        url = f"http://{tunnel.through(f'127.0.0.1:{endpoint.port}')}/echo"
        sent = os.urandom(5_000_000)
        for _ in range(2):
            async with session.post(url, data=io.BytesIO(sent)) as answer:
                assert await answer.read() == sent
                assert answer.headers["Scheme"] == "https"


async def test_each_peer_has_one_port_whichever_thread_asks(settings: TlsSettings) -> None:
    async with way(settings) as (_, endpoint, tunnel), aiohttp.ClientSession() as session:
        named = f"localhost:{endpoint.port}"
        found = await asyncio.gather(*(asyncio.to_thread(tunnel.through, named) for _ in range(8)))
        assert len(set(found)) == 1
        assert tunnel.through(f"127.0.0.1:{endpoint.port}") not in found
        async with session.get(f"http://{found[0]}/") as answer:
            assert answer.status == 200


async def test_who_goes_at_either_end_is_gone_at_the_other(settings: TlsSettings) -> None:
    async with way(settings) as (far, endpoint, tunnel), aiohttp.ClientSession() as session:
        url = f"http://{tunnel.through(f'127.0.0.1:{endpoint.port}')}/events"
        answer = await session.get(url)
        stream = await far.streams.get()
        stream.send({"n": 1})
        assert await answer.content.readany() == b'7\n{"n":1}'
        answer.close()
        assert await asyncio.wait_for(far.ended.get(), PATIENCE_S) is stream
        answer = await session.get(url)
        (await far.streams.get()).close()
        assert await asyncio.wait_for(answer.content.read(), PATIENCE_S) == b""
        answer.close()


async def test_another_user_of_this_machine_is_hung_up_on(
    settings: TlsSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        way(settings, lambda _: os.geteuid() + 4711) as (_, endpoint, tunnel),
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{tunnel.through(f'127.0.0.1:{endpoint.port}')}/")
        await logged(caplog, f"127.0.0.1:{endpoint.port}")


async def test_the_owner_of_a_socket_is_known() -> None:
    async with way_in() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        assert uid_of_socket(writer.get_extra_info("sockname")) == os.geteuid()
        writer.close()
        await writer.wait_closed()
    assert uid_of_socket(("127.0.0.9", 1)) is None


@asynccontextmanager
async def way_in() -> AsyncIterator[int]:
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(make_app())
    yield endpoint.port
    await endpoint.stop()


async def test_a_peer_that_is_not_who_it_should_be_gets_not_a_byte(
    settings: TlsSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path)
    certificate, key = stranger.issue("stranger")
    trusting = replace(settings, cert_file=str(certificate), key_file=str(key), require_client=False)
    endpoint, tunnel = Endpoint("127.0.0.1", 0, tls=Tls(trusting)), Tunnel(Tls(settings))
    await endpoint.start(Far().app())
    try:
        async with aiohttp.ClientSession() as session:
            for peer, words in (
                (f"127.0.0.1:{endpoint.port}", f"127.0.0.1:{endpoint.port}: "),
                ("127.0.0.1:1", "127.0.0.1:1: "),
                ("no.such.host.invalid", "no.such.host.invalid"),
            ):
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"http://{tunnel.through(peer)}/")
                await logged(caplog, words)
    finally:
        await tunnel.close()
        await endpoint.stop()


async def test_a_client_whose_peer_is_not_there_is_hung_up_on_only_after_a_pause(
    settings: TlsSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To it the connection was made: pymesos tries again at once when one breaks, some 70 times a second.
    monkeypatch.setattr("mesos_gpu.process.tunnel._REFUSED_PAUSE_S", 3600.0)
    tunnel = Tunnel(Tls(settings))
    host, port = tunnel.through("127.0.0.1:1").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        await logged(caplog, "127.0.0.1:1: ")
        reading = asyncio.ensure_future(reader.read())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not reading.done()
    finally:
        await asyncio.wait_for(tunnel.close(), PATIENCE_S)  # which does not wait for the pause
        writer.close()
        await writer.wait_closed()
    assert await asyncio.wait_for(reading, PATIENCE_S) == b""


async def test_a_client_that_goes_before_the_peer_is_there_leaves_nothing(settings: TlsSettings) -> None:
    async with way(settings) as (_, endpoint, tunnel):
        host, port = tunnel.through(f"127.0.0.1:{endpoint.port}").split(":")
        for _ in range(20):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/") as answer:
            assert answer.status == 200
        await asyncio.wait_for(_empty(tunnel), PATIENCE_S)


async def _empty(tunnel: Tunnel) -> None:
    while tunnel._sides:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.005)
