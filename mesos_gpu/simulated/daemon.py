"""The program that plays the cards: sockets in, `Desk` asked, answers out. It outlives its agent, as a card does.

It ends when it has had no client for `ALONE_S`, after its begin `FIRST_S`; the agent is one as long as it runs.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.simulated.desk import Answers, Desk
from mesos_gpu.simulated.divided import kept
from mesos_gpu.simulated.division import Divisions, Profile, shown
from mesos_gpu.simulated.listeners import LISTEN, bound
from mesos_gpu.simulated.machine import Machine
from mesos_gpu.simulated.peers import may_use, may_use_part, peer_of

ALONE_S = 3.0
"""How long the cards are there for nobody."""
FIRST_S = 30.0
"""How long for nobody yet: on a busy machine the agent may be long about the rest of its start."""
LONGEST_SLEEP_S = 1.0
HEAR = 65536


class Daemon:
    """The cards behind their sockets. `root` is the name of the containers' cgroup.

    `profiles` are those of cards in MIG mode, whose instances are kept in the file `divided`: they outlive it.
    """

    def __init__(
        self,
        sizes: Mapping[int, int],
        root: str,
        profiles: Mapping[int, Sequence[Profile]] | None = None,
        divided: Path | None = None,
    ) -> None:
        machine, self._divided = Machine(sizes), divided
        self._desk, self._root = Desk(machine, Divisions(machine, profiles, kept(divided))), root
        self._kept = self._divisions()
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}
        self._control: set[int] = set()
        self._unsent: dict[int, bytes] = {}

    def listen(self, listener: socket.socket, card: int | None, *, control: bool = False) -> None:
        """Serve who connects at the socket of a card, or of the driver; at `control` more listeners are handed in."""
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, (card, control))

    def serve(self) -> None:
        """Serve until nobody is left, or somebody outside of containers says to end."""
        needed_s, alone_s, agent = time.monotonic(), FIRST_S, os.getppid()
        while time.monotonic() - needed_s < alone_s and not self._desk.ends():
            if self._clients:
                needed_s, alone_s = time.monotonic(), ALONE_S
            elif os.getppid() != agent:
                alone_s = ALONE_S  # it was given up as it began, and nobody will come for it
            for key, events in self._selector.select(self._wait_s()):
                if key.data is not None:
                    self._accept(key.fileobj, *key.data)  # type: ignore[arg-type]
                elif events & selectors.EVENT_READ:
                    self._hear(key.fd)
                elif key.fd in self._clients:
                    self._send(key.fd, b"")
            self._tell(self._desk.tick(time.monotonic_ns()))

    def _wait_s(self) -> float:
        next_ns = self._desk.next_ns()
        if next_ns is None:
            return LONGEST_SLEEP_S
        return max(0.0, min(LONGEST_SLEEP_S, (next_ns - time.monotonic_ns()) / 1e9))

    def _accept(self, listener: socket.socket, card: int | None, control: bool) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        number = connection.fileno()
        peer = peer_of(connection, self._root)
        self._clients[number] = connection
        if control and not peer.owner:
            self._control.add(number)
        self._desk.come(number, peer, card, partial(may_use, peer), partial(may_use_part, peer))
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, number: int) -> None:
        connection = self._clients.get(number)
        if connection is None:
            return
        try:
            if number in self._control:
                data, descriptors, _, _ = socket.recv_fds(connection, HEAR, 1)
                if descriptors:
                    self.listen(socket.socket(fileno=descriptors[0]), None)
                    data = data.replace(LISTEN, b"", 1)
                    self._send(number, b"ok\n")
                    if not data:
                        return
            else:
                data = connection.recv(HEAR)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            answers = self._desk.hear(number, data, time.monotonic_ns())
            self._keep()
            self._tell(answers)
        else:
            self._gone(number)

    def _divisions(self) -> dict[str, object]:
        return {str(card): shown(division) for card, division in self._desk.divisions.cards.items()}

    def _keep(self) -> None:
        """Write the instances down where they have changed, before anybody hears of it."""
        if self._divided is None or (now := self._divisions()) == self._kept:
            return
        write_whole(self._divided, json.dumps(now).encode(), mode=PUBLIC, durable=False)
        self._kept = now

    def _gone(self, number: int) -> None:
        connection = self._clients.pop(number)
        self._selector.unregister(connection)
        self._control.discard(number)
        self._unsent.pop(number, None)
        connection.close()
        self._tell(self._desk.go(number, time.monotonic_ns()))

    def _tell(self, answers: Answers) -> None:
        for number, words in answers:
            if number in self._clients:
                self._send(number, words)

    def _send(self, number: int, words: bytes) -> None:
        """Send what a client is ready to take; the rest waits until it is, and no more than a little of that."""
        connection, words = self._clients[number], self._unsent.pop(number, b"") + words
        try:
            sent = connection.send(words)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is gone, which is heard next
        if sent < len(words):
            self._unsent[number] = words[sent:][-HEAR:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if number in self._unsent else 0)
        self._selector.modify(connection, events)


def main(
    root: str,
    control: str,
    cards: Mapping[int, tuple[int, str]],
    profiles: Mapping[int, Sequence[Profile]],
    divided: str,
) -> None:
    """Serve cards of these sizes, each at a socket of its own where it has a path, and at the driver's."""
    sizes = {card: size for card, (size, _) in cards.items()}
    daemon = Daemon(sizes, root, profiles, Path(divided) if divided else None)
    paths = [Path(path) for _, path in cards.values() if path]
    for card, (_, path) in cards.items():
        if path:
            daemon.listen(bound(Path(path)), card)
    if control:
        paths.append(Path(control))
        daemon.listen(bound(Path(control)), None, control=True)
    daemon.serve()
    for place in paths:
        place.unlink(missing_ok=True)
