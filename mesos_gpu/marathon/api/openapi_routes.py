"""/v2/openapi.json: what this API is, for programs."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from aiohttp import web

from mesos_gpu.marathon.api.openapi import Route, document
from mesos_gpu.process.http import json_response

API_VERSION = "1.11.0"
"""The Marathon whose API this is."""


class OpenApi:
    """The handler of /v2/openapi.json."""

    def routes(self) -> list[web.RouteDef]:
        """Return the route."""
        return [web.get("/v2/openapi.json", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with this document."""
        return json_response(describe(request.app))


def describe(app: web.Application) -> dict[str, Any]:
    """Return the OpenAPI document of an application with all its routes."""
    return document(routes_of(app), _schemas(), version=API_VERSION)


def routes_of(app: web.Application) -> list[Route]:
    """Return every route of the API; a HEAD that only came along with its GET is left out, and so are twins ending in
    a slash, and what is the page's own."""
    routes = [
        route
        for route in app.router.routes()
        if route.resource is not None
        and not route.resource.canonical.endswith("/")
        and not f"{route.resource.canonical}/".startswith("/ui/")
    ]
    handlers = {(route.resource, route.handler) for route in routes if route.method == "GET"}
    return [
        Route(route.method, route.resource.canonical, (route.handler.__doc__ or "").split("\n")[0])
        for route in routes
        if route.resource is not None and (route.method != "HEAD" or (route.resource, route.handler) not in handlers)
    ]


@cache
def _schemas() -> dict[str, Any]:
    """Return the schemas of what users write; those that are not there in this installation are left out."""
    folder = files("mesos_gpu.schemas")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".json"))
    return {name.removesuffix(".json").title(): json.loads((folder / name).read_text("utf-8")) for name in names}
