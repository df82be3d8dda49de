"""A program that holds the terminal of one container: it outlives the agent, as Mesos' mesos-io-switchboard does.

conmon can hold a terminal, but writes what it says into a log of its own format only, or nowhere; a sandbox has it as
it was said. So this is run beside conmon, by its path and with nothing but the standard library:

    python -I -S holder.py BUNDLE CONSOLE ATTACH <null >SANDBOX/stdout

CONSOLE and ATTACH are descriptors of listening sockets. The runtime sends the terminal to the first. Agents connect to
the second (SOCK_SEQPACKET): each is sent the terminal too, to type into it, and what is said while it listens, in
packets that begin with SAID. It says LISTEN and MUTE. One that does not take what it listens to is sent GAP, and hears
nothing more until it says LISTEN again: nobody's slowness keeps the container from going on. BUNDLE is there to be
found by. It ends with the terminal, when all processes on that have.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections import deque

SAID, GAP, TERMINAL = b"s", b"g", b"t"
LISTEN, MUTE = b"1", b"0"
AT_ONCE = 16384
MAX_BEHIND = 1 << 20
LAST_WORDS_S = 2.0
"""How long an agent may take for the end of what it listens to."""


class Listener:
    """One agent."""

    def __init__(self, connection: socket.socket, terminal: int) -> None:
        self.connection = connection
        self.gone = self._listens = False
        self._waiting: deque[bytes] = deque()
        self._behind = 0
        connection.setblocking(False)
        try:
            socket.send_fds(connection, [TERMINAL], [terminal])
        except OSError:
            self.gone = True

    @property
    def interest(self) -> int:
        """Return the events of poll(2) to wake up for."""
        return select.POLLIN | (select.POLLOUT if self._waiting else 0)

    def hear(self, data: bytes) -> None:
        """Pass on what was said, if it listens."""
        if not self._listens:
            return
        self._waiting.append(SAID + data)
        self._behind += len(data)
        self.flush()
        if self._behind > MAX_BEHIND:
            self._listens, self._behind = False, 0
            self._waiting.clear()
            self._waiting.append(GAP)

    def obey(self) -> None:
        """Read what it wants."""
        try:
            word = self.connection.recv(16)
        except BlockingIOError:
            return
        except OSError:
            word = b""
        self.gone = self.gone or not word
        self._listens = word == LISTEN

    def flush(self) -> None:
        """Send what it takes."""
        try:
            while self._waiting:
                self.connection.send(self._waiting[0])
                self._behind -= len(self._waiting.popleft()) - 1
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True

    def end(self) -> None:
        """Send the rest, to one that takes it."""
        self.connection.settimeout(LAST_WORDS_S)
        self.flush()
        self.connection.close()


class Holder:
    """Reads a terminal to its end, into a file and for whoever listens."""

    def __init__(self, terminal: int, door: socket.socket, file: int) -> None:
        self._terminal, self._door, self._file = terminal, door, file
        self._listeners: dict[int, Listener] = {}
        # An agent that has it too may make it so anyhow: this is a property of the terminal, not of the descriptor.
        os.set_blocking(terminal, False)
        door.setblocking(False)

    def run(self) -> None:
        """Return when nobody is on the terminal any more, and all was passed on."""
        open_ = True
        while open_:
            poll = select.poll()
            poll.register(self._terminal, select.POLLIN)
            poll.register(self._door, select.POLLIN)
            for descriptor, listener in self._listeners.items():
                poll.register(descriptor, listener.interest)
            ready = dict(poll.poll())
            # What is said because somebody typed came after he began to listen: so hear that first.
            for descriptor, listener in self._listeners.items():
                if descriptor in ready:
                    self._serve(listener, ready[descriptor])
            if self._door.fileno() in ready:
                self._admit()
            if self._terminal in ready:
                open_ = self._read()
            for descriptor in [one for one, listener in self._listeners.items() if listener.gone]:
                self._listeners.pop(descriptor).connection.close()
        self._door.close()
        for listener in self._listeners.values():
            listener.end()

    def _read(self) -> bool:
        """Pass on what was said; return whether more may come."""
        try:
            data = os.read(self._terminal, AT_ONCE)
        except BlockingIOError:
            return True
        except OSError:  # EIO: its last process is gone
            return False
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            pass  # the disk is full; the container continues, and is heard
        for listener in self._listeners.values():
            listener.hear(data)
        return bool(data)

    def _admit(self) -> None:
        try:
            connection, _ = self._door.accept()
        except OSError:  # it has left already
            return
        self._listeners[connection.fileno()] = Listener(connection, self._terminal)

    def _serve(self, listener: Listener, events: int) -> None:
        if events & select.POLLOUT:
            listener.flush()
        if events & ~select.POLLOUT:
            listener.obey()


def receive(console: socket.socket) -> int | None:
    """Return the terminal that the runtime sends, None when it sends none."""
    connection, _ = console.accept()
    with connection:
        _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
    return descriptors[0] if descriptors else None


def main() -> int:
    """Hold a terminal until its end."""
    console, door = (socket.socket(fileno=int(text)) for text in sys.argv[2:4])
    with console:
        terminal = receive(console)
    if terminal is None:
        return 1
    Holder(terminal, door, sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
