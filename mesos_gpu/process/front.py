"""The listening side of one port: a connection carries libprocess messages or HTTP, told by its first head."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import cast

from mesos_gpu.mesos.libprocess import ACCEPTED, MAX_HEAD, NOT_FOUND, Message, MessageDecoder, is_message_head
from mesos_gpu.mesos.security.tls_settings import CLIENT_HELLO

log = logging.getLogger(__name__)

HEAD_S = 30.0
"""How long the head of a request, or of the first message, may take once it has begun."""


class Use(Enum):
    """What a connection is of use for now."""

    NOTHING = "no request or message has come whole"
    MESSAGES = "messages of another program"
    IDLE = "it has been answered, and may ask again"
    BODY = "a request whose body has not come whole"
    ANSWER = "a request is being answered"


class Front(asyncio.Protocol):
    """One incoming connection. HTTP is handed on to `http`; messages go to `deliver`, which says if the target exists.

    A libprocess peer may write its message and close at once: whatever arrived before the end is still delivered,
    which is why messages do not go through the HTTP server. `may_send` says, once, whether its messages are taken.
    """

    def __init__(
        self,
        http: Callable[[], asyncio.Protocol],
        deliver: Callable[[Message], bool],
        may_send: Callable[[asyncio.Transport], bool] = lambda transport: True,
        number: int = 0,
    ) -> None:
        self._make_http, self._deliver, self._may_send = http, deliver, may_send
        self._head: bytearray | None = bytearray()
        self._http: asyncio.Protocol | None = None
        self.number = number
        """Which one it is of those that were accepted."""
        self._decoder = MessageDecoder(number)
        self._transport: asyncio.Transport | None = None
        self._unwanted = False
        self._loop = asyncio.get_running_loop()
        self._patience: asyncio.TimerHandle | None = None
        self.use, self.since_s = Use.NOTHING, self._loop.time()
        """What the connection is of use for, and since when on the loop's clock."""
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when the peer is gone; streams wait for it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport until it is known what the connection carries."""
        self._transport = cast(asyncio.Transport, transport)
        if self._unwanted:
            self._transport.abort()

    @property
    def sending(self) -> bool:
        """Return whether the peer has yet to read what it was sent."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def begin(self, use: Use) -> None:
        """Take note of what the connection is of use for from now on: a whole head has come, or it was answered."""
        self.use, self.since_s = use, self._loop.time()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def data_received(self, data: bytes) -> None:
        """Tell messages from HTTP at the end of the first head, then pass everything on."""
        if self.use in (Use.NOTHING, Use.IDLE) and self._patience is None:
            # Begun with the first byte: a link of another program says nothing until it has something to say.
            self._patience = self._loop.call_later(HEAD_S, self._give_up)
        if self._http is not None:
            self._http.data_received(data)
            return
        if self._head is None:
            self._messages(data)
            return
        if not self._head and data[0] == CLIENT_HELLO and self._transport is not None:
            # Said at once: the peer would wait for an answer to its handshake, and this end for a request.
            peer = self._transport.get_extra_info("peername")
            where = "{}:{}".format(*peer) if peer else "a program of this machine"
            log.warning("no connection with %s: it speaks TLS, which is off here", where)
            self._transport.abort()
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= MAX_HEAD:
            return
        first, self._head = bytes(self._head), None
        if end >= 0 and is_message_head(first[: end + 2]):
            if self._transport is not None and not self._may_send(self._transport):
                where = self._transport.get_extra_info("peername")
                log.warning("messages from %s are refused: the program does not run as root or as this user", where)
                self._transport.abort()
                return
            self.begin(Use.MESSAGES)
            self._messages(first)
        elif self._transport is not None:
            self._http = self._make_http()
            self._http.connection_made(self._transport)
            self._http.data_received(first)

    def eof_received(self) -> bool | None:
        """Let the transport close, unless the HTTP server wants to go on."""
        return None if self._http is None else self._http.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the HTTP server and whoever waits for `lost`."""
        if self._http is not None:
            self._http.connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)
        if self._patience is not None:
            self._patience.cancel()
        # asyncio of Python 3.10 takes a TLS transport for open until it is closed from this end, too.
        self.close()

    def close(self) -> None:
        """Close the connection if it is still open; HTTP answers that were written still leave."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection if it is still open, or once it is made, with whatever was not written yet."""
        self._unwanted = True
        if self._transport is not None and not self.lost.done():
            self._transport.abort()

    def pause_writing(self) -> None:
        """Pass flow control on to the HTTP server."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass flow control on to the HTTP server."""
        if self._http is not None:
            self._http.resume_writing()

    def _give_up(self) -> None:
        self._patience = None
        if self._transport is not None:
            where = self._transport.get_extra_info("peername")
            log.info(
                "closing a connection from %s: a request was begun %g s ago and has not come to its end", where, HEAD_S
            )
            self._transport.abort()

    def _messages(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        for message in self._decoder.feed(data):
            answer = ACCEPTED if self._deliver(message) else NOT_FOUND
            if not transport.is_closing():
                transport.write(answer)
        if self._decoder.error is not None:
            log.warning("dropping a connection from %s: %s", transport.get_extra_info("peername"), self._decoder.error)
            transport.close()
