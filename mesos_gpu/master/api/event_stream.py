"""A stream of v1 events to one subscriber, scheduler or operator, in the type it accepts, with heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mesos_gpu.mesos import messages, recordio
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.http import EventStream
from mesos_gpu.process.requests import PROTOBUF

HEARTBEAT: Document = {"type": "HEARTBEAT"}
_encoder = msgspec.json.Encoder()


class _Latest:
    """The event that was sent last, as records: those who are told the same one after another get the same bytes."""

    def __init__(self) -> None:
        self._event: Document = {}
        self._records: dict[tuple[str, str], bytes] = {}

    def record(self, event: Document, kind: str, event_type: str) -> bytes:
        """Return the record of an event. Events are not changed once they are sent."""
        if event is not self._event:
            self._event, self._records = event, {}
        made = self._records.get((kind, event_type))
        if made is None:
            body = messages.encode(event_type, event) if kind == PROTOBUF else _encoder.encode(event)
            made = self._records[kind, event_type] = recordio.encode(body)
        return made


_LATEST = _Latest()


class TypedStream:
    """JSON or protobuf records of one event type, and a heartbeat every so often."""

    def __init__(
        self,
        stream: EventStream,
        kind: str,
        event_type: str,
        heartbeat_s: float,
        *,
        on_heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        """`kind` is the content type; `on_heartbeat` is called for each one that this stream sends by itself."""
        self._stream, self._kind, self._event_type = stream, kind, event_type
        self._heartbeat_s, self._on_heartbeat = heartbeat_s, on_heartbeat
        self._timer = asyncio.get_running_loop().call_later(heartbeat_s, self._beat)

    def send(self, event: Document) -> None:
        """Send one event as one record."""
        self._stream.send_raw(_LATEST.record(event, self._kind, self._event_type))

    def close(self) -> None:
        """End the stream after what was sent."""
        self._timer.cancel()
        self._stream.close()

    def _beat(self) -> None:
        self._on_heartbeat()
        self.send(HEARTBEAT)
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat_s, self._beat)
