"""Pings: one observer per agent, `slave-observer(N)`, tells when an agent has not answered for too long.

Source: Mesos src/master/master.cpp, SlaveObserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import encode
from mesos_gpu.process.endpoint import Endpoint

PING = "mesos.internal.PingSlaveMessage"
PONG = "mesos.internal.PongSlaveMessage"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often agents are asked, and how many answers in a row may be missing."""

    interval_s: float = 15.0
    missing: int = 5

    @property
    def total_s(self) -> float:
        """Return how long an agent may be silent."""
        return self.interval_s * self.missing


class Observer:
    """Pings one agent at once and then at every interval, until stopped."""

    def __init__(
        self,
        endpoint: Endpoint,
        process_id: str,
        to: Pid,
        pace: Pace,
        connected: Callable[[], bool],
        lost: Callable[[], None],
    ) -> None:
        """`connected()` is what the ping tells the agent; `lost()` is called when too many answers are missing."""
        self._endpoint, self._id, self._to, self._pace = endpoint, process_id, to, pace
        self._connected, self._lost = connected, lost
        self._missed = 0
        self._answered = True
        endpoint.spawn(process_id, self._pong)
        self._timer = asyncio.get_running_loop().call_soon(self._ping)

    def stop(self) -> None:
        """Ping no more."""
        self._timer.cancel()
        self._endpoint.terminate(self._id)

    def _pong(self, message: Message) -> None:
        if message.name == PONG:
            self._answered, self._missed = True, 0

    def _ping(self) -> None:
        self._answered = False
        self._endpoint.send(self._id, self._to, PING, encode(PING, {"connected": self._connected()}))
        self._timer = asyncio.get_running_loop().call_later(self._pace.interval_s, self._check)

    def _check(self) -> None:
        if not self._answered:
            self._missed += 1
        self._ping()
        if self._missed >= self._pace.missing:
            self._missed = 0
            self._lost()
