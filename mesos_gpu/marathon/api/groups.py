"""/v2/groups: trees of apps.

Source: Marathon api/v2/GroupsResource.scala.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from aiohttp import web

from mesos_gpu.errors import InvalidApp, NotFound, Problem
from mesos_gpu.marathon.api.answers import changed, flag, read_object
from mesos_gpu.marathon.definitions.app import canonical_id
from mesos_gpu.marathon.definitions.timestamps import seconds_of
from mesos_gpu.marathon.engine.scheduler import Scheduler
from mesos_gpu.marathon.model.groups import ROOT, Root
from mesos_gpu.marathon.state.events import EnforceRole, PutGroup, RemoveGroup
from mesos_gpu.marathon.views.group_views import group_apps, group_embeds, group_view
from mesos_gpu.marathon.views.tree import apps_at, current_root, versions_of
from mesos_gpu.marathon.views.views import steps_view
from mesos_gpu.process.http import json_response

# What may stand behind a group's id, or alone for the root. Source: Marathon GroupsResource.
_APPS = re.compile(r"(?:(?P<id>.+)/)?apps")
_VERSIONS = re.compile(r"(?:(?P<id>.+)/)?versions")
_VERSION = re.compile(r"(?:(?P<id>.+)/)?versions/(?P<version>[^/]+)")


class GroupsApi:
    """Handlers of /v2/groups."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, each with and without an id: without, the root is meant."""
        one = "/v2/groups/{group_id:.*}"
        return [
            route(path, handler)
            for path in ("/v2/groups", one)
            for route, handler in (
                (web.get, self.show),
                (web.post, self.create),
                (web.put, self.put),
                (web.patch, self.patch),
                (web.delete, self.remove),
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with a group, its apps, its versions, or one of its versions."""
        path = request.match_info.get("group_id", "").strip("/")
        asked = group_embeds(request.query.getall("embed", []))
        if found := _APPS.fullmatch(path):
            self._existing(group_id := _group_id(found["id"]))
            moment = self._scheduler.moment()
            return json_response(group_apps(self._scheduler.state, group_id, asked, moment))
        if found := _VERSIONS.fullmatch(path):
            self._existing(group_id := _group_id(found["id"]))
            return json_response(versions_of(self._scheduler.state, group_id))
        if found := _VERSION.fullmatch(path):
            return self._shown_version(_group_id(found["id"]), found["version"], asked)
        group_id = _group_id(path)
        root = self._existing(group_id)
        state = self._scheduler.state
        apps = {spec.id: spec for spec in state.apps()}
        return json_response(group_view(state, root, apps, group_id, asked, self._scheduler.moment()))

    async def create(self, request: web.Request) -> web.Response:
        """Create a group with what is in it."""
        event = await self._update(request, create=True)
        response = changed(await self._scheduler.ask(event), status=201)
        response.headers["Location"] = event.group_id
        return response

    async def put(self, request: web.Request) -> web.Response:
        """Create or change a group; with dryRun only answer what would be done."""
        event = await self._update(request, create=None)
        if flag(request, "dryRun"):
            answer = self._scheduler.preview(event)
            return json_response({"steps": steps_view(answer.deployment) if answer.deployment is not None else []})
        return changed(await self._scheduler.ask(event))

    async def patch(self, request: web.Request) -> web.Response:
        """Say whether the apps of a top-level group must have its role."""
        group_id = _group_id(request.match_info.get("group_id"))
        self._existing(group_id)
        document = await read_object(request)
        wanted = document.get("enforceRole")
        if set(document) != {"enforceRole"} or not isinstance(wanted, bool):
            sentence = "only enforceRole, true or false, can be changed with PATCH"
            raise InvalidApp([Problem("/enforceRole", sentence, sentence, "use PUT for the rest")])
        await self._scheduler.ask(EnforceRole(group_id, self._scheduler.new_id(), wanted))
        return web.Response()

    async def remove(self, request: web.Request) -> web.Response:
        """Remove a group and everything in it; of the root, everything in it."""
        group_id = _group_id(request.match_info.get("group_id"))
        self._existing(group_id)
        event = RemoveGroup(group_id, self._scheduler.new_id(), flag(request, "force"))
        return changed(await self._scheduler.ask(event))

    async def _update(self, request: web.Request, *, create: bool | None) -> PutGroup:
        document = await read_object(request)
        base = _canonical(request.match_info.get("group_id") or ROOT)
        given = document.get("id")
        group_id = canonical_id(given, base) if isinstance(given, str) else base
        if group_id != base and isinstance(given, str) and canonical_id(given) == base:
            group_id = base  # `PUT /v2/groups/a {"id": "a"}`: the id once more, not a group within
        return PutGroup(group_id, document, self._scheduler.new_id(), flag(request, "force"), create=create)

    def _existing(self, group_id: str) -> Root:
        root = current_root(self._scheduler.state)
        if group_id != ROOT and group_id not in root.groups:
            raise NotFound(f"Group '{group_id}' does not exist")
        return root

    def _shown_version(self, group_id: str, version: str, asked: Collection[str]) -> web.Response:
        try:
            seconds_of(version)
        except ValueError:
            sentence = f"Invalid timestamp provided '{version}'. Expecting ISO-8601 datetime string."
            raise InvalidApp([Problem("/version", sentence, sentence)]) from None
        state = self._scheduler.state
        root = next((root for root in state.roots if root.version == version), None)
        apps = apps_at(state.versions, version, self._scheduler.settings.max_versions)
        if root is None or apps is None or not (group_id == ROOT or group_id in root.groups):
            raise NotFound(f"Group '{group_id}' does not exist in version {version}")
        plain = frozenset(asked) & {"groups", "apps", "pods"}
        return json_response(group_view(state, root, apps, group_id, plain, self._scheduler.moment()))


def _canonical(text: str) -> str:
    return canonical_id("/" + text.strip("/"))


def _group_id(text: str | None) -> str:
    """Return the id of a group in a path. Raises NotFound for what cannot be one."""
    try:
        return _canonical(text or ROOT)
    except InvalidApp:
        raise NotFound(f"Group '/{text}' does not exist") from None
