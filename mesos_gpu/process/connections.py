"""How many connections one port holds, which gives way when there is no room, and what newer ones have overtaken."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import weakref
from collections.abc import Callable, Iterator

from mesos_gpu.mesos.libprocess import Message, Pid
from mesos_gpu.process.front import Front, Use

log = logging.getLogger(__name__)

RESERVED = 128
"""File descriptors that are kept for all else: files, programs, links to others."""
LEAST = 32
NO_ROOM_PAUSE_S = 1.0
SAY_EVERY_S = 10.0
ACCEPTED_AT_ONCE = 64
# Who gives way first: who has not even asked for anything, then who may ask again, then who has not said all.
_EVICTED = (Use.NOTHING, Use.IDLE, Use.BODY)


def most_connections() -> int:
    """Return how many connections this process may hold: as many as it may open files, less RESERVED."""
    return max(LEAST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED)


class Connections:
    """The connections of one port. What carries messages of other programs, or is being answered, never gives way."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most_connections() if most is None else most
        self._fronts: weakref.WeakSet[Front] = weakref.WeakSet()
        self._said_s = -SAY_EVERY_S
        self.closing = False
        """Whether who comes now is hung up on."""

    def __iter__(self) -> Iterator[Front]:
        return iter(list(self._fronts))

    def admit(self, front: Front) -> None:
        """Take in a connection that was just accepted; another is dropped when there are too many, or else this."""
        full = len(self._fronts) >= self._most and sum(not one.lost.done() for one in self._fronts) >= self._most
        if self.closing or (full and not self.make_room()):
            front.abort()
            return
        self._fronts.add(front)

    def make_room(self) -> bool:
        """Drop the connection that has been of no use for longest; return whether there was one."""
        found = [one for one in self._fronts if not one.lost.done() and not one.sending and one.use in _EVICTED]
        self._say(f"{len(self._fronts)} connections are open, as many as there is room for")
        if not found:
            return False
        last = min(found, key=lambda one: (_EVICTED.index(one.use), one.since_s))
        last.abort()
        self._fronts.discard(last)
        return True

    def _say(self, words: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s >= SAY_EVERY_S:
            self._said_s = now_s
            log.warning("%s: those that are idle give way (raise the limit of open files, `ulimit -n`)", words)


class Overtaking:
    """Which connection each sender has spoken over last, while that is open.

    A kernel may deliver what a process sent long after its end. libprocess names a process by its address, so the one
    before has the name of the one that is there now; what tells them apart is that each has made its own connection.
    Mesos takes such messages.
    """

    def __init__(self, is_open: Callable[[int], bool]) -> None:
        """`is_open` tells whether a connection, by its number, is still there."""
        self._is_open = is_open
        self._newest: dict[Pid, int] = {}

    def is_late(self, message: Message) -> bool:
        """Take note of a message; return whether its sender has spoken over a newer connection, which is open.

        One that is closed does not count: who has lost it speaks over another, or will say everything again.
        """
        newest = self._newest.get(message.sender, 0)
        late = 0 < message.connection < newest and self._is_open(newest)
        if not late:
            self._note(message)
        return late

    def is_older(self, message: Message) -> bool:
        """The same, of what is said again in any case: whether its sender has spoken over a newer one, open or not.

        The connection should be hung up, so that who lives after all says it over another.
        """
        older = 0 < message.connection < self._newest.get(message.sender, 0)
        if not older:
            self._note(message)
        return older

    def _note(self, message: Message) -> None:
        if message.connection:
            self._newest[message.sender] = message.connection


class Listener:
    """A port without TLS. asyncio's own server, out of file descriptors, logs a traceback for each of its backlog."""

    def __init__(self, listening: socket.socket, make: Callable[[], Front], connections: Connections) -> None:
        """Accept from `listening` from now on."""
        self._socket, self._make, self._connections = listening, make, connections
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    @property
    def port(self) -> int:
        """Return the port."""
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        """Accept nobody more; closing twice is closing once."""
        if self._socket.fileno() < 0:
            return
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait(error)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._serve(connection))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    def _wait(self, error: OSError) -> None:
        """Accept again in a while, when somebody has made room."""
        log.error("cannot accept connections for now: %s", error.strerror)
        self._connections.make_room()
        self._loop.remove_reader(self._socket)
        self._later = self._loop.call_later(NO_ROOM_PAUSE_S, self._loop.add_reader, self._socket, self._accept)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError as error:
            log.debug("a connection broke before it was served: %s", error)
            connection.close()
