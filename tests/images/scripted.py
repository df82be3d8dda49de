"""A registry that misbehaves as it is told: breaks off, lies, asks for tokens, sends elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

from aiohttp import web

from tests.support.images.build import BuiltImage

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedRegistry:
    """Serves one image under any name. `seen` has each request's method, path and headers."""

    def __init__(self, image: BuiltImage) -> None:
        self.image = image
        self.url = ""
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.before: list[Handler | None] = []
        """Answers to the first requests, in order; None answers as usual."""
        self.break_after: list[int] = []
        """After how many bytes each of the first blob answers breaks off."""
        self.ranges = True
        self.token: str | None = None
        self.login: str | None = None
        self.token_queries: list[dict[str, str]] = []
        self.blobs_at: str | None = None
        self.over = asyncio.Event()

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _ in self.seen]

    async def never(self, _: web.Request) -> web.StreamResponse:
        """Answer when the test is over."""
        await self.over.wait()
        return web.Response()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path, dict(request.headers)))
        if self.before and (answer := self.before.pop(0)) is not None:
            return await answer(request)
        if request.path == "/token":
            return await self._give_token(request)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            challenge = f'Bearer realm="{self.url}/token",service="the service",scope="ignored"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if self.token is None and self.login is not None and request.headers.get("Authorization") != self.login:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="tests"'})
        kind, _, version = request.path.rpartition("/")
        if kind.endswith("/manifests") and version in ("latest", self.image.digest):
            return web.Response(body=self.image.manifest, content_type=self.image.media_type)
        if kind.endswith("/blobs") and version in self.image.blobs:
            if self.blobs_at is not None:
                raise web.HTTPTemporaryRedirect(f"{self.blobs_at}{request.path}")
            return await self._send(request, self.image.blobs[version])
        return web.Response(status=404)

    async def _give_token(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query) if request.method == "GET" else dict(parse_qsl(await request.text()))
        self.token_queries.append(query)
        if self.login is not None and request.method == "GET" and request.headers.get("Authorization") != self.login:
            return web.Response(status=401)
        return web.json_response({"token" if request.method == "GET" else "access_token": self.token})

    async def _send(self, request: web.Request, data: bytes) -> web.StreamResponse:
        start = request.http_range.start or 0
        response = web.StreamResponse()
        if start and self.ranges:
            response.set_status(206)
            response.headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            data = data[start:]
        response.content_length = len(data)
        await response.prepare(request)
        if self.break_after:
            await response.write(data[: self.break_after.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(data)
        return response


@asynccontextmanager
async def serving(registry: ScriptedRegistry) -> AsyncIterator[ScriptedRegistry]:
    """Serve on 127.0.0.1 at a free port."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", registry.handle)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    registry.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield registry
    finally:
        registry.over.set()
        await runner.cleanup()


def status(code: int, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, headers=headers)

    return answer
