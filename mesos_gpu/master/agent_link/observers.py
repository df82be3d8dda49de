"""Pings: one observer per agent, `slave-observer(N)`, tells when an agent has not answered for too long.

Source: Mesos src/master/master.cpp, SlaveObserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.mesos.messages import encode
from mesos_gpu.process.endpoint import Endpoint

log = logging.getLogger(__name__)

PING = "mesos.internal.PingSlaveMessage"
PONG = "mesos.internal.PongSlaveMessage"


class Pace(Struct, frozen=True):
    """How often agents are asked, and how many answers in a row may be missing."""

    interval_s: float = 15.0
    missing: int = 5

    @property
    def total_s(self) -> float:
        """Return how long an agent may be silent."""
        return self.interval_s * self.missing


class RemovalLimit:
    """Lets agents be given up at most so often (`--agent_removal_rate_limit`), in the order they were silent in.

    A network that fails for all of them at once must not cost a cluster all its tasks at once.
    """

    def __init__(self, interval_s: float = 0.0) -> None:
        """One per `interval_s`; 0: whenever it is asked for."""
        self._interval_s = interval_s
        self.counts: Counter[str] = Counter()
        """How many were `scheduled`, `completed` and `canceled`, since the start."""
        self._waiting: dict[object, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def limits(self) -> bool:
        """Return whether anybody ever has to wait."""
        return self._interval_s > 0

    def ask(self, who: object, go: Callable[[], None]) -> None:
        """Call `go` when it is its turn, at once if it is that now; asking again while waiting changes nothing."""
        if who in self._waiting:
            return
        self.counts["scheduled"] += 1
        if self._interval_s <= 0:
            self._complete(go)
            return
        self._waiting[who] = go
        if self._timer is None:
            self._let()

    def withdraw(self, who: object) -> bool:
        """Take back what was asked; return whether it was still waiting."""
        withdrawn = self._waiting.pop(who, None) is not None
        self.counts["canceled"] += withdrawn
        return withdrawn

    def stop(self) -> None:
        """Let nobody go any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _let(self) -> None:
        self._timer = None
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._let)
            first = next(iter(self._waiting))
            self._complete(self._waiting.pop(first))

    def _complete(self, go: Callable[[], None]) -> None:
        self.counts["completed"] += 1
        go()


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
        limit: RemovalLimit | None = None,
    ) -> None:
        """`connected()` is what the ping tells the agent; `lost()` is called when too many answers are missing.

        With a `limit` it waits for its turn, and an answer that comes meanwhile keeps the agent.
        """
        self._limit = limit or RemovalLimit()
        self._endpoint, self._id, self._to, self._pace = endpoint, process_id, to, pace
        self._connected, self._lost = connected, lost
        self._missed = 0
        self._answered = True
        endpoint.spawn(process_id, self._pong)
        self._timer = asyncio.get_running_loop().call_soon(self._ping)

    @property
    def to(self) -> Pid:
        """Return the agent that is pinged."""
        return self._to

    def stop(self) -> None:
        """Stop pinging."""
        self._limit.withdraw(self)
        self._timer.cancel()
        self._endpoint.terminate(self._id)

    def _pong(self, message: Message) -> None:
        if message.name == PONG:
            self._answered, self._missed = True, 0
            if self._limit.withdraw(self):
                log.info("%s answers again, before it was given up", self._to)

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
            self._limit.ask(self, self._lost)
