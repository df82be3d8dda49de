"""What stands before every handler and after it: pages of other sites, too many requests at once, compressed answers.

Source: Marathon api/CORSFilter, api/LimitConcurrentRequestsFilter, and the GzipHandler of its HttpModule.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware
from msgspec import Struct

from mesos_gpu.process.http import error_response, json_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

COMPRESSED_FROM = 4096
"""Bytes from which on an answer is compressed."""
_STREAMS = ("/v2/events", "/ui/api/master/events")
_METHODS = "GET, HEAD, OPTIONS"
_DAY_S = 86400


class HttpSettings(Struct, frozen=True):
    """How the API speaks HTTP: the flags of these names."""

    credentials: str | None = None
    """user:password that every call must carry, None when everybody may call."""
    realm: str = "Mesosphere"
    login_hint: str | None = None
    """What callers without them are told beside the refusal."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may read from here; `*` for all."""
    compression: bool = True
    unknown_uri_status: int = 404
    """The status for a path that does not exist; Marathon's own is 500."""
    max_requests: int | None = None
    """Requests that are answered at a time; streams of events do not count."""
    proxy_connect_s: float = 5.0
    proxy_read_s: float = 10.0
    proxy_connections: int = 64
    leader_tls: ssl.SSLContext | None = None
    """The context for https connections to a leader that offers https; None: connections are http."""
    only_https: bool = False
    """Whether nothing is sent to the leader over http, which would show the caller's password to the network."""


def concurrency_limit(at_most: int) -> Middleware:
    """Return the middleware that refuses requests beyond this number at a time."""
    active = 0

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal active
        if request.path in _STREAMS or (request.path.startswith("/ui/api/") and request.path.endswith("/terminal")):
            return await handler(request)
        if active >= at_most:
            return error_response(503, f"Too many concurrent requests! Allowed: {at_most}.")
        active += 1
        try:
            return await handler(request)
        finally:
            active -= 1

    return middleware


@web.middleware
async def compression(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress large answers (gzip) for clients that can read them, on another thread."""
    answer = await handler(request)
    body = answer.body if isinstance(answer, web.Response) else None
    if not isinstance(answer, web.Response) or not isinstance(body, bytes) or len(body) < COMPRESSED_FROM:
        return answer
    answer.headers["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("Accept-Encoding", "").lower() and "Content-Encoding" not in answer.headers:
        answer.body = await asyncio.to_thread(gzip.compress, body, 1)
        answer.headers["Content-Encoding"] = "gzip"
    return answer


def cors(app: web.Application, origins: Sequence[str]) -> None:
    """Let pages of these origins read from `app` in a browser; they can change nothing.

    An answer names the origin that asked, since browsers take one alone (Marathon sends the last of several).
    """

    @web.middleware
    async def preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
        # A browser asks without credentials whether it may ask.
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return json_response({})
        return await handler(request)

    async def said(request: web.Request, response: web.StreamResponse) -> None:
        asking = request.headers.get("Origin")
        origin = "*" if "*" in origins else asking if asking in origins else None
        if origin is None:
            return
        response.headers["Access-Control-Allow-Origin"] = origin
        if origin != "*":
            response.headers.add("Vary", "Origin")
        response.headers["Access-Control-Allow-Methods"] = _METHODS
        response.headers["Access-Control-Max-Age"] = str(_DAY_S)
        if wanted := ", ".join(request.headers.getall("Access-Control-Request-Headers", [])):
            response.headers["Access-Control-Allow-Headers"] = wanted

    app.middlewares.append(preflight)
    app.on_response_prepare.append(said)
