"""TLS for clients that cannot speak it: a port on the loopback for each peer, whose bytes go on to the peer over TLS.

pymesos speaks plain HTTP alone. What it says to such a port leaves this process encrypted, to a peer that was verified.
The port is for this user alone: whoever else on this machine connects is hung up on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, cast

from mesos_gpu.base.linux.peers import uid_of_socket
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.leader import DEFAULT_MASTER_PORT, HostPort
from mesos_gpu.process.detector import resolve
from mesos_gpu.process.links import close_all
from mesos_gpu.process.secure.tls import Tls
from mesos_gpu.process.secure.tls_context import tls_problem

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_NO_ROOM_PAUSE_S = 1.0
_REFUSED_PAUSE_S = 0.25
Owner = Callable[[tuple[str, int]], "int | None"]


class _Side(asyncio.Protocol):
    """One end of a connection through the tunnel; what comes in leaves at the `other`, as fast as that takes it."""

    def __init__(self, open_sides: set[_Side]) -> None:
        self.transport: asyncio.Transport | None = None
        self._open_sides = open_sides
        self._other: _Side | None = None
        self._early = bytearray()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the other side: until then nothing more is read."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()
        self._open_sides.add(self)

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        if self._other is None:
            self._early += data
        else:
            self._other.write(data)

    def join(self, other: _Side) -> None:
        """Let each have what the other gets."""
        self._other, other._other = other, self
        for one, its in ((self, other), (other, self)):
            its.write(bytes(one._early))
            one._early.clear()
            one.read_on()
        for one, its in ((self, other), (other, self)):
            if one.gone.done():
                its.close()

    def write(self, data: bytes) -> None:
        """Send bytes, if the peer is still there."""
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def read_on(self) -> None:
        """Read again."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def close(self) -> None:
        """Close, once all that was written has left."""
        if self.transport is not None:
            self.transport.close()

    def drop(self) -> None:
        """Be rid of the connection, whatever its peer does."""
        if self.transport is not None:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Let the other side wait: the peer here is slower."""
        other = self._other
        if other is not None and other.transport is not None and not other.transport.is_closing():
            other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the other side go on."""
        if self._other is not None:
            self._other.read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, too."""
        self.gone.set_result(None)
        self._open_sides.discard(self)
        self.close()  # as in Front.connection_lost
        if self._other is not None:
            self._other.close()


class Tunnel:
    """The ports of one program. Made and closed in its event loop; `through` may be called from any thread."""

    def __init__(self, tls: Tls, *, owner_of: Owner | None = None) -> None:
        """`owner_of` tells whose a socket of this machine is; by default the kernel is asked."""
        self._tls, self._owner_of = tls, owner_of or uid_of_socket
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._ports: dict[str, socket.socket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sides: set[_Side] = set()

    def through(self, peer: str) -> str:
        """Return the address (`127.0.0.1:port`) at which `peer` is to be had: `host:port`, or `host` of a master."""
        with self._lock:
            listening = self._ports.get(peer)
            if listening is None:
                listening = self._ports[peer] = socket.create_server((LOOPBACK, 0))
                listening.setblocking(False)
                self._loop.call_soon_threadsafe(self._spawn_accepting, listening, peer)
            return f"{LOOPBACK}:{listening.getsockname()[1]}"

    async def close(self) -> None:
        """Close all ports and connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        sides = list(self._sides)
        for side in sides:
            side.close()
        await close_all({side.gone: side.drop for side in sides})
        for listening in self._ports.values():
            listening.close()

    def _spawn_accepting(self, listening: socket.socket, peer: str) -> None:
        host, _, port = peer.partition(":")
        self._spawn(self._accept(listening, HostPort(host, int(port or DEFAULT_MASTER_PORT))))

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket, peer: HostPort) -> None:
        while True:
            try:
                connection, source = await self._loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept connections to %s for now: %s", peer, error.strerror)
                await asyncio.sleep(_NO_ROOM_PAUSE_S)
                continue
            if self._owner_of(source) not in (os.geteuid(), 0):
                log.warning(
                    "closing the connection of %s:%d: the tunnel to %s is for this user alone", *source[:2], peer
                )
                connection.close()
            else:
                self._spawn(self._serve(connection, peer))

    async def _serve(self, connection: socket.socket, peer: HostPort) -> None:
        near, far = _Side(self._sides), _Side(self._sides)
        await self._loop.connect_accepted_socket(lambda: near, connection)
        try:
            pid = await resolve(peer)
            await self._tls.connect(lambda: far, pid.address, pid.host)
        except (OSError, Unavailable) as error:
            log.warning("cannot connect to %s: %s", peer, tls_problem(error))
            # Its client thinks that it was connected, and one that tries again at once would never rest.
            await asyncio.wait([near.gone], timeout=_REFUSED_PAUSE_S)
            near.close()
        else:
            near.join(far)
