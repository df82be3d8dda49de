"""GET /v1/usage: what tasks had and used, by app, role or user, also of those that have ended."""

from __future__ import annotations

from aiohttp import web

from mesos_gpu.errors import BadInput
from mesos_gpu.marathon.definitions.timestamps import seconds_of
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.views.usage_views import BY, usage
from mesos_gpu.process.http import json_response

_WEEK_S = 7 * 86400


class UsageApi:
    """The handler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get("/v1/usage", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with hours of GPUs, CPUs and memory, and how busy they were, also of tasks that have ended."""
        by, since = request.query.get("by", BY[0]), request.query.get("since")
        if by not in BY:
            raise BadInput(f"by: one of {', '.join(BY)}, and it is {by!r}")
        now_s = self._scheduler.clock()
        try:
            since_s = now_s - _WEEK_S if since is None else max(0.0, seconds_of(since))
        except ValueError:
            raise BadInput(f"since: a time such as 2026-11-16T07:00:00.000Z, and it is {since!r}") from None
        found = usage(self._scheduler.state, since_s=since_s, now_s=now_s, by=by, app=request.query.get("app") or None)
        return json_response(found | {"notTold": sorted(set(self._scheduler.silent().values()))[:5]})
