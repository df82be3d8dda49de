"""One timer that runs to whatever is due next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from mesos_gpu.agent.clock import Clock


class Alarm:
    """Calls `ring` when something is due, and now and then before: one that runs and ends earlier is let run.

    What is put off again and again, as each ping does with the time by which the next must have come, would else take
    a new timer each time. Lives in one event loop.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock, self._ring = clock, ring
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = inf

    def set(self, *due_s: float | None) -> None:
        """Ring at the first of these monotonic times, at the latest; None is never."""
        first_s = min((each for each in due_s if each is not None), default=inf)
        if self._timer is not None and self._rings_s <= first_s < inf:
            return
        self.stop()
        if first_s < inf:
            delay_s = max(0.0, first_s - self._clock.mono())
            self._rings_s, self._timer = first_s, asyncio.get_running_loop().call_later(delay_s, self._rung)

    def stop(self) -> None:
        """Do not ring until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rung(self) -> None:
        self._timer = None
        self._ring()
