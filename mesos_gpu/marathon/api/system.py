"""What the program tells of itself beside /v2/info: plugins, levels of its log, a sign of life.

Source: Marathon api/SystemResource.scala.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from mesos_gpu.errors import InvalidApp, Problem
from mesos_gpu.marathon.api.answers import accepted_types, read_object
from mesos_gpu.process.http import json_response

log = logging.getLogger(__name__)

LEVELS: Mapping[str, int] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "OFF": logging.CRITICAL + 1,
}
"""Marathon's levels; Python has nothing below DEBUG."""
_NAMES = {number: name for name, number in LEVELS.items() if name != "TRACE"} | {logging.CRITICAL: "ERROR"}
ROOT = "ROOT"
_DAY_S = 86400
_TEXT = ("text/plain", "text/html", "text/*", "*/*")


class SystemApi:
    """Handlers of /v2/plugins, /logging and /ping."""

    def __init__(self) -> None:
        self._resets: dict[str, tuple[asyncio.TimerHandle, int]] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/v2/plugins", self.list_plugins),
            web.get("/logging", self.list_loggers),
            web.post("/logging", self.change_logger),
            web.get("/ping", self.ping),
        ]

    async def list_plugins(self, _: web.Request) -> web.Response:
        """Answer with the plugins, of which there are none: nothing can be plugged into this Marathon."""
        return json_response({"plugins": []})

    async def list_loggers(self, _: web.Request) -> web.Response:
        """Answer with the level of each logger."""
        names = sorted(
            name for name, each in logging.root.manager.loggerDict.items() if isinstance(each, logging.Logger)
        )
        return json_response({ROOT: _level(logging.root), **{name: _level(logging.getLogger(name)) for name in names}})

    async def change_logger(self, request: web.Request) -> web.Response:
        """Set the level of a logger, for `durationSeconds` if that is given."""
        asked = await read_object(request)
        name, level, duration_s = _change(asked)
        logger = logging.getLogger(None if name == ROOT else name)
        # Of several changes that overlap, what was there before the first comes back.
        timer, before = self._resets.pop(name, (None, logger.level))
        if timer is not None:
            timer.cancel()
        log.info("the level of logger %s is now %s", name, level)
        logger.setLevel(LEVELS[level])
        if duration_s is not None:
            handle = asyncio.get_running_loop().call_later(duration_s, self._reset, name, logger, before)
            self._resets[name] = (handle, before)
        duration = {} if duration_s is None else {"durationSeconds": duration_s}
        return json_response({"level": level.lower(), "logger": name, **duration})

    async def ping(self, request: web.Request) -> web.Response:
        """Say that we are here."""
        accepted = accepted_types(request, "*/*")
        if "application/json" in accepted:
            return json_response("pong")
        return web.Response(text="pong") if any(kind in accepted for kind in _TEXT) else web.Response(status=204)

    async def close(self) -> None:
        """Set levels back that were to change for a while only."""
        for name, (timer, before) in list(self._resets.items()):
            timer.cancel()
            self._reset(name, logging.getLogger(None if name == ROOT else name), before)

    def _reset(self, name: str, logger: logging.Logger, before: int) -> None:
        self._resets.pop(name, None)
        logger.setLevel(before)
        log.info("the level of logger %s is what it was", name)


def _level(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    name = _NAMES.get(effective, logging.getLevelName(effective))
    return name if logger.level else f"{name} (inherited)"


def _change(asked: Mapping[str, Any]) -> tuple[str, str, int | None]:
    """Return logger, level and seconds that a LoggerChange asks for. Raises InvalidApp."""
    name, level, duration_s = asked.get("logger"), asked.get("level"), asked.get("durationSeconds")
    if not isinstance(name, str) or not name:
        raise _invalid("/logger", "the name of a logger, such as mesos_gpu, or ROOT")
    if not isinstance(level, str) or level.upper() not in LEVELS:
        raise _invalid("/level", f"one of {', '.join(each.lower() for each in LEVELS)}")
    seconds = isinstance(duration_s, int) and not isinstance(duration_s, bool) and 0 < duration_s <= _DAY_S
    if duration_s is not None and not seconds:
        raise _invalid("/durationSeconds", f"a number of seconds, 1 to {_DAY_S}")
    return name, level.upper(), duration_s


def _invalid(path: str, expected: str) -> InvalidApp:
    sentence = f"must be {expected}"
    return InvalidApp([Problem(path, sentence, sentence)])
