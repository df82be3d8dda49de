"""/ui/api/tickets and /ui/api/session: a browser of this machine is let in by who may come in already.

`mesos-gpu ui` shows its credential and gets a ticket for its user; the page, opened with it in the fragment of its
address (which no browser sends to servers), exchanges it for a session. Whose browser that is the kernel says.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Middleware

from mesos_gpu.base.linux.peers import uid_of_peer
from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.api.answers import SESSION_KEY, read_object, refusal
from mesos_gpu.marathon.api.mesos_door import MESOS_CREDENTIALS, OF_SESSION
from mesos_gpu.marathon.api.page import ours
from mesos_gpu.marathon.api.proxy import VIA
from mesos_gpu.mesos.security.browser_logins import TICKET_S, BrowserLogins, Session
from mesos_gpu.process.http import json_response
from mesos_gpu.process.peers import ROOT

TICKETS, SESSION = "/ui/api/tickets", "/ui/api/session"
_BYTES = 32
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PeerOf = Callable[[web.Request], "int | None"]


def peer_of(request: web.Request) -> int | None:
    """Return the user whose program sends this request, None where this machine's kernel knows none.

    A standby that passes it on is not who asks.
    """
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    return None if connection is None or VIA in request.headers else uid_of_peer(connection)


class BrowsersApi:
    """The handlers, and who is known by a session."""

    def __init__(self, peer: PeerOf = peer_of, clock: Callable[[], float] = monotonic) -> None:
        self._logins, self._peer, self._clock = BrowserLogins(), peer, clock

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Only that of tickets is for who is known already."""
        return [
            web.post(TICKETS, ours(self.ticket)),
            web.post(SESSION, ours(self.begin)),
            web.delete(SESSION, ours(self.end)),
        ]

    def session(self, request: web.Request) -> Session | None:
        """Return the session that a request shows."""
        return self._logins.session(
            request.cookies.get(_cookie(request)), request.headers.get(SESSION_KEY), self._clock()
        )

    def knows(self, request: web.Request) -> bool:
        """Return whether a request needs no password: it shows a session, or a ticket for one."""
        return request.path == SESSION or OF_SESSION in request

    def middleware(self) -> Middleware:
        """Return what notes a request's session, with its credentials for Mesos, before passwords are looked at."""

        @web.middleware
        async def of_session(request: web.Request, handler: Handler) -> web.StreamResponse:
            if SESSION_KEY in request.headers and (session := self.session(request)) is not None:
                request[OF_SESSION] = session
            return await handler(request)

        return of_session

    async def ticket(self, request: web.Request) -> web.Response:
        """Answer with a ticket for the user who asks, or for another where root or this service's own user asks."""
        asked, asker = await read_object(request), self._peer(request)
        if asker is None:
            return refusal(403, "tickets are for browsers of this machine, and this request comes from elsewhere")
        uid = asked.get("uid", asker)
        if isinstance(uid, bool) or not isinstance(uid, int) or uid < 0:
            raise BadInput("uid must be the number of a user")
        if uid != asker and asker not in (ROOT, os.geteuid()):
            return refusal(403, f"user {asker} can have no ticket for user {uid}")
        token = secrets.token_urlsafe(_BYTES)
        self._logins.issue(token, uid=uid, mesos=request.headers.get(MESOS_CREDENTIALS), now_s=self._clock())
        return json_response({"ticket": token, "uid": uid, "seconds": TICKET_S})

    async def begin(self, request: web.Request) -> web.Response:
        """Exchange a ticket for a session: one half of it is in the answer, the other a cookie."""
        ticket = (await read_object(request)).get("ticket")
        cookie, key = secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES)
        uid = self._peer(request)
        if not isinstance(ticket, str) or not self._logins.redeem(
            ticket, uid=uid, cookie=cookie, key=key, now_s=self._clock()
        ):
            return refusal(403, "this way in has been used, or is over, or is another user's: `mesos-gpu ui` makes one")
        answer = json_response({"key": key})
        answer.set_cookie(_cookie(request), cookie, path="/", httponly=True, samesite="Strict", secure=request.secure)
        return answer

    async def end(self, request: web.Request) -> web.Response:
        """Forget the session that the request shows."""
        self._logins.end(*_halves(request))
        answer = web.Response(status=204)
        answer.del_cookie(_cookie(request), path="/", httponly=True, samesite="Strict", secure=request.secure)
        return answer


def _halves(request: web.Request) -> tuple[str | None, str | None]:
    return request.cookies.get(_cookie(request)), request.headers.get(SESSION_KEY)


def _cookie(request: web.Request) -> str:
    """Return the cookie's name: hosts share cookies among their ports, so each port has its own."""
    return f"mesos-gpu-{request.url.port}"
