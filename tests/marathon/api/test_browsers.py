"""A browser of this machine is let in by a ticket that its user's command line got for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import CookieJar, web

from mesos_gpu.marathon.api.answers import authentication_and_errors
from mesos_gpu.marathon.api.browsers import BrowsersApi
from mesos_gpu.marathon.api.gate import HttpSettings
from mesos_gpu.marathon.api.mesos_door import credentials_of
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.http import json_response, make_app
from tests.support.golden import Golden
from tests.support.marathon.service import Marathon

OURS = {"X-Requested-By": "mesos-gpu-ui"}
ROOT, ME, OTHER = 0, 1000, 1001
PASSWORD = {"Authorization": "Basic dXNlcjpwYXNz"}


class Site:
    """A server with these routes alone, asked by whom `who` says."""

    def __init__(self) -> None:
        self.who: int | None = ME
        self.now_s = 0.0
        self.http: Any = None
        self.port = 0

    def app(self) -> web.Application:
        api = BrowsersApi(peer=lambda request: self.who, clock=lambda: self.now_s)
        app = make_app()
        app.middlewares.append(api.middleware())
        settings = HttpSettings(credentials="user:pass", realm="here")
        app.middlewares.append(authentication_and_errors(lambda: "", settings, api.knows))
        app.add_routes(api.routes())

        async def shown(request: web.Request) -> web.Response:
            return json_response({"mesos": credentials_of(request)})

        app.add_routes([web.get("/v2/apps", shown), web.post("/v2/apps", shown)])
        return app

    async def ask(self, method: str, path: str, document: Any = None, **headers: str) -> Any:
        sent = {**OURS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.http.request(
            method, f"http://localhost:{self.port}{path}", json=document, headers=sent
        ) as answer:
            body = await answer.json() if "json" in answer.headers.get("Content-Type", "") else None
            return answer.status, body, answer.headers

    async def ticket(self, **more: Any) -> str:
        status, body, _ = await self.ask("POST", "/ui/api/tickets", more, **PASSWORD, X_Mesos_Authorization="Basic m")
        assert status == 200, body
        return str(body["ticket"])


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    endpoint = Endpoint("127.0.0.1", 0)
    await endpoint.start(found.app())
    found.port = endpoint.port
    async with aiohttp.ClientSession(cookie_jar=CookieJar(unsafe=True)) as found.http:
        yield found
    await endpoint.stop()


async def test_a_ticket_lets_in_once_and_then_the_cookie_and_the_key_do(site: Site) -> None:
    ticket = await site.ticket()
    status, body, headers = await site.ask("POST", "/ui/api/session", {"ticket": ticket})
    cookie = headers["Set-Cookie"]
    assert (status, list(body)) == (200, ["key"])
    assert cookie.startswith(f"mesos-gpu-{site.port}=")
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert "Max-Age" not in cookie
    assert body["key"] not in cookie
    status, shown, _ = await site.ask("GET", "/v2/apps", X_Session_Key=body["key"])
    assert (status, shown) == (200, {"mesos": "Basic m"})
    assert (await site.ask("POST", "/ui/api/session", {"ticket": ticket}))[0] == 403
    assert (await site.ask("DELETE", "/ui/api/session", X_Session_Key=body["key"]))[0] == 204
    status, _, headers = await site.ask("GET", "/v2/apps", X_Session_Key=body["key"])
    assert (status, headers["WWW-Authenticate"]) == (401, 'Session realm="here"')


async def test_the_cookie_alone_is_nothing_as_every_port_of_the_host_gets_it(site: Site) -> None:
    _, body, _ = await site.ask("POST", "/ui/api/session", {"ticket": await site.ticket()})
    status, _, headers = await site.ask("GET", "/v2/apps")
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="here"')
    assert (await site.ask("GET", "/v2/apps", X_Session_Key="x" + body["key"][1:]))[0] == 401
    site.http.cookie_jar.clear()
    assert (await site.ask("GET", "/v2/apps", X_Session_Key=body["key"]))[0] == 401


async def test_who_reads_the_ticket_in_a_list_of_processes_cannot_use_it(site: Site, golden: Golden) -> None:
    ticket = await site.ticket()
    refused = set()
    for site.who in (OTHER, ROOT, None):
        status, body, _ = await site.ask("POST", "/ui/api/session", {"ticket": ticket})
        refused.add((status, body["message"]))
    ((status, message),) = refused
    assert (status, message) == (403, golden)
    site.who = ME
    assert (await site.ask("POST", "/ui/api/session", {"ticket": ticket}))[0] == 200


async def test_a_ticket_waits_for_two_minutes(site: Site) -> None:
    ticket = await site.ticket()
    site.now_s = 120.0
    assert (await site.ask("POST", "/ui/api/session", {"ticket": ticket}))[0] == 403


async def test_a_ticket_is_for_who_asks_and_root_may_ask_for_another(site: Site, golden: Golden) -> None:
    status, body, _ = await site.ask("POST", "/ui/api/tickets", {"uid": OTHER}, **PASSWORD)
    assert (status, body) == (403, {"message": golden})
    site.who = ROOT
    ticket = await site.ticket(uid=OTHER)
    site.who = OTHER
    assert (await site.ask("POST", "/ui/api/session", {"ticket": ticket}))[0] == 200


@pytest.mark.parametrize("document", [{"uid": True}, {"uid": -1}, {"uid": "0"}, []])
async def test_a_ticket_for_nobody_is_refused(site: Site, document: Any) -> None:
    assert (await site.ask("POST", "/ui/api/tickets", document, **PASSWORD))[0] == 400


async def test_tickets_are_for_who_may_come_in_and_browsers_of_this_machine(site: Site, golden: Golden) -> None:
    assert (await site.ask("POST", "/ui/api/tickets", {}))[0] == 401
    site.who = None
    status, body, _ = await site.ask("POST", "/ui/api/tickets", {}, **PASSWORD)
    assert (status, body["message"]) == (403, golden)
    for ticket in (None, 1, "", "x" * 43):
        assert (await site.ask("POST", "/ui/api/session", {"ticket": ticket}))[0] == 403


async def test_a_page_of_another_site_can_begin_nothing(site: Site) -> None:
    ticket = await site.ticket()
    for path in ("/ui/api/tickets", "/ui/api/session"):
        status, _, _ = await site.ask("POST", path, {"ticket": ticket}, **PASSWORD, X_Requested_By="me")
        assert status == 403


async def test_marathon_knows_by_the_kernel_whose_browser_it_is(marathon: Marathon) -> None:
    marathon.credentials = "user:pass"
    await marathon.restart()
    made = await marathon.call("POST", "/ui/api/tickets", {}, headers={**OURS, **PASSWORD})
    assert (made.status, made.body["uid"]) == (200, os.geteuid())
    begun = await marathon.call("POST", "/ui/api/session", {"ticket": made.body["ticket"]}, headers=OURS)
    cookie = begun.headers["Set-Cookie"].partition(";")[0]
    shown = {"X-Session-Key": begun.body["key"], "Cookie": cookie}
    assert (await marathon.call("GET", "/v2/apps", headers=shown)).status == 200
    assert (await marathon.call("GET", "/v2/apps", headers={"Cookie": cookie})).status == 401
