"""Runs the checks that are Marathon's own: HTTP, HTTPS and TCP, beside one another and not too many at once."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import aiohttp

from mesos_gpu.marathon.matching.checks import Probe
from mesos_gpu.marathon.state.events import HealthChecked, ReadinessChecked

log = logging.getLogger(__name__)

MAX_BODY = 16 * 1024
"""Bytes kept of a readiness check's answer."""
_UNREACHABLE = 504
"""What Marathon reports for an endpoint that does not answer a readiness check."""

Tell = Callable[[HealthChecked | ReadinessChecked], None]


class Prober:
    """Keeps one loop per probe; `follow` says which there are. Belongs to one event loop."""

    def __init__(self, tell: Tell, *, at_a_time: int = 256) -> None:
        """`at_a_time` checks may be under way (--max_concurrent_marathon_health_checks); others wait for one to end."""
        self._tell = tell
        self._loops: dict[Probe, asyncio.Task[None]] = {}
        self._limit = asyncio.Semaphore(at_a_time)
        self._http: aiohttp.ClientSession | None = None

    def follow(self, wanted: frozenset[Probe]) -> None:
        """Run these probes and no others; one that was wanted before keeps its rhythm."""
        for gone in [probe for probe in self._loops if probe not in wanted]:
            self._loops.pop(gone).cancel()
        # In an order of their own: that of a set of structs is by where their class lies in memory.
        new = wanted - self._loops.keys()
        for probe in sorted(new, key=lambda one: (one.task_id, -1 if one.index is None else one.index, one.name)):
            self._loops[probe] = asyncio.ensure_future(self._repeat(probe))

    async def stop(self) -> None:
        """End every check."""
        loops = list(self._loops.values())
        self.follow(frozenset())
        await asyncio.gather(*loops, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    async def _repeat(self, probe: Probe) -> None:
        await asyncio.sleep(probe.first_s)
        while True:
            async with self._limit:
                try:
                    result = await self._ask(probe)
                except Exception:
                    log.exception("cannot check %s", probe)
                    result = None
            if result is not None:
                self._tell(result)
            await asyncio.sleep(probe.interval_s)

    async def _ask(self, probe: Probe) -> HealthChecked | ReadinessChecked | None:
        """Run a check once. None: the answer counts as none."""
        status, response, cause = 0, None, None
        try:
            if probe.scheme == "tcp":
                await asyncio.wait_for(_connect(probe), probe.timeout_s)
                return _health(probe, alive=True)
            status, response = await asyncio.wait_for(self._get(probe), probe.timeout_s)
        except asyncio.TimeoutError:
            cause = f"no answer within {probe.timeout_s:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = str(error) or type(error).__name__
        if probe.index is None:
            return _readiness(probe, status, response)
        if cause is None and 100 <= status < 200 and probe.ignore_1xx:
            return None
        if cause is None and not probe.passes(status):
            cause = f"HTTP status {status}"
        return _health(probe, alive=cause is None, cause=cause)

    async def _get(self, probe: Probe) -> tuple[int, Mapping[str, Any]]:
        http = self._session()
        host = f"[{probe.host}]" if ":" in probe.host else probe.host
        path = probe.path if probe.path.startswith("/") else "/" + probe.path
        url = f"{probe.scheme}://{host}:{probe.port}{path}"
        async with http.get(url, allow_redirects=False, ssl=_any_certificate()) as answer:
            body = await answer.content.read(MAX_BODY) if probe.keep_response else b""
            kind = answer.headers.get("Content-Type", "")
            shown = {"status": answer.status, "contentType": kind, "body": body.decode("utf-8", "replace")}
            return answer.status, shown

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            # A connection of its own for each check, as Marathon: what is checked is whether one can be made.
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            self._http = aiohttp.ClientSession(connector=connector)
        return self._http


async def _connect(probe: Probe) -> None:
    _, writer = await asyncio.open_connection(probe.host, probe.port)
    writer.close()
    await writer.wait_closed()


@cache
def _any_certificate() -> ssl.SSLContext:
    """Marathon takes any certificate: tasks have self-signed ones."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _health(probe: Probe, *, alive: bool, cause: str | None = None) -> HealthChecked:
    return HealthChecked(probe.task_id, probe.index or 0, alive, cause)


def _readiness(probe: Probe, status: int, response: Mapping[str, Any] | None) -> ReadinessChecked:
    shown = response or {"status": _UNREACHABLE, "contentType": "text/plain", "body": ""}
    ready = response is not None and probe.passes(status)
    return ReadinessChecked(probe.task_id, probe.name, ready, shown if probe.keep_response else None)
