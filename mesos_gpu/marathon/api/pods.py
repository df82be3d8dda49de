"""/v2/pods: the pods of this Marathon.

Source: Marathon api/v2/PodsResource.scala.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from mesos_gpu.errors import BadInput, InvalidApp, NotFound, Problem
from mesos_gpu.marathon.api.answers import BadJson, flag, read_body, read_object
from mesos_gpu.marathon.definitions.app import canonical_id
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import seconds_of
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.actions import Answer
from mesos_gpu.marathon.state.events import KillTasks, PutPod, RemoveApp
from mesos_gpu.marathon.views.pod_views import instance_view, pod_status, pod_view
from mesos_gpu.process.http import json_response


class PodsApi:
    """Handlers of /v2/pods."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; ids have slashes, so the longer paths come first."""
        one = "/v2/pods/{pod_id:.+}"
        return [
            web.head("/v2/pods", self.probe),
            web.get("/v2/pods", self.list_pods, allow_head=False),
            web.post("/v2/pods", self.create),
            web.get("/v2/pods/::status", self.list_status),
            web.get(f"{one}::status", self.show_status),
            web.get(f"{one}::versions", self.list_versions),
            web.get(f"{one}::versions/{{version:[^/]+}}", self.show_version),
            web.delete(f"{one}::instances", self.kill_many),
            web.delete(f"{one}::instances/{{instance_id:[^/]+}}", self.kill_one),
            web.get(one, self.show),
            web.put(one, self.update),
            web.delete(one, self.remove),
        ]

    async def probe(self, _: web.Request) -> web.Response:
        """Say that there are pods here."""
        return web.Response()

    async def list_pods(self, _: web.Request) -> web.Response:
        """Answer with all pods."""
        return json_response([pod_view(spec) for spec in self._scheduler.state.apps() if spec.is_pod])

    async def create(self, request: web.Request) -> web.Response:
        """Create a pod."""
        document = await read_object(request)
        answer = await self._put(request, document, create=True)
        pod_id = canonical_id(document["id"])
        response = self._shown(request, pod_id, answer, "pod_created_event", status=201)
        response.headers["Location"] = f"/v2/pods{pod_id}"
        return response

    async def update(self, request: web.Request) -> web.Response:
        """Change a pod to what a whole definition says; it must exist."""
        pod_id = self._spec(request).id
        document = await read_object(request)
        given = document.get("id", pod_id)
        if not isinstance(given, str) or canonical_id(given) != pod_id:
            raise BadInput(f"'{pod_id}' does not match definition's id ('{given}')")
        answer = await self._put(request, {**document, "id": pod_id}, create=False)
        return self._shown(request, pod_id, answer, "pod_updated_event", status=200)

    async def show(self, request: web.Request) -> web.Response:
        """Answer with one pod."""
        return json_response(pod_view(self._spec(request)))

    async def remove(self, request: web.Request) -> web.Response:
        """Remove a pod."""
        spec = self._spec(request)
        answer = await self._scheduler.ask(RemoveApp(spec.id, self._scheduler.new_id(), flag(request, "force")))
        self._publish(request, "pod_deleted_event")
        return web.Response(status=202, headers={"Marathon-Deployment-Id": answer.deployment_id if answer else ""})

    async def list_status(self, request: web.Request) -> web.Response:
        """Answer with how all pods are; with `embed=gpuCards` (ours) also with the whole GPUs of each instance."""
        state, moment, cards = self._scheduler.state, self._scheduler.moment(), self._with_cards(request)
        return json_response([pod_status(state, spec, moment, cards=cards) for spec in state.apps() if spec.is_pod])

    async def show_status(self, request: web.Request) -> web.Response:
        """Answer with how a pod is; with `embed=gpuCards` (ours) also with the whole GPUs of each instance."""
        state, moment, cards = self._scheduler.state, self._scheduler.moment(), self._with_cards(request)
        return json_response(pod_status(state, self._spec(request), moment, cards=cards))

    async def list_versions(self, request: web.Request) -> web.Response:
        """Answer with the versions of a pod, newest first."""
        versions = self._scheduler.state.versions[self._spec(request).id]
        return json_response([spec.version for spec in versions])

    async def show_version(self, request: web.Request) -> web.Response:
        """Answer with a pod as it was in one version."""
        pod_id, version = self._spec(request).id, request.match_info["version"]
        try:
            seconds_of(version)
        except ValueError:
            sentence = f"Invalid timestamp provided '{version}'. Expecting ISO-8601 datetime string."
            raise InvalidApp([Problem("/version", sentence, sentence)]) from None
        for spec in self._scheduler.state.versions[pod_id]:
            if spec.version == version:
                return json_response(pod_view(spec))
        raise NotFound(f"Pod '{pod_id}' does not exist in version {version}")

    async def kill_one(self, request: web.Request) -> web.Response:
        """End one instance of a pod."""
        spec, instance_id = self._spec(request), request.match_info["instance_id"]
        found = [i for i in self._scheduler.state.instances_of(spec.id) if i.id == instance_id]
        if not found:
            raise NotFound(f"Task '{instance_id}' does not exist")
        await self._kill(request, found)
        return json_response(instance_view(found[0]))

    async def kill_many(self, request: web.Request) -> web.Response:
        """End those of the given instances that the pod has."""
        spec, ids = self._spec(request), await read_body(request)
        if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
            raise BadJson("Please specify data in JSON format", "the body is not a JSON list of instance ids")
        found = [i for i in self._scheduler.state.instances_of(spec.id) if i.id in ids]
        await self._kill(request, found)
        return json_response([instance_view(instance) for instance in found])

    async def _kill(self, request: web.Request, chosen: list[Instance]) -> None:
        ids = [instance.id for instance in chosen]
        await self._scheduler.ask(KillTasks(ids, self._scheduler.new_id(), wipe=flag(request, "wipe")))

    async def _put(self, request: web.Request, document: dict[str, Any], *, create: bool) -> Answer | None:
        return await self._scheduler.ask(
            PutPod(document, self._scheduler.new_id(), flag(request, "force"), create=create)
        )

    def _shown(
        self, request: web.Request, pod_id: str, answer: Answer | None, event: str, *, status: int
    ) -> web.Response:
        spec = self._scheduler.state.app(pod_id)
        if answer is None or spec is None:
            raise NotFound(f"Pod '{pod_id}' does not exist")  # removed by another call within the same turn
        self._publish(request, event)
        response = json_response(pod_view(spec), status=status)
        response.headers["Marathon-Deployment-Id"] = answer.deployment_id
        return response

    @staticmethod
    def _with_cards(request: web.Request) -> bool:
        """Return whether whole GPUs are asked for: clients of Marathon refuse fields that they do not know."""
        return "gpuCards" in request.query.getall("embed", [])

    def _publish(self, request: web.Request, event: str) -> None:
        self._scheduler.bus.publish(event, {"clientIp": request.remote, "uri": request.path})

    def _spec(self, request: web.Request) -> RunSpec:
        text = request.match_info["pod_id"]
        try:
            spec = self._scheduler.state.app(canonical_id("/" + text.lstrip("/")))
        except InvalidApp:
            spec = None
        if spec is None or not spec.is_pod:
            raise NotFound(f"Pod '/{text.strip('/')}' does not exist")
        return spec
