"""What web pages may do: nothing, unless they are this service's own."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from mesos_gpu.process.browsers import Names, problem, protect

OURS = Names(own=("gpu1.lab.example.org", "gpu1"), allowed=("gpus.example.com", "*.proxy.net", "ui.example.com:8443"))


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:5050", "10.1.2.3", "[::1]:8080", "localhost:8080", "gpu1:5051", "gpu7", "marathon.mesos:8080"),
        *("gpu1.lab.example.org", "GPU1.lab.example.org.:5050", "head.lab.example.org", "box.local", "x.y.internal"),
        *("gpus.example.com", "gpus.example.com:8080", "a.proxy.net:81", "ui.example.com:8443"),
    ],
)
def test_names_that_nobody_else_can_have_are_ours(host: str) -> None:
    assert OURS.knows(host)
    assert problem("POST", host, None, OURS) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.com", "evil.com:5050", "example.org", "lab.example.org.evil.com", "127.0.0.1.evil.com", "proxy.net"),
        *("ui.example.com:8080", "evil.com.", "1.2.3", "mesos.evil.com", "localhost.evil.com:8080"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_name_made_to_lead_to_us_is_refused(method: str, host: str) -> None:
    told = problem(method, host, None, OURS)
    assert told is not None
    assert f"--http_hosts={host.partition(':')[0].rstrip('.')}" in told


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://localhost", "localhost", True),
        ("http://localhost", "localhost:80", True),
        ("https://gpu1", "gpu1:443", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("https://gpus.example.com", "10.0.0.1:8080", True),
        ("https://ui.example.com:8443", "10.0.0.1:8080", True),
        ("http://a.proxy.net", "10.0.0.1:8080", True),
        ("http://127.0.0.1:31005", "127.0.0.1:8080", False),
        ("https://127.0.0.1:8080", "127.0.0.1:443", False),
        ("http://localhost:8080", "127.0.0.1:8080", False),
        ("http://evil.com", "127.0.0.1:8080", False),
        ("https://gpus.example.com:9000", "10.0.0.1:8080", False),
        ("https://ui.example.com", "10.0.0.1:8080", False),
        ("null", "127.0.0.1:8080", False),
        ("", "127.0.0.1:8080", False),
        ("http://a:b:c", "127.0.0.1:8080", False),
        ("file://", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080", None, False),
    ],
)
def test_a_page_changes_only_its_own_site(origin: str, host: str | None, may: bool) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (problem(method, host, origin, OURS) is None) is may
    assert problem("GET", host, origin, OURS) is None, "what it may read its browser decides, by our CORS headers"


def test_all_names_may_be_let_in() -> None:
    anybody = Names(allowed=("*",))
    assert problem("POST", "evil.com", "https://evil.org", anybody) is None


async def test_a_refusal_comes_before_all_else_and_says_what_to_do() -> None:
    reached = []

    async def change(request: web.Request) -> web.Response:
        reached.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/change", change)
    protect(app, Names())
    async with TestClient(TestServer(app)) as client:
        answer = await client.post("/change", data=b"x" * 100, headers={"Origin": "http://evil.com"})
        assert (answer.status, reached) == (403, [])
        assert "--http_hosts=evil.com" in await answer.text()
        assert (await client.post("/change", data=b"ours")).status == 200
    assert reached == [b"ours"]
