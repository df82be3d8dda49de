"""How much this program logs: more for a while, by SET_LOGGING_LEVEL and /logging/toggle (libprocess logging.cpp)."""

from __future__ import annotations

import asyncio
import logging

from mesos_gpu.errors import BadInput

MAX_LEVEL = 3
"""glog's verbosity: 0 is what an operator wants to read, more is for who looks for a mistake."""


class LoggingLevel:
    """One per program; every level above 0 shows what is logged as DEBUG."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("mesos_gpu")
        self._original = self._logger.level
        self._revert: asyncio.TimerHandle | None = None
        self.level = 0

    def set(self, level: int, duration_s: float) -> None:
        """Log at `level` for so many seconds, then at 0 again. Raises BadInput for a level that there is not."""
        if not 0 <= level <= MAX_LEVEL:
            raise BadInput(f"Invalid level '{level}'.\n")
        if duration_s < 0:
            raise BadInput("Invalid duration: it is less than nothing.\n")
        self.close()
        if level:
            self.level = level
            self._logger.setLevel(logging.DEBUG)
            self._revert = asyncio.get_running_loop().call_later(duration_s, self.close)

    def close(self) -> None:
        """Go back to level 0 now."""
        if self._revert is not None:
            self._revert.cancel()
            self._revert = None
        self.level = 0
        self._logger.setLevel(self._original)
