"""The sending side: persistent connections to other processes (links), and temporary ones for single messages.

Messages travel one way per connection; the peer's 202s are read and thrown away. A link is keyed by ip and port and
shared by every local process. Source: Mesos 3rdparty/libprocess/src/process.cpp, SocketManager.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Mapping
from typing import cast

from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.process.secure.tls import Tls

log = logging.getLogger(__name__)
Address = tuple[str, int]
GOODBYE_S = 2.0
"""How long a stop waits for the other ends of connections that were closed."""
REMEMBERED_FAILURES = 1024


class _Link(asyncio.Protocol):
    """One outgoing connection: bytes wait until it is up; `lost` is called once when it breaks or cannot be made."""

    def __init__(self, lost: Callable[[], None], *, close_after: bytes | None = None) -> None:
        self._lost: Callable[[], None] | None = lost
        self._waiting: list[bytes] = []
        self._close_after = close_after
        self._transport: asyncio.Transport | None = None
        self._unwanted = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when there is no connection any more."""
        self.linkers: dict[tuple[str, Pid], None] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        for data in self._waiting:
            self._transport.write(data)
        self._waiting.clear()
        if self._unwanted:
            self._transport.close()
        if self._close_after is not None:
            self._transport.write(self._close_after)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(None)
        if self._transport is not None:
            self._transport.close()  # as in Front.connection_lost
        self.fail()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._waiting.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def fail(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost()

    def drop(self) -> None:
        if self._transport is not None and not self.gone.done():
            self._transport.abort()

    def abort(self, *, silent: bool = False) -> None:
        self._lost, self._unwanted = None, True
        if silent:
            self._waiting.clear()
        if self._transport is None:
            return
        if silent:
            # Closed like that, the kernel forgets what it has yet to send; it would try for minutes otherwise.
            peer = self._transport.get_extra_info("socket")
            if peer is not None:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()  # what was sent just before still leaves


async def close_all(drops: Mapping[asyncio.Future[None], Callable[[], None]]) -> None:
    """Wait until connections that were closed are gone; after GOODBYE_S drop those that are not."""
    if not drops:
        return
    _, left = await asyncio.wait(list(drops), timeout=GOODBYE_S)
    for gone in left:
        drops[gone]()
    if left:
        await asyncio.wait(left, timeout=GOODBYE_S)


class Links:
    """All outgoing connections of one OS process."""

    def __init__(self, exited: Callable[[str, Pid], None], tls: Tls | None = None) -> None:
        """Call `exited(owner, pid)` once per linked pair when a link breaks."""
        self._exited, self._tls = exited, tls
        self._links: dict[Address, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._connected: set[_Link] = set()
        self._unreachable: set[Address] = set()
        """Addresses that could not be connected to last time; the log names each once until it can be reached again."""
        self._stopped = False

    def link(self, owner: str, to: Pid) -> None:
        """Make sure there is a persistent connection to `to`, and remember that `owner` wants to know its end."""
        link = self._links.get(to.address)
        if link is None:
            link = self._links[to.address] = _Link(lambda: self._broken(to.address))
            self._connect(to, link)
        link.linkers[(owner, to)] = None

    def unlink(self, to: Pid, *, silent: bool = False) -> None:
        """Give up the connection to `to`, which may be dead without knowing it; nobody is told.

        With `silent`, what was sent and has not arrived never will.
        """
        link = self._links.pop(to.address, None)
        if link is not None:
            link.abort(silent=silent)

    def write(self, to: Pid, data: bytes) -> None:
        """Send over the link when there is one, else over a connection of its own. A failure loses the message."""
        link = self._links.get(to.address)
        if link is not None:
            link.write(data)
        else:
            self._connect(to, _Link(lambda: None, close_after=data))

    async def stop(self) -> None:
        """Close every connection; nobody is told. A peer that does not say goodbye, as with TLS it should, is left."""
        for link in self._links.values():
            link.abort()
        self._links.clear()
        self._stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close_all({link.gone: link.drop for link in self._connected})

    def _connect(self, to: Pid, link: _Link) -> None:
        if self._stopped:
            return

        async def connect() -> None:
            try:
                if self._tls is None:
                    await asyncio.get_running_loop().create_connection(lambda: link, *to.address)
                else:
                    await self._tls.connect(lambda: link, to.address, to.host)
            except (OSError, Unavailable) as error:
                why = error.strerror if isinstance(error, OSError) else None
                level = logging.DEBUG if to.address in self._unreachable else logging.WARNING
                log.log(level, "cannot connect to %s:%d: %s", *to.address, why or error)
                if len(self._unreachable) >= REMEMBERED_FAILURES:
                    self._unreachable.clear()
                self._unreachable.add(to.address)
                link.fail()
            else:
                self._unreachable.discard(to.address)
                self._connected.add(link)
                link.gone.add_done_callback(lambda _: self._connected.discard(link))

        task = asyncio.get_running_loop().create_task(connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _broken(self, address: Address) -> None:
        link = self._links.pop(address, None)
        for owner, pid in link.linkers if link is not None else ():
            self._exited(owner, pid)
