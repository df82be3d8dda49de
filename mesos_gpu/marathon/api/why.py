"""/ui/api/why: what `mesos-gpu why` says of an app or pod, from the same code and the same facts; and POST /v1/why: the
smallest change that would start what waits in order, for the command line and the page.

The rules that hold an app against agents are the command line's (`mesos_gpu.marathon.why`, pure); here its facts come
from this Marathon's own state, and from the master and agents.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from mesos_gpu.errors import BadInput, BadResources, MesosGpuError, NotFound
from mesos_gpu.marathon.api.answers import read_object
from mesos_gpu.marathon.api.mesos_door import MesosDoor, credentials_of
from mesos_gpu.marathon.api.plan import PlanApi
from mesos_gpu.marathon.decisions.blockers import blockers
from mesos_gpu.marathon.definitions.app_ids import canonical_id
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.matching.machines import Machine, headroom_of, limits_of, read_machines
from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.simulation.scenario import Scenario
from mesos_gpu.marathon.simulation.smallest_change import advise
from mesos_gpu.marathon.views.pod_views import pod_status
from mesos_gpu.marathon.views.views import app_view, deployment_view, queue_view
from mesos_gpu.marathon.why.answer import answer
from mesos_gpu.marathon.why.change import Change
from mesos_gpu.marathon.why.facts import Judging, Situation, of_app
from mesos_gpu.marathon.why.failure import pod_document
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.mesos.clients.agents import tasks_in
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
            machines = read_machines(agents)
            headroom, limits = headroom_of(roles), limits_of(roles)
        except (BadResources, ValueError, TypeError, LookupError, AttributeError) as error:
            raise BadInput(
                f"agents and roles are a master's /slaves and /roles, and these are not: {error!r}"
            ) from None
        async with self._turn:
            state, moment = self._scheduler.state, self._scheduler.moment()
            scenario = Scenario(state, machines, self._scheduler.settings, moment, headroom, limits)
            return await asyncio.to_thread(advise, scenario, app_id)


class WhyApi:
    """The handler. `info` is what /v2/info shows."""

    def __init__(
        self, scheduler: Scheduler, door: MesosDoor, info: Callable[[], Mapping[str, Any]], smallest: SmallestApi
    ) -> None:
        self._scheduler, self._door, self._info, self._smallest = scheduler, door, info, smallest

    async def show(self, request: web.Request) -> web.Response:
        """Answer with why an app runs or not, agent by agent, and what would help."""
        app_id = canonical_id(request.match_info["app_id"])
        situation = await self._situation(app_id, credentials_of(request))
        return json_response({**answer(situation).document(), "agentsKnown": situation.agents_known})

    async def _situation(self, app_id: str, credentials: str | None) -> Situation:
        state, moment = self._scheduler.state, self._scheduler.moment()
        spec = state.app(app_id)
        if spec is None:
            raise NotFound(f"App '{app_id}' does not exist")
        queue = queue_view(state, moment, last_offers=True)
        queued = next((item for item in queue if (item.get("app") or item.get("pod") or {}).get("id") == app_id), None)
        document: dict[str, Any]
        if spec.is_pod:
            document = pod_document(spec.document, pod_status(state, spec, moment, cards=True))
        else:
            document = app_view(state, spec, {"counts", "deployments", "tasks", "lastTaskFailure", "gpuCards"}, moment)
        request = Request(spec, app_id, deploying=bool(state.deployments_of(app_id)))
        deployments = [
            {**deployment_view(state, d), "blockers": blockers(state, d)} for d in state.deployments.values()
        ]
        known = of_app(document, request, queued, deployments)
        known["takes_gpu_offers"] = "gpu_resources" in (self._info()["marathon_config"].get("features") or ())
        if queued is None and spec.largest_share is None:
            return Situation(**known)
        try:
            agents, roles = await asyncio.gather(self.agents(credentials), self._roles(credentials))
        except MesosGpuError:
            return Situation(**known, agents_known=False)
        if queued is None:
            return Situation(**known, agents=agents, roles=roles)
        judging = Judging.of(document, request, self.rules(), agents)
        apps: dict[str, str] = {
            i.shown_task_id: i.app_id for i in state.instances.values() if i.shown_task_id is not None
        }
        full = judging.full()
        for agent, tasks in zip(
            full, await asyncio.gather(*(self._tasks(a.id, credentials) for a in full)), strict=True
        ):
            judging.hold(agent, tasks, apps)
        try:
            change = await self._smallest.lately(app_id, credentials) if "order" in queued else None
        except MesosGpuError:
            change = None
        return Situation(**known, **judging.fields(), roles=roles, ordered_change=change)

    def rules(self) -> Rules:
        """Return how this Marathon matches offers."""
        settings, region = self._scheduler.settings, self._scheduler.state.region
        return Rules(settings.gpu_behaviour, settings.roles_behaviour, region, knows_region=True)

    async def agents(self, credentials: str | None) -> list[Machine]:
        """Return all agents, as the user of these credentials may see them. Raises Unavailable."""
        shown = await self._door.ask(self._door.master("slaves"), credentials)
        found = await asyncio.gather(*(self._exact(document, credentials) for document in shown.get("slaves") or []))
        return read_machines(found)

    async def _exact(self, document: dict[str, Any], credentials: str | None) -> dict[str, Any]:
        """Return an agent with what is used of each role: masters of Mesos show it when asked for one agent alone."""
        if not document.get("reserved_resources") or "used_resources_full" in document:
            return document
        query = {"slave_id": str(document.get("id"))}
        alone = (await self._door.ask(self._door.master("slaves"), credentials, query)).get("slaves") or []
        return alone[0] if len(alone) == 1 else document

    async def _roles(self, credentials: str | None) -> list[dict[str, Any]]:
        roles = (await self._door.ask(self._door.master("roles"), credentials)).get("roles")
        return [role for role in roles or [] if isinstance(role, dict)]

    async def _tasks(self, agent_id: str, credentials: str | None) -> list[dict[str, Any]]:
        """Return the tasks on an agent; none of one that does not answer."""
        try:
            return tasks_in(await self._door.ask(await self._door.agent(agent_id, "state", credentials), credentials))
        except MesosGpuError:
            return []
