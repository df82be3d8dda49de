"""POST /v1/why: the smallest change that would start an app that waits in order; for the page, too.

`agents` and `roles` are a master's /slaves and /roles where whoever asks has them; else the master is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from mesos_gpu.errors import BadInput, BadResources, NotFound
from mesos_gpu.marathon.api.answers import read_object
from mesos_gpu.marathon.api.mesos_door import credentials_of
from mesos_gpu.marathon.api.plan import PlanApi
from mesos_gpu.marathon.definitions.app_ids import canonical_id
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.rehearsal.advising import advise
from mesos_gpu.marathon.rehearsal.machines import headroom_of, limits_of, read_machine
from mesos_gpu.marathon.rehearsal.scene import Scene
from mesos_gpu.marathon.why.change import Change
from mesos_gpu.mesos.clients.agents import names, read_agent
from mesos_gpu.process.http import json_response

KEPT_S = 15.0
"""For so long an answer counts for a page, which asks every few seconds."""


class SmallestApi:
    """The handler. One change is looked for at a time: that is seconds of work on a large cluster."""

    def __init__(self, scheduler: Scheduler, plans: PlanApi) -> None:
        self._scheduler, self._plans = scheduler, plans
        self._turn = asyncio.Lock()
        self._kept: dict[str, tuple[float, Change | None]] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.post("/v1/why", self.change)]

    async def change(self, request: web.Request) -> web.Response:
        """Answer with the smallest change that would start an app that waits for a gang, or behind others; or null."""
        asked = await read_object(request)
        name = asked.get("id")
        if not isinstance(name, str) or not name:
            raise BadInput("id: the app that is asked about")
        app_id = canonical_id(name)
        if self._scheduler.state.app(app_id) is None:
            raise NotFound(f"there is no app or pod {app_id!r}")
        found = await self._found(app_id, asked, credentials_of(request))
        return json_response({"id": app_id, "change": None if found is None else found.document()})

    async def lately(self, app_id: str, credentials: str | None) -> Change | None:
        """Return the same, as it was found within the last seconds where it was. Raises Unavailable."""
        known = self._kept.get(app_id)
        if known is not None and time.monotonic() < known[0] + KEPT_S:
            return known[1]
        found = await self._found(app_id, {}, credentials)
        now_s = time.monotonic()
        self._kept = {name: entry for name, entry in self._kept.items() if now_s < entry[0] + KEPT_S}
        self._kept[app_id] = now_s, found
        return found

    async def _found(self, app_id: str, asked: Mapping[str, Any], credentials: str | None) -> Change | None:
        agents, roles = await self._plans.around(asked, credentials)
        try:
            machines = [read_machine(agent) for agent in agents]
            called = names([read_agent(agent) for agent in agents])
            headroom, limits = headroom_of(roles), limits_of(roles)
        except (BadResources, ValueError, TypeError, LookupError, AttributeError) as error:
            raise BadInput(
                f"agents and roles are a master's /slaves and /roles, and these are not: {error!r}"
            ) from None
        async with self._turn:
            state, moment = self._scheduler.state, self._scheduler.moment()
            scene = Scene(state, machines, self._scheduler.settings, moment, headroom, limits, called)
            return await asyncio.to_thread(advise, scene, app_id)
