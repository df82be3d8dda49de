"""A standby Marathon passes every request on to the leader, and redirects listeners to it.

Source: Marathon api/LeaderProxyFilter.scala and its forwarder: /v2/events is redirected, a request that comes
while nobody is known to lead waits for 2.5 s, and one that went in a circle is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware
from multidict import CIMultiDict, CIMultiDictProxy

from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.process.bodies import read_body
from mesos_gpu.process.http import error_response

log = logging.getLogger(__name__)

PATIENCE_S = 2.5
VIA = "X-Marathon-Via"
_EVENTS = "/v2/events"
_PAGE = ("/ui", "/ui/")
# What concerns one connection and not the request (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade", "host"}
    | {"transfer-encoding", "content-length"}
)


class LeaderProxy:
    """Stands before the API; `close` ends its connections."""

    def __init__(self, election: Election, http: HttpSettings) -> None:
        self._election, self._http = election, http
        self._session: aiohttp.ClientSession | None = None

    def middleware(self) -> Middleware:
        """Return what must come before every other middleware: the leader decides who may call."""

        @web.middleware
        async def to_the_leader(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            election = self._election
            if not election.leading and not await election.settled(PATIENCE_S):
                return error_response(502, "Could not determine the current leader")
            if election.leading or election.leader is None:
                return await handler(request)
            if self._http.only_https and not self._secure:
                words = f"The leader {election.leader} has no https, and --disable_http allows nothing else"
                return error_response(502, words)
            if request.path.startswith(_EVENTS):
                url = f"{self._url(election.leader)}{request.raw_path}"
                return web.Response(status=302, headers={"Location": url})
            if request.path in _PAGE:
                # A page asks its own server alone, and streams of events are the leader's.
                return web.Response(status=302, headers={"Location": f"{self._url(election.leader)}/ui/"})
            return await self._forwarded(request, election.leader)

        return to_the_leader

    async def close(self) -> None:
        """End the connections to the leader."""
        if self._session is not None:
            await self._session.close()

    def _url(self, leader: str) -> str:
        """Return the leader's URL: https if both have it."""
        return f"https://{self._election.leader_https}" if self._secure else f"http://{leader}"

    @property
    def _secure(self) -> bool:
        return self._election.leader_https is not None and self._http.leader_tls is not None

    async def _forwarded(self, request: web.Request, leader: str) -> web.StreamResponse:
        own = self._election.address
        if own in [via.strip() for via in ",".join(request.headers.getall(VIA, [])).split(",")]:
            return error_response(502, "Detected proxying loop.")
        headers = _passed_on(request.headers)
        headers.popall("Origin", None)  # this Marathon has looked at it, and the leader has another name
        headers.add(VIA, own)
        try:
            async with self._connections().request(
                request.method,
                f"{self._url(leader)}{request.raw_path}",
                headers=headers,
                data=await read_body(request) if request.can_read_body else None,
                allow_redirects=False,
            ) as answer:
                response = web.StreamResponse(status=answer.status, reason=answer.reason)
                response.headers.extend(_passed_on(answer.headers))
                response.headers.add(VIA, own)
                if answer.content_length is not None:
                    response.content_length = answer.content_length
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except asyncio.TimeoutError:
            return error_response(504, f"Connection to leader {leader} timed out.")
        except aiohttp.ClientError as error:
            log.warning("%s %s did not reach the leader %s: %s", request.method, request.path, leader, error)
            return error_response(502, f"Connection to leader {leader} failed: {error}")

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=self._http.proxy_connections, ssl=self._http.leader_tls or True),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._http.proxy_connect_s, sock_read=self._http.proxy_read_s
                ),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    kept = [(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | named]
    return CIMultiDict(kept)
