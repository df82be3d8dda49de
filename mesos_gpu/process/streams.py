"""Responses that stay open: events to a subscriber, one RecordIO record per chunk and write."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Mapping

import msgspec
from aiohttp import web

from mesos_gpu.mesos import recordio
from mesos_gpu.process.front import Front

MAX_WAITING = 16 * 1024 * 1024
"""Bytes a subscriber may be behind before it is cut off."""
log = logging.getLogger(__name__)
_AT_ONCE = 256 * 1024
"""Bytes after which no more records are written together."""
LINGER_S = 30.0
"""Seconds that a subscriber has to read what was sent before its stream was closed."""
_encoder = msgspec.json.Encoder()


class EventStream:
    """One open response. `send` never blocks; the handler awaits `closed` and returns `response`."""

    def __init__(self, request: web.Request, response: web.StreamResponse, *, together: bool = False) -> None:
        self.response = response
        self._request, self._together = request, together
        self._records: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._written = asyncio.Event()
        self._ended = False
        self._lingering: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        request: web.Request,
        headers: Mapping[str, str] | None = None,
        *,
        content_type: str = "application/json",
        together: bool = False,
    ) -> EventStream:
        """Answer 200 with a chunked body that stays open.

        With `together` what waits is written at once, in one chunk: for streams that many listen to.
        """
        response = web.StreamResponse(headers={"Content-Type": content_type, **(headers or {})})
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = cls(request, response, together=together)
        request.app[_STREAMS].add(stream)
        return stream

    def send(self, document: object) -> None:
        """Send a document as one RecordIO record of JSON. Nothing happens once the stream has ended."""
        self.send_raw(recordio.encode(_encoder.encode(document)))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as one chunk, as they are. A subscriber that is too far behind is cut off."""
        if self._ended:
            return
        if self._waiting + _counted(data) > MAX_WAITING:
            self._cut_off()
        else:
            self._waiting += _counted(data)
            self._records.put_nowait(data)

    async def room(self, most: int) -> None:
        """Return when no more than `most` bytes wait for the subscriber, for who can keep the rest; or at the end."""
        while self._waiting > most and not self._ended:
            self._written.clear()
            await self._written.wait()

    def close(self) -> None:
        """End the stream after what was already sent."""
        if not self._ended:
            self._ended = True
            self._records.put_nowait(None)
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self._hang_up)

    def _cut_off(self) -> None:
        """Hang up on a subscriber that does not read: what it was sent would stay in memory forever."""
        log.warning("%s is more than %d bytes behind and cut off", self._request.remote, MAX_WAITING)
        self._ended = True
        while not self._records.empty():
            self._records.get_nowait()
        self._records.put_nowait(None)
        self._hang_up()

    def _hang_up(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    def _with_others(self, record: bytes) -> bytes:
        """Return a record and those that wait behind it, up to some size; they do not wait any more."""
        records, size = [record], len(record)
        while size < _AT_ONCE and not self._records.empty():
            following = self._records.get_nowait()
            if following is None:
                self._records.put_nowait(None)
                break
            records.append(following)
            size += len(following)
        self._waiting -= sum(map(_counted, records))
        return b"".join(records) if len(records) > 1 else record

    async def closed(self) -> None:
        """Write what is sent until the stream is closed from either side."""
        gone = lost(self._request)
        gone.add_done_callback(lambda _: self.close())
        try:
            while not gone.done() and (record := await self._records.get()) is not None:
                if self._together:
                    record = self._with_others(record)
                else:
                    self._waiting -= _counted(record)
                await self.response.write(record)
                self._written.set()
            if not gone.done():
                await self.response.write_eof()
        except ConnectionError:
            pass  # the peer left while we wrote; that is an end like any other
        finally:
            self._ended = True
            self._written.set()
            if self._lingering is not None:
                self._lingering.cancel()


def _counted(record: bytes) -> int:
    """Return what a record counts towards MAX_WAITING.

    A large one, as the state of a whole cluster is, counts as half: it may wait, with small ones after it.
    """
    return min(len(record), MAX_WAITING // 2)


class OpenStreams(weakref.WeakSet["EventStream"]):
    """The streams of one application that nobody has dropped yet."""


_STREAMS = web.AppKey("streams", OpenStreams)


async def close_streams(app: web.Application) -> None:
    """End every open stream of an application, so that it can stop."""
    streams = app[_STREAMS]
    for stream in list(streams):
        stream.close()


def track_streams(app: web.Application) -> None:
    """Prepare an application for EventStream.open; to be called before it starts."""
    app[_STREAMS] = OpenStreams()


def lost(request: web.Request) -> asyncio.Future[None]:
    """Return what is done when the peer of `request` is gone; forever pending where no Front listens."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    if isinstance(protocol, Front):
        return protocol.lost
    pending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if protocol is None:
        pending.set_result(None)
    return pending
