"""The listeners of /v2/events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mesos_gpu.marathon.definitions.timestamps import timestamp


class Listener(Struct, frozen=True, eq=False):
    """Someone who wants events of these kinds (all, when there are none) as Server-Sent Events."""

    send: Callable[[bytes], None]
    kinds: Collection[str]


class EventBus:
    """Sends each event to everyone who listens; keeps nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._held: list[tuple[str, bytes]] = []

    def add(self, listener: Listener) -> None:
        """Send events to `listener` from now on."""
        self._listeners.add(listener)

    def remove(self, listener: Listener) -> None:
        """Send nothing more to `listener`."""
        self._listeners.discard(listener)

    def publish(self, kind: str, fields: Mapping[str, Any], *, hold: bool = False) -> None:
        """Send an event; `eventType` and `timestamp` are added. With `hold` it is sent with those that follow it."""
        if not self._listeners:
            return
        document = {**fields, "eventType": kind, "timestamp": timestamp(self._clock())}
        frame = b"event: %b\r\ndata: %b\r\n\r\n" % (kind.encode(), msgspec.json.encode(document))
        self._held.append((kind, frame))
        if not hold:
            self.flush()

    def flush(self) -> None:
        """Send what is held: to each listener in one piece, which those who want the same share."""
        if not self._held:
            return
        held, self._held = self._held, []
        made: dict[Collection[str], bytes] = {}
        for listener in list(self._listeners):
            kinds = frozenset(listener.kinds)
            data = made.get(kinds)
            if data is None:
                data = made[kinds] = b"".join(frame for kind, frame in held if not kinds or kind in kinds)
            if data:
                listener.send(data)
