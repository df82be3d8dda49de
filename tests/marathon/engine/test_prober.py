"""Checks that Marathon runs itself, against real servers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from mesos_gpu.marathon.engine.prober import Prober
from mesos_gpu.marathon.matching.checks import Probe
from mesos_gpu.marathon.state.events import HealthChecked, ReadinessChecked
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import make_app
from tests.support.golden import Golden
from tests.support.tls import Authority

NEVER_S = 3600.0


@pytest.fixture
async def server() -> AsyncIterator[Endpoint]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]), text="hello")

    enough = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await enough.wait()
        return web.Response()

    app = make_app()
    app.add_routes([web.get("/status/{status}", answer), web.get("/hang", hang)])
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    yield endpoint
    enough.set()
    await endpoint.stop()


def probe(port: int, path: str = "/status/200", **changes: object) -> Probe:
    base = Probe("t", 0, "http", "127.0.0.1", port, path, 0.0, NEVER_S, 10.0)
    return replace(base, **changes)  # type: ignore[arg-type]


async def first_result(made: Probe) -> HealthChecked | ReadinessChecked:
    results: asyncio.Queue[HealthChecked | ReadinessChecked] = asyncio.Queue()
    prober = Prober(results.put_nowait)
    prober.follow(frozenset({made}))
    try:
        return await asyncio.wait_for(results.get(), 60)
    finally:
        await prober.stop()


@pytest.mark.parametrize(("status", "alive"), [(200, True), (302, True), (399, True), (404, False), (503, False)])
async def test_statuses_from_200_to_399_are_well(server: Endpoint, status: int, alive: bool) -> None:
    result = await first_result(probe(server.port, f"/status/{status}"))
    assert isinstance(result, HealthChecked)
    assert result.alive is alive
    assert (result.cause is None) is alive


async def test_an_endpoint_that_is_not_there_is_unwell(server: Endpoint) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        for scheme in ("http", "tcp"):
            result = await first_result(probe(taken.getsockname()[1], scheme=scheme))
            assert isinstance(result, HealthChecked)
            assert not result.alive
            assert result.cause


async def test_an_endpoint_that_hangs_is_unwell(server: Endpoint, golden: Golden) -> None:
    result = await first_result(probe(server.port, "/hang", timeout_s=0.05))
    assert result == HealthChecked("t", 0, alive=False, cause=golden)


@pytest.mark.parametrize(("kind", "expired"), [("server", False), ("elsewhere", False), ("server", True)])
async def test_https_takes_any_certificate(tmp_path: Path, *, kind: str, expired: bool) -> None:
    certificate, key = Authority(tmp_path / "ca").issue("task", kind=kind, expired=expired)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]))

    app = make_app()
    app.add_routes([web.get("/status/{status}", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        assert await first_result(probe(port, scheme="https")) == HealthChecked("t", 0, alive=True)
        ill = await first_result(probe(port, "/status/503", scheme="https"))
        assert isinstance(ill, HealthChecked)
        assert (ill.alive, "503" in ill.cause) == (False, True)
    finally:
        await runner.cleanup()


async def test_https_of_a_server_without_tls_is_unwell(server: Endpoint) -> None:
    result = await first_result(probe(server.port, scheme="https", timeout_s=0.2))
    assert isinstance(result, HealthChecked)
    assert not result.alive


async def test_so_many_checks_run_at_a_time_and_the_others_wait() -> None:
    under_way, most, release = 0, 0, asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 2:
            release.set()
        await release.wait()
        under_way -= 1
        return web.Response()

    app = make_app()
    app.add_routes([web.get("/{number}", wait)])
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(app)
    results: asyncio.Queue[HealthChecked | ReadinessChecked] = asyncio.Queue()
    prober = Prober(results.put_nowait, at_a_time=2)
    prober.follow(frozenset(probe(endpoint.port, f"/{number}", task_id=f"t{number}") for number in range(8)))
    try:
        found = [await asyncio.wait_for(results.get(), 60) for _ in range(8)]
        assert len({result.task_id for result in found}) == 8
        assert most == 2
    finally:
        await prober.stop()
        await endpoint.stop()


async def test_a_port_that_takes_connections_is_well(server: Endpoint) -> None:
    assert await first_result(probe(server.port, scheme="tcp")) == HealthChecked("t", 0, alive=True)


async def test_readiness_keeps_the_answer_when_asked_to(server: Endpoint) -> None:
    ready = probe(server.port, "/status/201", index=None, good=(201,), keep_response=True, name="r")
    response = {"status": 201, "contentType": "text/plain; charset=utf-8", "body": "hello"}
    assert await first_result(ready) == ReadinessChecked("t", "r", ready=True, response=response)
    assert await first_result(replace(ready, good=(200,), keep_response=False)) == ReadinessChecked("t", "r", False)


async def test_an_endpoint_that_is_not_there_is_reported_as_504() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = await first_result(probe(taken.getsockname()[1], index=None, good=(504,), keep_response=True))
    assert isinstance(result, ReadinessChecked)
    assert not result.ready, "not even where 504 counts as ready: nobody answered"
    assert result.response is not None
    assert result.response["status"] == 504


async def test_what_is_no_longer_wanted_is_not_asked(server: Endpoint) -> None:
    results: asyncio.Queue[HealthChecked | ReadinessChecked] = asyncio.Queue()
    prober = Prober(results.put_nowait)
    often = probe(server.port, interval_s=0.001)
    prober.follow(frozenset({often}))
    await asyncio.wait_for(results.get(), 60)
    await asyncio.wait_for(results.get(), 60)
    prober.follow(frozenset())
    await prober.stop()
    while not results.empty():
        results.get_nowait()
    await asyncio.sleep(0)
    assert results.empty()
