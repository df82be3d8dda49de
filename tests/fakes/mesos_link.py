"""A MesosLink without Mesos: it writes down the calls, and says what the test lets it say."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from mesos_gpu.marathon.engine.mesos_link import Inbox, LinkEvent
from mesos_gpu.marathon.state.actions import Call, Resubscribe
from mesos_gpu.marathon.state.events import CallFailed, Disconnected, Offered, Rescinded, Status, Subscribed


class FakeMesosLink:
    """`master_up` decides whether it connects; `calls` are those that reached the master, to be awaited one by one."""

    def __init__(self, *, master_up: bool = True) -> None:
        self.calls: list[Call] = []
        self.framework_id: str | None = None
        self.connected = self.stopped = False
        self._master_up, self._ids = master_up, 0
        self._inbox: Inbox | None = None
        self._queued: deque[Call] = deque()
        self._arrived = asyncio.Event()

    # What the scheduler does

    def start(self, framework_id: str | None, inbox: Inbox) -> None:
        self.framework_id, self._inbox = framework_id, inbox
        self._connect()

    def call(self, call: Call) -> None:
        if isinstance(call, Resubscribe):
            self.framework_id = None
            self._connect()
        elif not self.connected:
            self.tell(CallFailed(call, "not connected to a master"))
        else:
            self.calls.append(call)
            self._queued.append(call)
            self._arrived.set()

    def stop(self) -> None:
        self.connected, self.stopped = False, True

    # What a test does

    def tell(self, event: LinkEvent) -> None:
        assert self._inbox is not None
        self._inbox(event)

    def offer(self, *documents: dict[str, Any]) -> None:
        self.tell(Offered(documents))

    def rescind(self, offer_id: str) -> None:
        self.tell(Rescinded(offer_id))

    def status(self, document: dict[str, Any]) -> None:
        self.tell(Status(document))

    def break_connection(self) -> None:
        """Lose the connection; a new one is made at once."""
        self.connected = False
        self.tell(Disconnected())
        self._connect()

    def come_up(self) -> None:
        self._master_up = True
        self._connect()

    async def next(self, kind: type[Any]) -> Any:
        """Wait for the next call of a kind; those before it are passed over."""
        while True:
            while self._queued:
                call = self._queued.popleft()
                if isinstance(call, kind):
                    return call
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 60)

    def _connect(self) -> None:
        if not self._master_up or self.stopped:
            return
        again = self.framework_id is not None
        if not again:
            self._ids += 1
            self.framework_id = f"F{self._ids}"
        self.connected = True
        self.tell(Subscribed(str(self.framework_id), "127.0.0.1:5050", again=again))
