"""Calls that are due later, in the event loop, unless all of them are stopped before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarms:
    """What is still to be called."""

    def __init__(self) -> None:
        self._timers: set[asyncio.TimerHandle] = set()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call something after `delay_s` seconds."""

        def run() -> None:
            self._timers.discard(timer)
            call()

        timer = asyncio.get_running_loop().call_later(delay_s, run)
        self._timers.add(timer)

    def call_every(self, interval_s: float, call: Callable[[], None]) -> None:
        """Call something every `interval_s` seconds, the first time after that."""

        def run() -> None:
            self.call_later(interval_s, run)
            call()

        self.call_later(interval_s, run)

    def stop(self) -> None:
        """Call nothing any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
