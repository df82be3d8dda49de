"""Ticks at the ends of allocation intervals, of which most have nothing to do: only what is due is waited for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Ticks:
    """Calls something at those ends of intervals at which it is due, as a call at every one would find it."""

    def __init__(self, interval_s: float, call: Callable[[], None]) -> None:
        self._interval_s, self._call = interval_s, call
        self._began_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = math.inf
        """When the next one comes."""
        self._soonest = False
        """Whether none could come earlier."""

    def start(self, due_s: float) -> None:
        """Begin the first interval; `due_s` as for `expect`."""
        self._began_s = asyncio.get_running_loop().time()
        self.expect(due_s)

    def expect(self, due_s: float) -> None:
        """Have one come at the first end of an interval from then on, by the loop's clock; infinite: none is wanted.

        One that was expected before, and earlier, still comes. Before the start nothing happens.
        """
        if self._soonest or due_s >= self._at_s or self._began_s is None:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        ended = math.floor((now_s - self._began_s) / self._interval_s)
        soonest = max(ended + 1, 1)
        number = max(soonest, math.ceil((due_s - self._began_s) / self._interval_s)) if due_s > now_s else soonest
        if self._timer is not None:
            self._timer.cancel()
        self._at_s, self._soonest = self._began_s + number * self._interval_s, number == soonest
        self._timer = loop.call_later(self._at_s - now_s, self._ring)

    def stop(self) -> None:
        """Let none come any more."""
        self._began_s = None
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._at_s, self._soonest, self._timer = math.inf, False, None
        self._call()
