"""/v2/apps: the apps of this Marathon.

Source: Marathon api/v2/AppsResource.scala, api/v2/AppTasksResource.scala.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from mesos_gpu.errors import InvalidApp, NotFound, Problem
from mesos_gpu.marathon.api.answers import changed, flag, read_list, read_object
from mesos_gpu.marathon.definitions.app import canonical_id
from mesos_gpu.marathon.definitions.label_selector import parse_selector, selects
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import seconds_of
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.actions import Answer
from mesos_gpu.marathon.state.events import KillTasks, PutApps, RemoveApp, RestartApp
from mesos_gpu.marathon.views.views import app_view, embeds, task_views
from mesos_gpu.process.http import json_response

_ALWAYS = ("counts", "deployments")
_ONE = ("counts", "deployments", "tasks", "lastTaskFailure")


class AppsApi:
    """Handlers of /v2/apps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; ids have slashes, so the longer paths come first."""
        one = "/v2/apps/{app_id:.+}"
        return [
            web.get("/v2/apps", self.list_apps),
            web.post("/v2/apps", self.create),
            web.put("/v2/apps", self.put_many),
            web.patch("/v2/apps", self.patch_many),
            web.get(f"{one}/tasks", self.list_tasks),
            web.delete(f"{one}/tasks", self.kill_all),
            web.delete(f"{one}/tasks/{{task_id:[^/]+}}", self.kill_one),
            web.post(f"{one}/restart", self.restart),
            web.get(f"{one}/versions", self.list_versions),
            web.get(f"{one}/versions/{{version:[^/]+}}", self.show_version),
            web.get(one, self.show),
            web.put(one, self.put_one),
            web.patch(one, self.patch_one),
            web.delete(one, self.remove),
        ]

    async def list_apps(self, request: web.Request) -> web.Response:
        """Answer with the apps that the query selects."""
        state, query = self._scheduler.state, request.query
        terms = parse_selector(query.get("label", ""))
        asked = {*_ALWAYS, *embeds(query.getall("embed", []))}
        moment = self._scheduler.moment()
        apps = [
            app_view(state, spec, asked, moment)
            for spec in state.apps()
            if not spec.is_pod
            and query.get("id", "") in spec.id
            and query.get("cmd", "").lower() in str(spec.document.get("cmd") or "").lower()
            and selects(terms, spec.document["labels"])
        ]
        return json_response({"apps": apps})

    async def create(self, request: web.Request) -> web.Response:
        """Create an app."""
        document = await read_object(request)
        event = PutApps([document], self._scheduler.new_id(), flag(request, "force"), create=True, partial=False)
        answer = await self._scheduler.ask(event)
        app_id = canonical_id(document["id"])
        self._published(request, app_id)
        spec = self._scheduler.state.app(app_id)
        if answer is None or spec is None:
            raise NotFound(f"App '{app_id}' does not exist")  # removed by another call within the same turn
        shown = app_view(self._scheduler.state, spec)
        # As Marathon shows it: the deployment is there, and nothing of what it does.
        counts = dict.fromkeys(("tasksStaged", "tasksRunning", "tasksHealthy", "tasksUnhealthy"), 0)
        shown |= {**counts, "deployments": [{"id": answer.deployment_id}]}
        response = json_response(shown, status=201)
        response.headers["Location"] = app_id
        response.headers["Marathon-Deployment-Id"] = answer.deployment_id
        return response

    async def put_many(self, request: web.Request) -> web.Response:
        """Create or change several apps in one deployment."""
        return await self._put_many(request, create=None, partial=flag(request, "partialUpdate", default=True))

    async def patch_many(self, request: web.Request) -> web.Response:
        """Change several apps in one deployment; each must exist."""
        return await self._put_many(request, create=False, partial=True)

    async def put_one(self, request: web.Request) -> web.Response:
        """Create or change an app."""
        return await self._put_one(request, create=None, partial=flag(request, "partialUpdate", default=True))

    async def patch_one(self, request: web.Request) -> web.Response:
        """Change an app; it must exist."""
        return await self._put_one(request, create=False, partial=True)

    async def show(self, request: web.Request) -> web.Response:
        """Answer with one app, or with all of a group for `{group}/*`."""
        state = self._scheduler.state
        if request.match_info["app_id"].endswith("*"):
            asked = {*_ALWAYS, *embeds(request.query.getall("embed", []))}
            moment = self._scheduler.moment()
            return json_response({"*": [app_view(state, spec, asked, moment) for spec in self._group(request)]})
        asked = {*_ONE, *embeds(request.query.getall("embed", []))}
        return json_response({"app": app_view(state, self._spec(request), asked, self._scheduler.moment())})

    async def remove(self, request: web.Request) -> web.Response:
        """Remove an app."""
        event = RemoveApp(self._spec(request).id, self._scheduler.new_id(), flag(request, "force", default=True))
        return changed(await self._scheduler.ask(event))

    async def restart(self, request: web.Request) -> web.Response:
        """Replace every instance of an app."""
        event = RestartApp(self._spec(request).id, self._scheduler.new_id(), flag(request, "force"))
        return changed(await self._scheduler.ask(event))

    async def list_tasks(self, request: web.Request) -> web.Response:
        """Answer with the tasks of an app, or of a group for `{group}/*`."""
        whole_group = request.match_info["app_id"].endswith("*")
        specs = self._group(request) if whole_group else [self._spec(request)]
        return json_response({"tasks": [t for spec in specs for t in self._tasks(spec)]})

    def _tasks(self, spec: RunSpec) -> list[dict[str, Any]]:
        state = self._scheduler.state
        return task_views(state.instances_of(spec.id), spec, health=state.health)

    async def kill_all(self, request: web.Request) -> web.Response:
        """End the tasks of an app, or those on one host."""
        spec, host, wipe = self._spec(request), request.query.get("host", "*"), flag(request, "wipe")
        chosen = [
            i
            for i in self._scheduler.state.instances_of(spec.id)
            if host in ("*", "", i.host) and ((i.wanted and i.task is not None) or (wipe and i.host is not None))
        ]
        answer = await self._kill(request, chosen)
        if flag(request, "scale") and chosen:
            return changed(answer)
        return json_response({"tasks": task_views(chosen, spec)})

    async def kill_one(self, request: web.Request) -> web.Response:
        """End one task of an app."""
        spec, task_id = self._spec(request), request.match_info["task_id"]
        for instance in self._scheduler.state.instances_of(spec.id):
            if instance.shown_task_id is not None and task_id in (instance.shown_task_id, instance.id):
                (task,) = task_views([instance], spec)
                answer = await self._kill(request, [instance])
                return changed(answer) if flag(request, "scale") else json_response({"task": task})
        raise NotFound(f"Task '{task_id}' does not exist")

    async def list_versions(self, request: web.Request) -> web.Response:
        """Answer with the versions of an app, newest first."""
        versions = self._scheduler.state.versions[self._spec(request).id]
        return json_response({"versions": [spec.version for spec in versions]})

    async def show_version(self, request: web.Request) -> web.Response:
        """Answer with an app as it was in one version."""
        app_id, version = self._spec(request).id, request.match_info["version"]
        try:
            seconds_of(version)
        except ValueError:
            sentence = f"Invalid timestamp provided '{version}'. Expecting ISO-8601 datetime string."
            raise InvalidApp([Problem("/version", sentence, sentence)]) from None
        for spec in self._scheduler.state.versions[app_id]:
            if spec.version == version:
                return json_response(spec.document)
        raise NotFound(f"App '{app_id}' does not exist in version {version}")

    async def _put_many(self, request: web.Request, *, create: bool | None, partial: bool) -> web.Response:
        documents = await read_list(request)
        event = PutApps(documents, self._scheduler.new_id(), flag(request, "force"), create=create, partial=partial)
        return changed(await self._scheduler.ask(event))

    async def _put_one(self, request: web.Request, *, create: bool | None, partial: bool) -> web.Response:
        app_id = canonical_id(request.match_info["app_id"])
        document = {**await read_object(request), "id": app_id}
        existed = self._scheduler.state.app(app_id) is not None
        event = PutApps([document], self._scheduler.new_id(), flag(request, "force"), create=create, partial=partial)
        answer = await self._scheduler.ask(event)
        self._published(request, app_id)
        response = changed(answer, status=200 if existed else 201)
        if not existed:
            response.headers["Location"] = app_id
        return response

    async def _kill(self, request: web.Request, chosen: list[Instance]) -> Answer | None:
        return await self._scheduler.ask(
            KillTasks(
                [i.task.id if i.task is not None else i.id for i in chosen],
                self._scheduler.new_id(),
                scale=flag(request, "scale"),
                wipe=flag(request, "wipe"),
                force=flag(request, "force"),
            )
        )

    def _spec(self, request: web.Request) -> RunSpec:
        text = request.match_info["app_id"]
        try:
            spec = self._scheduler.state.app(canonical_id(text))
        except InvalidApp:
            spec = None
        if spec is None or spec.is_pod:
            raise NotFound(f"App '/{text.strip('/')}' does not exist")
        return spec

    def _group(self, request: web.Request) -> list[RunSpec]:
        prefix = canonical_id(request.match_info["app_id"].rstrip("*").rstrip("/") or "/").rstrip("/") + "/"
        apps = [spec for spec in self._scheduler.state.apps() if not spec.is_pod]
        found = [spec for spec in apps if spec.id.startswith(prefix)]
        if not found and prefix != "/":
            raise NotFound(f"Group '{prefix.rstrip('/')}' does not exist")
        return found

    def _published(self, request: web.Request, app_id: str) -> None:
        spec = self._scheduler.state.app(app_id)
        definition: Any = dict(spec.document) if spec else {"id": app_id}
        fields = {"clientIp": request.remote, "uri": request.path, "appDefinition": definition}
        self._scheduler.bus.publish("api_post_event", fields)
