"""Pages of other sites, too many requests at once, packed answers: over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesos_gpu.marathon.api.gate import HttpSettings, concurrency_limit
from tests.support.golden import Golden
from tests.support.marathon.builders import app

PAGE = {"Origin": "http://ui.example:8888"}
ALLOW = "Access-Control-Allow-Origin"


@pytest.mark.parametrize(
    ("origins", "said", "varies"),
    [
        ((), None, False),
        (("*",), "*", False),
        (("http://a", "http://ui.example:8888"), "http://ui.example:8888", True),
        (("http://a",), None, False),
    ],
)
async def test_pages_of_other_sites_may_read_where_that_is_allowed(
    make_marathon: Callable[..., Any], origins: tuple[str, ...], said: str | None, varies: bool
) -> None:
    marathon = await make_marathon(http_settings=HttpSettings(origins=origins))
    for path, status in (("/v2/apps", 200), ("/v2/apps/none", 404), ("/v2/nosuch", 404)):
        answer = await marathon.call("GET", path, headers=PAGE)
        assert (answer.status, answer.headers.get(ALLOW)) == (status, said)
        assert ("Origin" in ",".join(answer.headers.getall("Vary", []))) is varies
    assert (await marathon.call("GET", "/v2/apps")).headers.get(ALLOW) == ("*" if said == "*" else None)


async def test_a_browser_may_ask_before_it_has_a_password_and_what_it_may(make_marathon: Callable[..., Any]) -> None:
    marathon = await make_marathon(credentials="u:p", http_settings=HttpSettings(origins=("*",)))
    asking = {**PAGE, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "X-One, Authorization"}
    answer = await marathon.call("OPTIONS", "/v2/apps", headers=asking)
    assert (answer.status, answer.headers[ALLOW]) == (200, "*")
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS"
    assert answer.headers["Access-Control-Allow-Headers"] == "X-One, Authorization"
    assert answer.headers["Access-Control-Max-Age"] == "86400"
    refused = await marathon.call("GET", "/v2/apps", headers=PAGE)
    assert (refused.status, refused.headers[ALLOW]) == (401, "*"), "the page learns that it needs one"
    async with marathon.http.get(
        marathon.url + "/v2/events",
        headers={**PAGE, "Accept": "text/event-stream", "Authorization": "Basic dTpw"},
    ) as stream:
        assert (stream.status, stream.headers[ALLOW]) == (200, "*")


async def test_the_realm_is_what_was_said_also_with_quotation_marks(make_marathon: Callable[..., Any]) -> None:
    marathon = await make_marathon(credentials="u:p", http_settings=HttpSettings(realm='The "lab"'))
    answer = await marathon.call("GET", "/v2/apps")
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="The \\"lab\\""'


async def test_requests_over_the_limit_are_refused_until_others_are_done(golden: Golden) -> None:
    gate, inside = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(request: web.Request) -> web.Response:
        inside.release()
        await gate.wait()
        return web.Response(text="done")

    service = web.Application(middlewares=[concurrency_limit(2)])
    service.add_routes([web.get("/slow", slow), web.get("/v2/events", slow)])
    runner = web.AppRunner(service)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as http:

            async def get(path: str) -> tuple[int, str]:
                async with http.get(url + path) as answer:
                    return answer.status, await answer.text()

            # A listener takes no place.
            waiting = [asyncio.ensure_future(get(path)) for path in ("/v2/events", "/slow", "/slow")]
            for _ in waiting:
                await asyncio.wait_for(inside.acquire(), 60)
            status, text = await get("/slow")
            assert (status, text) == (503, golden)
            gate.set()
            assert await asyncio.gather(*waiting) == [(200, "done")] * 3
            assert await get("/slow") == (200, "done")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("compression", [True, False])
async def test_large_answers_are_packed_for_who_can_read_them(
    make_marathon: Callable[..., Any], compression: bool
) -> None:
    marathon = await make_marathon(http_settings=HttpSettings(compression=compression))
    small = await marathon.call("GET", "/v2/info", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in small.headers
    await marathon.call("PUT", "/v2/apps", [app(f"/a{n}") for n in range(20)])
    plain = await marathon.call("GET", "/v2/apps", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,
        http.get(marathon.url + "/v2/apps", headers={"Accept-Encoding": "gzip, deflate"}) as answer,
    ):
        data = await answer.read()
        assert answer.headers.get("Content-Encoding") == ("gzip" if compression else None)
        assert int(answer.headers["Content-Length"]) == len(data)
    assert (gzip.decompress(data) if compression else data).startswith(b'{"apps":[')
    assert len((await marathon.get("/v2/apps"))["apps"]) == 20


async def test_a_client_that_breaks_off_is_no_error_of_ours(
    make_marathon: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    marathon = await make_marathon()
    port = int(marathon.url.rpartition(":")[2].rstrip("/"))
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"PUT /v2/apps/a HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100000\r\n\r\n".encode() + b" " * 50000)
        await writer.drain()
        assert (await marathon.call("GET", "/v2/apps")).status == 200
        writer.transport.abort()
    assert (await marathon.call("GET", "/v2/apps")).status == 200
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
