"""The cards of a machine and the processes on them: memory, contexts and CUDA's checkpoints. Pure.

Source of the states and of what leads from one to the next: NVIDIA's CUDA Driver API, "CUDA Checkpointing"
(cuCheckpointProcessLock, -Checkpoint, -Restore, -Unlock); of the numbers of refusals: cuda.h, CUresult.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from mesos_gpu.simulated.card import Card

NO_LIMIT = (1 << 64) - 1
MOST_MAPPED = 1 << 20
"""So many allocations a process may have."""


class Code(IntEnum):
    """Why something is refused: numbers of CUresult."""

    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_DEVICE = 101
    INVALID_CONTEXT = 201
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_READY = 600
    NOT_PERMITTED = 800


class Refused(Exception):
    """What was asked is not done."""

    def __init__(self, code: IntEnum) -> None:
        super().__init__(code.name)
        self.code = code


class State(IntEnum):
    """Of a process: numbers of CUprocessState."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks, as the kernel says. `pid` is this machine's number, `inner` that of its own PID namespace.

    `owner` is the container it is in, "" for none; `cgroups` are the paths of its cgroups.
    """

    pid: int
    owner: str = ""
    cgroups: frozenset[str] = frozenset()
    inner: int = 0
    namespace: int = 0


@dataclass(slots=True)
class Process:
    """Who uses cards. `contexts`: the card of each; `memory`: the context and the size of each allocation."""

    peer: Peer
    state: State = State.RUNNING
    locking: bool = False
    contexts: dict[int, int] = field(default_factory=dict)
    memory: dict[int, tuple[int, int]] = field(default_factory=dict)
    tickets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """What is queued: context and stream of each."""

    def used(self, card: int) -> int:
        """Return how much of a card's memory it has, in bytes; nothing while it is checkpointed."""
        return 0 if self.state is State.CHECKPOINTED else self._kept(card)

    def is_on(self, card: int) -> bool:
        """Return whether it has a context on a card."""
        return self.state is not State.CHECKPOINTED and card in self.contexts.values()

    def _kept(self, card: int) -> int:
        return sum(size for context, size in self.memory.values() if self.contexts[context] == card)

    def kept(self) -> dict[int, int]:
        """Return how much of each card's memory it has, also while that is put away."""
        return {card: self._kept(card) for card in sorted(set(self.contexts.values()))}


class Machine:
    """All cards. `sizes`: the memory of each in bytes, by the minor number of its node."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = dict(sizes)
        self.cards = {card: Card() for card in sizes}
        self.processes: dict[int, Process] = {}
        self.done_ns: dict[int, int] = {}
        """When the events were reached that somebody asks after, by ticket."""
        self._limits: dict[tuple[int, str], tuple[int, int]] = {}
        self._events: dict[int, int] = {}
        self._whose: dict[int, int] = {}
        self._number = 0

    def add(self, card: int, size: int) -> None:
        """Have a card more: an instance of one in MIG mode."""
        self.sizes[card], self.cards[card] = size, Card()

    def remove(self, card: int) -> None:
        """Have a card less, which nobody is on."""
        del self.sizes[card], self.cards[card]

    # --- memory and contexts --------------------------------------------------------------------------------------

    def open(self, peer: Peer, card: int) -> int:
        """Begin a context of a process on a card; return its number."""
        self._card(card)
        process = self.processes.setdefault(peer.pid, Process(peer))
        context = self._next()
        process.contexts[context] = card
        self.cards[card].open(context, peer.pid, peer.owner)
        return context

    def close(self, pid: int, context: int) -> list[int]:
        """End a context: its memory is free, and what it had queued is not done. Return the tickets of that."""
        process, card = self._context(pid, context)
        for number in [number for number, (of, _) in process.memory.items() if of == context]:
            del process.memory[number]
        del process.contexts[context]
        return self._forget(process, self.cards[card].close(context))

    def end(self, pid: int) -> list[int]:
        """Forget a process that has ended; return the tickets of what is not done now."""
        process = self.processes.get(pid)
        if process is None:
            return []
        lost = [ticket for context in list(process.contexts) for ticket in self.close(pid, context)]
        for ticket in [ticket for ticket, of in self._events.items() if of == pid]:
            self.forget_event(pid, ticket)
        del self.processes[pid]
        return lost

    def allocate(self, pid: int, context: int, size: int) -> int:
        """Take memory; return its number. Raises Refused when the card, or the limit of its cgroup, has less."""
        process, card = self._context(pid, context)
        if size <= 0 or len(process.memory) >= MOST_MAPPED:
            raise Refused(Code.INVALID_VALUE)
        if size > self.room(process.peer, card)[0]:
            raise Refused(Code.OUT_OF_MEMORY)
        number = self._next()
        process.memory[number] = (context, size)
        return number

    def free(self, pid: int, number: int) -> None:
        """Give memory back."""
        process = self.processes.get(pid)
        if process is None or process.memory.pop(number, None) is None:
            raise Refused(Code.INVALID_VALUE)

    def room(self, peer: Peer, card: int) -> tuple[int, int]:
        """Return what a process may still take of a card, and what it sees as all of it: its cgroup's limit, if any."""
        total = self._card(card)
        free = total - self.used(card)
        shown = total
        for (of, path), (_, hard) in self._limits.items():
            if of == card and any(_is_within(cgroup, path) for cgroup in peer.cgroups):
                free = min(free, max(0, hard - self.used(card, path)))
                shown = min(shown, hard)
        return max(0, free), shown

    def on(self, pid: int, context: int) -> int:
        """Return the card that a context is on now."""
        return self._context(pid, context)[1]

    def used_by(self, peer: Peer, card: int) -> int:
        """Return how much of a card's memory the container of a process has, in bytes; outside of one, the process."""
        self._card(card)
        return sum(
            process.used(card)
            for process in self.processes.values()
            if (process.peer.owner == peer.owner if peer.owner else process.peer.pid == peer.pid)
        )

    def used(self, card: int, cgroup: str | None = None) -> int:
        """Return how much of a card's memory is taken, in bytes: by all, or by those in a cgroup."""
        return sum(
            process.used(card)
            for process in self.processes.values()
            if cgroup is None or any(_is_within(one, cgroup) for one in process.peer.cgroups)
        )

    def limit(self, card: int, cgroup: str, soft: int, hard: int) -> None:
        """Limit what the processes in a cgroup may take of a card, in bytes. Source: nvmlDeviceSetMemoryLimits_v1."""
        total = self._card(card)
        if soft > hard or soft > total:
            raise Refused(Code.INVALID_VALUE)
        if not soft and hard == NO_LIMIT:
            self._limits.pop((card, _path(cgroup)), None)
        else:
            self._limits[card, _path(cgroup)] = (soft, hard)

    def limits(self, card: int, cgroup: str) -> tuple[int, int, int]:
        """Return soft and hard limit of a cgroup, and what it has taken of the card, in bytes."""
        self._card(card)
        soft, hard = self._limits.get((card, _path(cgroup)), (0, NO_LIMIT))
        return soft, hard, self.used(card, _path(cgroup))

    def on_card(self, card: int) -> Iterator[Process]:
        """Yield who has a context on a card."""
        self._card(card)
        yield from (process for process in self.processes.values() if process.is_on(card))

    # --- work -----------------------------------------------------------------------------------------------------

    def submit(self, pid: int, context: int, stream: int, takes_ns: int, now_ns: int, *, event: bool = False) -> int:
        """Queue a kernel, or the reaching of an event; return its ticket."""
        process, card = self._context(pid, context)
        ticket = self._next()
        process.tickets[ticket] = (context, stream)
        self._whose[ticket] = pid
        if event:
            self._events[ticket] = pid
        self.cards[card].submit(context, ticket, takes_ns, now_ns)
        return ticket

    def queued(self, pid: int, context: int | None = None, stream: int | None = None) -> frozenset[int]:
        """Return the tickets of a process, of one of its contexts, or of a stream of that, which are not done."""
        process = self.processes.get(pid)
        if process is None:
            return frozenset()
        return frozenset(
            ticket
            for ticket, (of, at) in process.tickets.items()
            if (context is None or of == context) and (stream is None or at == stream)
        )

    def event(self, pid: int, ticket: int) -> int | None:
        """Return when an event was reached, None when it was not."""
        if self._events.get(ticket) != pid:
            raise Refused(Code.INVALID_HANDLE)
        return self.done_ns.get(ticket)

    def forget_event(self, pid: int, ticket: int) -> None:
        """Remember an event no more."""
        if self._events.get(ticket) == pid:
            del self._events[ticket]
            self.done_ns.pop(ticket, None)

    def advance(self, now_ns: int) -> list[tuple[int, int]]:
        """Let the time go by; return the tickets of what was done, each with its process."""
        found = []
        for card in self.cards.values():
            for ticket, done_ns in card.advance(now_ns):
                pid = self._whose.pop(ticket)
                del self.processes[pid].tickets[ticket]
                if ticket in self._events:
                    self.done_ns[ticket] = done_ns
                found.append((ticket, pid))
        return found

    def next_ns(self) -> int | None:
        """Return when something happens next, None while nobody has work."""
        return min((at for card in self.cards.values() if (at := card.next_ns()) is not None), default=None)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def process(self, pid: int) -> Process:
        """Return a process that uses cards. Raises Refused for another."""
        try:
            return self.processes[pid]
        except KeyError:
            raise Refused(Code.INVALID_VALUE) from None

    def begin_lock(self, pid: int) -> frozenset[int]:
        """Let a process submit nothing more; return the tickets of what it waits for to be locked."""
        process = self.process(pid)
        if process.state is not State.RUNNING or process.locking:
            raise Refused(Code.ILLEGAL_STATE)
        process.locking = True
        return self.queued(pid)

    def end_lock(self, pid: int, *, locked: bool) -> None:
        """Have what was begun: the process is locked, or runs on because it took too long."""
        process = self.process(pid)
        process.locking = False
        if locked:
            process.state = State.LOCKED

    def checkpoint(self, pid: int) -> None:
        """Put the memory of a locked process away: it is on no card any more."""
        self._is(pid, State.LOCKED).state = State.CHECKPOINTED

    def restore(self, pid: int, moved: Mapping[int, int]) -> None:
        """Put memory back, onto other cards where `moved` says so; the process stays locked.

        Raises Refused when a card has no room for it, or another size.
        """
        process = self._is(pid, State.CHECKPOINTED)
        wanted: dict[int, int] = {}
        for card, size in process.kept().items():
            to = moved.get(card, card)
            if self._card(to) != self._card(card):
                raise Refused(Code.INVALID_DEVICE)
            wanted[to] = wanted.get(to, 0) + size
        if any(size > self.room(process.peer, card)[0] for card, size in wanted.items()):
            raise Refused(Code.OUT_OF_MEMORY)
        for context, card in process.contexts.items():
            to = moved.get(card, card)
            if to != card:
                self.cards[card].close(context)
                self.cards[to].open(context, pid, process.peer.owner)
                process.contexts[context] = to
        process.state = State.LOCKED

    def unlock(self, pid: int) -> None:
        """Let a locked process go on."""
        self._is(pid, State.LOCKED).state = State.RUNNING

    def _is(self, pid: int, state: State) -> Process:
        process = self.process(pid)
        if process.state is not state:
            raise Refused(Code.ILLEGAL_STATE)
        return process

    def _card(self, card: int) -> int:
        try:
            return self.sizes[card]
        except KeyError:
            raise Refused(Code.INVALID_DEVICE) from None

    def _context(self, pid: int, context: int) -> tuple[Process, int]:
        process = self.processes.get(pid)
        if process is None or context not in process.contexts:
            raise Refused(Code.INVALID_CONTEXT)
        return process, process.contexts[context]

    def _forget(self, process: Process, tickets: list[int]) -> list[int]:
        for ticket in tickets:
            del process.tickets[ticket], self._whose[ticket]
        return tickets

    def _next(self) -> int:
        self._number += 1
        return self._number


def _is_within(cgroup: str, limit: str) -> bool:
    return cgroup == limit or cgroup.startswith(f"{limit}/")


def _path(cgroup: str) -> str:
    """Return a cgroup's path in its hierarchy, of one that may be that of its folder."""
    return "/" + cgroup.removeprefix("/sys/fs/cgroup").strip("/")
