"""A card that is simulated: kernels that take a time and nothing else, of all containers in one queue.

A client connects to its socket and writes `K 2.5`, a kernel of 2.5 ms, as often as it likes; each is answered by `D`
when it is done. `S` is answered by one line of JSON: by container, seconds used, whether it is connected, whether it
waits. `A 512` takes 512 MiB of memory in place of what the client had, answered by `A`; `M` is answered by what each
container has, in MiB. Who a client is the kernel says (SO_PEERCRED, /proc/PID/cgroup), so that no container can charge
another. What was queued is done also when its container is frozen or gone, as on a real card. `Q` of who is in no
container ends it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ALONE_S = 3.0
"""How long a card is there for nobody."""
_UCRED = struct.Struct("3i")


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    owner: str
    heard: bytes = b""
    gone: bool = False
    ends: bool = False
    queued: int = 0
    memory_mib: int = 0


@dataclass(slots=True)
class SimulatedCard:
    """The queue and the accounts of one card, without sockets."""

    used_s: dict[str, float] = field(default_factory=dict)
    _queue: deque[tuple[_Client, float]] = field(default_factory=deque)
    _begun_s: float | None = None

    def submit(self, client: _Client, seconds: float, now_s: float) -> None:
        """Queue a kernel."""
        client.queued += 1
        self._queue.append((client, seconds))
        if self._begun_s is None:
            self._begun_s = now_s

    def done(self, now_s: float) -> list[_Client]:
        """Return whose kernels have ended by now, one entry each, in order."""
        ended = []
        while self._queue and self._begun_s is not None and self._begun_s + self._queue[0][1] <= now_s:
            client, seconds = self._queue.popleft()
            self._begun_s += seconds
            self.used_s[client.owner] = self.used_s.get(client.owner, 0.0) + seconds
            client.queued -= 1
            ended.append(client)
        if not self._queue:
            self._begun_s = None
        return ended

    def next_s(self) -> float | None:
        """Return when the kernel that runs ends, None when none does."""
        return None if self._begun_s is None else self._begun_s + self._queue[0][1]


def memory_of(clients: Iterable[_Client]) -> dict[str, int]:
    """Return what each container has of the memory, in MiB: the sum over its clients."""
    found: dict[str, int] = {}
    for client in clients:
        if client.owner and client.memory_mib:
            found[client.owner] = found.get(client.owner, 0) + client.memory_mib
    return found


def owner_of(pid: int, root: str) -> str:
    """Return the container that a process is in, by its cgroup below `root`; "" for none."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
    found = re.search(rf"/{re.escape(root)}/([^/\n]+)", text)
    return found[1] if found else ""


def main(path: str, root: str) -> None:
    """Serve a card at a socket; it outlives its agent, as a card does, and ends when it has no client either."""
    Path(path).unlink(missing_ok=True)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    Path(path).chmod(0o666)
    listener.listen(64)
    card, clients = SimulatedCard(), dict[int, _Client]()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    parent, needed_s = os.getppid(), time.monotonic()
    while time.monotonic() - needed_s < ALONE_S:
        if any(client.ends for client in clients.values()):
            break
        if clients or os.getppid() == parent:
            needed_s = time.monotonic()
        now_s, next_s = time.monotonic(), card.next_s()
        for key, _ in selector.select(1.0 if next_s is None else max(0.0, min(1.0, next_s - now_s))):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                pid, _, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
                clients[connection.fileno()] = _Client(connection, owner_of(pid, root))
                selector.register(connection, selectors.EVENT_READ)
            else:
                _hear(clients, key.fd, card, selector)
        _tell_done(card, time.monotonic())
    Path(path).unlink(missing_ok=True)


def _hear(clients: dict[int, _Client], number: int, card: SimulatedCard, selector: selectors.BaseSelector) -> None:
    client = clients[number]
    try:
        part = client.connection.recv(65536)
    except OSError:
        part = b""
    if not part:
        selector.unregister(client.connection)
        client.connection.close()
        client.gone = True
        del clients[number]
        return
    *lines, client.heard = (client.heard + part).split(b"\n")
    now_s = time.monotonic()
    _tell_done(card, now_s)
    for line in lines:
        if line == b"S":
            present = {one.owner: one for one in clients.values() if one.owner}
            waiting = {one.owner for one in clients.values() if one.queued}
            names = {*card.used_s, *present}
            told = {one: [card.used_s.get(one, 0.0), one in present, one in waiting] for one in names if one}
            _answer(client, json.dumps(told).encode() + b"\n")
        elif line == b"M":
            _answer(client, json.dumps(memory_of(clients.values())).encode() + b"\n")
        elif line.startswith(b"A ") and line[2:].isdigit():
            client.memory_mib = int(line[2:])
            _answer(client, b"A\n")
        elif line == b"Q":
            client.ends = not client.owner
        elif line.startswith(b"K "):
            card.submit(client, _seconds(line[2:]), now_s)


def _tell_done(card: SimulatedCard, now_s: float) -> None:
    for client in card.done(now_s):
        if not client.gone:
            _answer(client, b"D\n")


def _seconds(text: bytes) -> float:
    """Return the time of a kernel, 10 s at most; what is no time is none."""
    try:
        return min(10.0, max(0.0, float(text) / 1000))
    except ValueError:
        return 0.0


def _answer(client: _Client, words: bytes) -> None:
    try:
        client.connection.send(words, socket.MSG_DONTWAIT)
    except OSError:
        pass  # it does not listen
