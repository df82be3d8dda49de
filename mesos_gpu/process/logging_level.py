"""How much a service logs, changed for a while: /logging/toggle, GET_LOGGING_LEVEL and SET_LOGGING_LEVEL.

Mesos' levels: 0 is as configured, 1 and more are more verbose; here all of those are DEBUG.
Source: Mesos 3rdparty/libprocess/src/logging.cpp.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.units import parse_duration
from mesos_gpu.process.http import error_response


class LoggingLevel:
    """The level of this package's loggers; it goes back by itself."""

    def __init__(self, name: str = "mesos_gpu") -> None:
        self._logger = logging.getLogger(name)
        self._configured = self._logger.level
        self._back: asyncio.TimerHandle | None = None
        self.level = 0

    def set(self, level: int, duration_s: float) -> None:
        """Log at `level` for `duration_s` seconds; a later call takes over. Raises BadInput for less than 0."""
        if level < 0:
            raise BadInput(f"'{level}' < original level.\n")
        self.reset()
        self.level = level
        if level > 0:
            self._logger.setLevel(logging.DEBUG)
            self._back = asyncio.get_running_loop().call_later(duration_s, self.reset)

    def reset(self) -> None:
        """Log as configured again."""
        if self._back is not None:
            self._back.cancel()
            self._back = None
        self._logger.setLevel(self._configured)
        self.level = 0

    def set_from(self, body: Document) -> None:
        """Carry out SET_LOGGING_LEVEL. Raises BadInput."""
        self.set(body["level"], body["duration"]["nanoseconds"] / 1e9)

    async def toggle(self, request: web.Request) -> web.Response:
        """Answer /logging/toggle: the level, or what `level` and `duration` ask for. Raises BadInput."""
        level, duration = request.query.get("level"), request.query.get("duration")
        if level is None and duration is None:
            return error_response(200, f"{self.level}\n")
        if level is None or duration is None:
            missing = "level" if level is None else "duration"
            raise BadInput(f"Expecting '{missing}=value' in query.\n")
        try:
            self.set(int(level), parse_duration(duration))
        except (ValueError, BadFlag) as error:
            raise BadInput(f"{error}.\n") from None
        return web.Response()
