"""/v2/leader: which Marathon leads, and ending its leadership.

Source: Marathon api/v2/LeaderResource.scala.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aiohttp import web

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.marathon.engine.election import Election
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.store.copy import back_up
from mesos_gpu.process.http import json_response


class LeaderApi:
    """Handlers of /v2/leader."""

    def __init__(self, scheduler: Scheduler, election: Election) -> None:
        self._scheduler, self._election = scheduler, election

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get("/v2/leader", self.show), web.delete("/v2/leader", self.abdicate)]

    async def show(self, _: web.Request) -> web.Response:
        """Answer with the leader's host:port."""
        if self._election.leader is None:
            raise NotFound("There is no leader")
        return json_response({"leader": self._election.leader})

    async def abdicate(self, request: web.Request) -> web.Response:
        """Let another lead: back up when asked to, then end this process."""
        if "restore" in request.query:
            raise BadInput("restore: stop every Marathon, and use `mesos-gpu-marathon-state copy BACKUP --zk's value`")
        if "backup" in request.query:
            path = _path(request.query["backup"])
            await asyncio.to_thread(back_up, self._scheduler.state.lasting, path)
        self._election.abdicate()
        return json_response({"message": "Leadership abdicated"})


def _path(uri: str) -> Path:
    parts = urlsplit(uri)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.is_absolute():
        raise BadInput(f"backup: '{uri}' is not a file:///absolute/path")
    return path
