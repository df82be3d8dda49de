"""Everything of the API beside apps: tasks, deployments, the queue, this Marathon itself, events.

Source: Marathon api/v2/TasksResource.scala, QueueResource.scala, InfoResource.scala, DeploymentsResource.scala.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from mesos_gpu.marathon.api.answers import BadJson, accepted_types, changed, flag, read_object
from mesos_gpu.marathon.decisions.blockers import blockers
from mesos_gpu.marathon.definitions.app import canonical_id
from mesos_gpu.marathon.engine.event_bus import Listener
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.events import CancelDeployment, KillTasks, ResetDelay
from mesos_gpu.marathon.views.views import deployment_view, queue_view, task_views
from mesos_gpu.process.http import EventStream, json_response

_JSON = ("json", "application/*", "*/*")
_SHOWN_AS = {"running": ("TASK_RUNNING",), "staging": ("TASK_STAGING",)}


class ClusterApi:
    """Handlers. `info` gives what /v2/info shows but for the framework id."""

    def __init__(self, scheduler: Scheduler, info: Callable[[], dict[str, Any]]) -> None:
        self._scheduler, self._info = scheduler, info

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/v2/tasks", self.list_tasks),
            web.post("/v2/tasks/delete", self.kill_tasks),
            web.get("/v2/deployments", self.list_deployments),
            web.delete("/v2/deployments/{deployment_id}", self.cancel_deployment),
            web.get("/v2/queue", self.show_queue),
            web.delete("/v2/queue/{app_id:.+}/delay", self.reset_delay),
            web.get("/v2/info", self.show_info),
            web.get("/v2/events", self.listen),
        ]

    async def list_tasks(self, request: web.Request) -> web.Response:
        """Answer with all tasks, or those of the asked status; with `embed=gpuCards` (ours) also their whole GPUs."""
        accepted = accepted_types(request, "*/*")
        if not any(kind in accepted for kind in _JSON):
            # Scripts used to ask for lines of text; told so, they do not take JSON for them.
            raise web.HTTPNotAcceptable
        state = self._scheduler.state
        asked = [*request.query.getall("status", []), *request.query.getall("status[]", [])]
        wanted = [name for status in asked for name in _SHOWN_AS.get(status, ())]
        # Only where it is asked for: clients of Marathon refuse fields that they do not know.
        cards = "gpuCards" in request.query.getall("embed", [])
        tasks = [
            task
            for i in state.instances.values()
            if run_of(i.app_id) is None
            for task in task_views([i], state.app(i.app_id), health=state.health, cards=cards)
        ]
        return json_response({"tasks": [task for task in tasks if not wanted or task["state"] in wanted]})

    async def kill_tasks(self, request: web.Request) -> web.Response:
        """End the tasks whose ids are given."""
        document = await read_object(request)
        ids = document.get("ids")
        if not isinstance(ids, list) or not all(isinstance(task_id, str) and instance_of(task_id) for task_id in ids):
            raise BadJson("Please specify data in JSON format", "`ids` must be a list of task ids")
        before = self._scheduler.state
        event = KillTasks(
            ids,
            self._scheduler.new_id(),
            scale=flag(request, "scale"),
            wipe=flag(request, "wipe"),
            force=flag(request, "force"),
        )
        answer = await self._scheduler.ask(event)
        if event.scale:
            return changed(answer)
        ended = answer.task_ids if answer is not None else ()
        found = [i for i in before.lasting.instances.values() if i.shown_task_id in ended]
        return json_response({"tasks": [task for i in found for task in task_views([i], before.app(i.app_id))]})

    async def list_deployments(self, request: web.Request) -> web.Response:
        """Answer with the deployments under way; with `embed=blockers` (ours) also what blocks them."""
        state = self._scheduler.state
        deployments = state.deployments.values()
        ask_blockers = "blockers" in request.query.getall("embed", [])

        def extra(deployment: Deployment) -> dict[str, Any]:
            return {"blockers": blockers(state, deployment)} if ask_blockers else {}

        return json_response([{**deployment_view(state, d), **extra(d)} for d in deployments])

    async def cancel_deployment(self, request: web.Request) -> web.Response:
        """Stop a deployment, and unless forced restore its apps as they were."""
        force = flag(request, "force")
        event = CancelDeployment(request.match_info["deployment_id"], self._scheduler.new_id(), force)
        answer = await self._scheduler.ask(event)
        return web.Response(status=202) if force else changed(answer)

    async def show_queue(self, request: web.Request) -> web.Response:
        """Answer with the apps that wait for offers, and why."""
        last_offers = "lastUnusedOffers" in request.query.getall("embed", [])
        queue = queue_view(self._scheduler.state, self._scheduler.moment(), last_offers=last_offers)
        return json_response({"queue": queue})

    async def reset_delay(self, request: web.Request) -> web.Response:
        """Let an app start at once in spite of its backoff."""
        await self._scheduler.ask(ResetDelay(canonical_id(request.match_info["app_id"])))
        return web.Response(status=204)

    async def show_info(self, _: web.Request) -> web.Response:
        """Answer with this Marathon's configuration."""
        return json_response({**self._info(), "frameworkId": self._scheduler.state.framework_id})

    async def listen(self, request: web.Request) -> web.StreamResponse:
        """Send events for as long as the client listens."""
        if "text/event-stream" not in accepted_types(request):
            raise web.HTTPMethodNotAllowed(request.method, [])
        headers = {"Cache-Control": "no-cache"}
        stream = await EventStream.open(request, headers, content_type="text/event-stream", together=True)
        listener = Listener(stream.send_raw, frozenset(request.query.getall("event_type", [])))
        bus = self._scheduler.bus
        bus.add(listener)
        self._scheduler.metrics.listeners += 1
        try:
            bus.publish("event_stream_attached", {"remoteAddress": request.remote})
            await stream.closed()
        finally:
            bus.remove(listener)
            self._scheduler.metrics.listeners -= 1
            bus.publish("event_stream_detached", {"remoteAddress": request.remote})
        return stream.response
