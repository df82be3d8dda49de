"""What the page may ask the master and its agents, through this Marathon.

A browser reaches Marathon and often nothing else; and a page may ask its own server alone. So Marathon asks for it:
only endpoints that are named here, only the master it follows and the agents that this one names, and only with the
credentials that came along for Mesos in a header of their own: Marathon's own are never passed on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.marathon.api.answers import refusal
from mesos_gpu.mesos.security.browser_logins import Session

log = logging.getLogger(__name__)

MASTER_READS = frozenset(
    {"slaves", "frameworks", "roles", "tasks", "quota", "weights", "version", "flags", "metrics/snapshot"}
    | {"maintenance/schedule", "maintenance/status", "gpus"}
)
AGENT_READS = frozenset(
    {
        "state",
        "containers",
        "gpus",
        "gpus/driver",
        "gpu_shares",
        "version",
        "metrics/snapshot",
        "files/browse",
        "files/read",
        "files/download",
    }
)
MASTER_CALLS = frozenset(
    {"DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT", "UPDATE_QUOTA"}
    | {"UPDATE_MAINTENANCE_SCHEDULE", "START_MAINTENANCE", "STOP_MAINTENANCE"}
)
"""Calls of the operator API (Mesos include/mesos/v1/master/master.proto) that the page makes."""
MESOS_CREDENTIALS = "X-Mesos-Authorization"
OF_SESSION = web.RequestKey("session", Session)
"""Where a request that shows a session keeps it, with credentials for Mesos."""
_PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=30.0)
STREAM = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=60.0)
"""Patience with what stays open: master and agents send a heartbeat every 15 or 30 s."""


class MesosDoor:
    """Asks master and agents. `master_url` gives the leading master's, None while none is known."""

    def __init__(self, master_url: Callable[[], str | None], tls: ssl.SSLContext | None = None) -> None:
        self._master_url, self._tls = master_url, tls
        self._session: aiohttp.ClientSession | None = None
        self._agents: dict[str, str] = {}
        self._finding = asyncio.Lock()

    async def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            await self._session.close()

    def master(self, path: str) -> URL:
        """Return the URL of an endpoint of the master. Raises Unavailable while none is known."""
        found = self._master_url()
        if not found:
            raise Unavailable("this Marathon knows no master at the moment")
        return URL(found.rstrip("/") + "/" + path)

    async def agent(self, agent_id: str, path: str, credentials: str | None) -> URL:
        """Return the URL of an endpoint of an agent that the master knows. Raises NotFound, Unavailable."""
        if agent_id not in self._agents:
            # Who waits for the answer meanwhile need not ask: of many agents it is megabytes.
            before = self._agents
            async with self._finding:
                if self._agents is before:
                    shown = await self.ask(self.master("slaves"), credentials)
                    self._agents = {
                        str(agent.get("id")): str(agent.get("pid", "")).rpartition("@")[2]
                        for agent in shown.get("slaves", [])
                    }
        address = self._agents.get(agent_id)
        if not address:
            raise NotFound(f"the master knows no agent {agent_id}")
        return self.master("").with_path("/").join(URL(f"//{address}/{path}"))

    async def ask(self, url: URL, credentials: str | None, query: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of an endpoint. Raises Unavailable when it cannot be had."""
        try:
            async with self.request("GET", url, credentials, params=query) as answer:
                if answer.status != 200:
                    raise Unavailable(f"{url.with_query(None)} answered {answer.status}: {(await answer.text())[:300]}")
                return _parsed(await answer.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._lost(url, error) from None

    async def passed(
        self, request: web.Request, method: str, url: URL, body: bytes | None = None
    ) -> web.StreamResponse:
        """Answer with what an endpoint answers, status and type included; long files go through piece by piece."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with self.request(
                method, url, credentials_of(request), params=request.query_string, data=body, headers=headers
            ) as answer:
                if answer.status == 401:
                    return unknown_to_mesos()
                if answer.status >= 400:
                    return refusal(answer.status, (await answer.text())[:2000])
                if "attachment" not in answer.headers.get("Content-Disposition", ""):
                    shown = web.Response(body=await answer.read() or b"null")
                    shown.headers["Content-Type"] = "application/json"
                    return shown
                response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", **_SAFE})
                response.content_length = answer.content_length
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._lost(url, error) from None

    async def piece(self, request: web.Request, url: URL) -> web.StreamResponse:
        """Answer with a piece of a file, as /files/read gives it, as the bytes they are; `X-Offset` is where it begins.

        Mesos puts a file's bytes into JSON as they are, UTF-8 or not (src/files/files.cpp, FilesProcess::_read).
        """
        try:
            async with self.request("GET", url, credentials_of(request), params=request.query_string) as answer:
                if answer.status == 401:
                    return unknown_to_mesos()
                data = await answer.read()
                if answer.status >= 400:
                    return refusal(answer.status, data[:2000].decode("utf-8", "replace"))
                found = json.loads(data.decode("utf-8", "surrogateescape"))
                piece = str(found["data"]).encode("utf-8", "surrogateescape")
                headers = {**_SAFE, "X-Offset": str(int(found["offset"])), "Content-Type": "application/octet-stream"}
                return web.Response(body=piece, headers=headers)
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError) as error:
            raise self._lost(url, error) from None

    def request(self, method: str, url: URL, credentials: str | None, **parts: Any) -> Any:
        """Return aiohttp's context manager of one request, as the user of these credentials."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_PATIENCE, connector=aiohttp.TCPConnector(limit=64))
        headers = {"Accept": "application/json", **parts.pop("headers", {})}
        if credentials is not None:
            headers["Authorization"] = credentials
        if url.scheme == "https" and self._tls is not None:
            parts["ssl"] = self._tls
        return self._session.request(method, url, headers=headers, allow_redirects=False, **parts)

    def _lost(self, url: URL, error: Exception) -> Unavailable:
        self._agents.clear()  # it may have another address by now
        return Unavailable(f"{url.host}:{url.port} does not answer: {error or type(error).__name__}")


_SAFE = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}


def credentials_of(request: web.Request) -> str | None:
    """Return the credentials that came for Mesos, or that the session of the request was begun with."""
    session = request.get(OF_SESSION)
    return request.headers.get(MESOS_CREDENTIALS, None if session is None else session.mesos)


def unknown_to_mesos() -> web.Response:
    """Say that master or agent need credentials, without the header that makes a browser ask for them."""
    response = refusal(401, "Mesos needs credentials.")
    response.headers["X-Wanted-By"] = "mesos"
    return response


def _parsed(body: bytes) -> Any:
    """Return what JSON says. Raises ValueError."""
    try:
        return msgspec.json.decode(body)  # in a third of the time, which for all agents of a large cluster others wait
    except msgspec.MsgspecError:
        return json.loads(body)  # lone surrogates, numbers that are none
