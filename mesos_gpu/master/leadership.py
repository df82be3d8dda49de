"""One of several masters: who leads, and what a master that does not answers.

Source: Mesos src/master/http.cpp (redirect: 307 to the leader, 503 without one), docs/high-availability.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from mesos_gpu.mesos.leader import Leader
from mesos_gpu.process.http import error_response

log = logging.getLogger(__name__)

# What any master answers about itself, leading or not.
_OWN = frozenset({"health", "version", "flags", "metrics", "files", "logging", "system", "help"})
PATIENCE_S = 1.0
"""How long a request waits for a leader before it is refused: pymesos asks again at once, a thousand times a second."""


class Leadership:
    """Who leads, as far as this master knows. Without ZooKeeper it leads from the start, and always."""

    def __init__(self, master_id: str) -> None:
        self._id = master_id
        self.leading = self.elected = False
        self.leader: Leader | None = None
        self._known = asyncio.Event()

    def take(self) -> None:
        """Lead from now on."""
        self.leading = True
        self._known.set()

    def heard(self, leader: Leader | None) -> bool:
        """Take note of who leads; return whether that is this master."""
        self.leader = leader
        if leader is None:
            self._known.clear()
        else:
            self._known.set()
        self.elected = leader is not None and leader.info.get("id") == self._id
        return self.elected

    def middleware(self) -> Middleware:
        """Return what sends requests to the leader while that is another."""

        @web.middleware
        async def to_the_leader(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            parts = [part for part in request.path.split("/") if part]
            if parts[:1] == ["master"]:
                parts = parts[1:]
            if self.leading or (parts and parts[0] in _OWN):
                return await handler(request)
            return await self._redirect(request, bare=parts[:1] == ["redirect"])

        return to_the_leader

    async def _redirect(self, request: web.Request, *, bare: bool) -> web.Response:
        try:
            await asyncio.wait_for(self._known.wait(), PATIENCE_S)
        except asyncio.TimeoutError:
            return error_response(503, "No leader elected")
        if self.leader is None or self.elected:
            # It is us, and we lead once the registry is read; or it is gone again.
            return error_response(503, "Leader has not finished recovery")
        where = f"//{self.leader.hostname}:{self.leader.pid.port}"
        return web.Response(status=307, headers={"Location": where if bare else where + request.raw_path})
