"""What is said to the simulated cards, and what they answer: lines in, lines out. Pure.

Who asks has one request at a time; a request that waits (`sync`) is answered when what it waits for is done. Answers
are `ok` and what was asked for, or `err` and a number of CUresult. Sizes are bytes, CARD is the minor number of a node;
of a card in MIG mode CARD.SLOT is an instance, and without SLOT the first that the asker has is used.

    context CARD -> ID         close ID                    alloc ID BYTES -> NUMBER     free NUMBER
    room CARD -> FREE TOTAL    left ID -> FREE TOTAL MINE, of its card; MINE: what all of the asker's container has
    launch ID STREAM NS         sync ID [STREAM]            busy ID STREAM: err 600 while it is
    record ID STREAM -> TICKET await TICKET -> NS          reached TICKET -> NS         drop TICKET
    state PID -> STATE         lock PID MS                 checkpoint PID               restore PID [OLD=NEW,...]
    unlock PID                 limit CARD SOFT HARD PATH   limits CARD PATH -> SOFT HARD USED
    card CARD -> BUSY_PERCENT USED TOTAL MINE BUSY_NS, the last since it began
    processes CARD -> PID:BYTES:PERCENT ...
    samples CARD AFTER_US -> TIME_US:PID:PERCENT ...       figures -> JSON, of every card and process
    mig CARD -> SLOT:GI:PROFILE:START:SIZE:COMPUTES:BYTES:UUID:NAME ... that the asker sees; err 3 where it is none
    mig-create CARD PROFILE START UUID -> SLOT                 mig-destroy CARD SLOT, without a compute instance
    mig-compute CARD SLOT      mig-end CARD SLOT, of its compute instance; refused by numbers of nvmlReturn_t
    end                        of who is in no container: the program ends

Who speaks at the socket of one card may also say `K MS`, a kernel, as often as it likes, each answered by `D`; and `S`,
answered by JSON: by container, seconds used, whether it has a context, whether it waits. `A MIB` takes so much memory
in place of what it had so, answered by `A`, or `E` when there is less; `M` is answered by JSON: MiB by container.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mesos_gpu.simulated.division import Divisions, NvmlCode
from mesos_gpu.simulated.figures import by_owner, figures, memory_by_owner, seen_as
from mesos_gpu.simulated.machine import Code, Machine, Peer, Process, Refused, State

LONGEST_NS = 600_000_000_000
"""No kernel takes longer than ten minutes."""
LONGEST_K_NS = 10_000_000_000
MOST_QUEUED = 1024
"""A launch beyond so many that a context has queued waits, as on a real card."""
LONGEST_LINE = 4096

OLD_WORDS = (b"K", b"S", b"Q", b"A", b"M")
CHECKPOINTING = ("state", "lock", "checkpoint", "restore", "unlock")

Answers = list[tuple[int, bytes]]


@dataclass(slots=True)
class Client:
    """A connection. `card`: the one whose socket it is, None at the driver's."""

    peer: Peer
    card: int | None
    may_use: Callable[[int], bool]
    may_use_part: Callable[[int], bool]
    lines: deque[bytes] = field(default_factory=deque)
    heard: bytes = b""
    waits: Wait | None = None
    kernels: int | None = None
    """The context of what it asked for by `K` and `A`."""
    piece: int | None = None
    """The memory that it has by `A`."""
    ends: bool = False


@dataclass(slots=True)
class Wait:
    """For tickets, or until a time; `then` makes the answer, given whether all was done."""

    tickets: set[int]
    then: Callable[[bool], bytes]
    until_ns: int | None = None
    most_left: int = 0


class Desk:
    """The machine's clients. All times are the caller's, in nanoseconds of one clock that never goes back."""

    def __init__(self, machine: Machine, divisions: Divisions | None = None) -> None:
        self.machine = machine
        self.divisions = divisions or Divisions(machine)
        self.clients: dict[int, Client] = {}
        self._told: dict[int, int] = {}
        self._now_ns = 0

    def come(
        self,
        number: int,
        peer: Peer,
        card: int | None,
        may_use: Callable[[int], bool],
        may_use_part: Callable[[int], bool] = lambda minor: True,
    ) -> None:
        """Take a new connection. `may_use` tells whether the client has the node of a card, by minor number.

        `may_use_part`: whether it has that of a MIG instance.
        """
        self.clients[number] = Client(peer, card, may_use, may_use_part)

    def go(self, number: int, now_ns: int) -> Answers:
        """Forget a connection that was closed; with the last one of a process its contexts end."""
        answers = self.tick(now_ns)
        client = self.clients.pop(number)
        lost: list[int] = []
        pid = client.peer.pid
        if client.kernels is not None:
            lost += self.machine.close(pid, client.kernels)
        if all(other.peer.pid != pid for other in self.clients.values()):
            lost += self.machine.end(pid)
        return answers + self._over(lost)

    def hear(self, number: int, data: bytes, now_ns: int) -> Answers:
        """Take what a client said; return what is answered, to whom."""
        client = self.clients[number]
        answers = self.tick(now_ns)
        *lines, client.heard = (client.heard + data).split(b"\n")
        client.heard = client.heard[-LONGEST_LINE:]
        client.lines.extend(lines)
        return answers + self._go_on(number)

    def tick(self, now_ns: int) -> Answers:
        """Let the time go by; return who is answered."""
        self._now_ns = now_ns
        done = self.machine.advance(now_ns)
        answers: Answers = []
        for ticket, _ in done:
            if (told := self._told.pop(ticket, None)) is not None and told in self.clients:
                answers.append((told, b"D\n"))
        answers += self._over([ticket for ticket, _ in done])
        for number, client in list(self.clients.items()):
            if client.waits and client.waits.until_ns is not None and client.waits.until_ns <= now_ns:
                answers += self._answer(number, client.waits, done=False)
        return answers

    def next_ns(self) -> int | None:
        """Return when there is something to do, None when nothing is expected."""
        times = [self.machine.next_ns(), *(one.waits.until_ns for one in self.clients.values() if one.waits)]
        return min((at for at in times if at is not None), default=None)

    def ends(self) -> bool:
        """Return whether it was said that the program is to end."""
        return any(client.ends for client in self.clients.values())

    # --- waiting --------------------------------------------------------------------------------------------------

    def _over(self, tickets: Sequence[int]) -> Answers:
        """Answer who waited for these."""
        if not tickets:
            return []
        answers: Answers = []
        for number, client in list(self.clients.items()):
            if client.waits is not None:
                client.waits.tickets.difference_update(tickets)
                if len(client.waits.tickets) <= client.waits.most_left:
                    answers += self._answer(number, client.waits, done=True)
        return answers

    def _answer(self, number: int, wait: Wait, *, done: bool) -> Answers:
        """Answer who has waited; where that was for a lock which did not come about, its process continues."""
        self.clients[number].waits = None
        try:
            words = wait.then(done)
        except Refused as refused:  # what it was about has ended meanwhile
            words = b"err %d\n" % refused.code
        let_go = [] if done else self._let_go()
        return [(number, words), *let_go, *self._go_on(number)]

    def _go_on(self, number: int) -> Answers:
        """Do what a client asked for, one after another, until it waits."""
        client = self.clients[number]
        answers: Answers = []
        while client.lines and client.waits is None and not self._is_held(client, client.lines[0]):
            line = client.lines.popleft()
            if client.card is not None and line[:1] in OLD_WORDS:
                answers += self._old_words(number, client, line)
                continue
            words = line.decode("utf-8", "replace").split(" ")
            try:
                found = self._do(client, words)
            except Refused as refused:
                found = b"err %d\n" % refused.code
            except (ValueError, IndexError):
                found = b"err %d\n" % Code.INVALID_VALUE
            if isinstance(found, Wait):
                if len(found.tickets) <= found.most_left:
                    found = found.then(True)
                else:
                    client.waits = found
                    break
            answers.append((number, found))
            if words[0] == "unlock" or (words[0] == "lock" and found != b"ok\n"):
                answers += self._let_go()
        return answers

    def _is_held(self, client: Client, line: bytes) -> bool:
        """Return whether its process is locked: its calls wait, but for those that lead on from there."""
        process = self.machine.processes.get(client.peer.pid)
        if process is None or not (process.locking or process.state is not State.RUNNING):
            return False
        return line.split(b" ")[0].decode("utf-8", "replace") not in CHECKPOINTING

    def _let_go(self) -> Answers:
        return [answer for number in list(self.clients) for answer in self._go_on(number)]

    # --- requests -------------------------------------------------------------------------------------------------

    def _do(self, client: Client, words: Sequence[str]) -> bytes | Wait:
        """Do one request. Raises Refused, and ValueError or IndexError for what is none."""
        name, *rest = words
        if name in ("launch", "sync", "busy", "record", "await", "reached", "drop"):
            return self._work(client.peer.pid, name, rest)
        if name in CHECKPOINTING:
            return self._checkpoint(client, name, rest)
        machine, pid = self.machine, client.peer.pid
        match name:
            case "context":
                if not client.may_use(int(rest[0].partition(".")[0])):
                    raise Refused(Code.INVALID_DEVICE)
                return _ok(machine.open(client.peer, self._meant(client, rest[0])))
            case "close":
                lost = machine.close(pid, int(rest[0]))
                self._lost(lost)
                return _ok()
            case "alloc":
                return _ok(machine.allocate(pid, int(rest[0]), int(rest[1])))
            case "free":
                machine.free(pid, int(rest[0]))
                return _ok()
            case "room":
                return _ok(*machine.room(client.peer, self._meant(client, rest[0])))
            case "left":
                card = machine.on(pid, int(rest[0]))
                return _ok(*machine.room(client.peer, card), machine.used_by(client.peer, card))
            case "limit":
                _outside(client)
                machine.limit(int(rest[0]), " ".join(rest[3:]), int(rest[1]), int(rest[2]))
                return _ok()
            case "limits":
                return _ok(*machine.limits(int(rest[0]), " ".join(rest[1:])))
            case "end":
                _outside(client)
                client.ends = True
                return _ok()
        return self._look(client, name, rest)

    def _look(self, client: Client, name: str, rest: Sequence[str]) -> bytes:
        machine = self.machine
        if name == "figures":
            return json.dumps(figures(machine, self._now_ns, self.divisions)).encode() + b"\n"
        if name.startswith("mig"):
            return self._mig(client, name, rest)
        number = int(rest[0].partition(".")[0])
        if number not in machine.cards:
            raise Refused(Code.INVALID_DEVICE)
        if number in self.divisions.cards and "." not in rest[0]:
            return self._divided(client, name, number)
        number = self._meant(client, rest[0])
        card = machine.cards[number]
        if name == "card":
            free, total = machine.room(client.peer, number)
            used = total - free if total < machine.sizes[number] else machine.used(number)
            mine = machine.used_by(client.peer, number)
            return _ok(card.busy_percent(self._now_ns), used, total, mine, card.busy_ns())
        if name == "processes":
            percent = card.percent_by_pid(self._now_ns)
            seen = [(process, seen_as(client.peer, process.peer)) for process in machine.on_card(number)]
            return _ok(*(f"{pid}:{one.used(number)}:{percent.get(one.peer.pid, 0)}" for one, pid in seen if pid))
        if name == "samples":
            pids = {process.peer.pid: seen_as(client.peer, process.peer) for process in machine.on_card(number)}
            found = card.samples(int(rest[1]) * 1000)
            return _ok(*(f"{at // 1000}:{pids[pid]}:{percent}" for at, pid, percent in found if pids.get(pid)))
        raise ValueError(name)

    def _meant(self, client: Client, word: str) -> int:
        """Return the number of the card that a client names. Raises Refused where it has none of its instances."""
        card, dot, slot = word.partition(".")
        return self.divisions.meant(int(card), int(slot) if dot else None, client.may_use_part)

    def _divided(self, client: Client, name: str, number: int) -> bytes:
        """Answer about a card in MIG mode as a whole: what its instances have of it; NVML tells no use of one."""
        machine, parts = self.machine, self.divisions.parts(number)
        if name == "card":
            used, mine = (
                sum(of(part) for part in parts) for of in (machine.used, lambda p: machine.used_by(client.peer, p))
            )
            return _ok(0, used, machine.sizes[number], mine, sum(machine.cards[part].busy_ns() for part in parts))
        if name == "processes":
            found = [(one, part) for part in parts for one in machine.on_card(part)]
            seen = [(one.used(part), seen_as(client.peer, one.peer)) for one, part in found]
            return _ok(*(f"{pid}:{used}:0" for used, pid in seen if pid))
        return _ok()

    def _mig(self, client: Client, name: str, rest: Sequence[str]) -> bytes:
        card, divisions = int(rest[0]), self.divisions
        if card not in divisions.cards:
            raise Refused(NvmlCode.NOT_SUPPORTED)
        if name == "mig":
            seen = divisions.seen(card, client.may_use_part)
            return _ok(*(divisions.cards[card].line(slot) for slot in seen))
        _outside(client)
        match name:
            case "mig-create":
                return _ok(divisions.create(card, int(rest[1]), int(rest[2]), rest[3]))
            case "mig-compute":
                divisions.compute(card, int(rest[1]))
            case "mig-end":
                divisions.end_compute(card, int(rest[1]))
            case "mig-destroy":
                divisions.destroy(card, int(rest[1]))
            case _:
                raise ValueError(name)
        return _ok()

    def _work(self, pid: int, name: str, rest: Sequence[str]) -> bytes | Wait:
        machine, first = self.machine, int(rest[0])
        match name:
            case "launch":
                takes_ns = int(rest[2])
                if not 0 <= takes_ns <= LONGEST_NS:
                    raise Refused(Code.INVALID_VALUE)
                machine.submit(pid, first, int(rest[1]), takes_ns, self._now_ns)
                if len(machine.process(pid).tickets) <= MOST_QUEUED:
                    return _ok()
                queued = machine.queued(pid, first)
                return Wait(set(queued), lambda done: _ok(), most_left=MOST_QUEUED)
            case "sync":
                stream = int(rest[1]) if len(rest) > 1 else None
                return Wait(set(machine.queued(pid, first, stream)), lambda done: _ok())
            case "busy":
                if machine.queued(pid, first, int(rest[1])):
                    raise Refused(Code.NOT_READY)
                return _ok()
            case "record":
                return _ok(machine.submit(pid, first, int(rest[1]), 0, self._now_ns, event=True))
            case "await":
                if (reached := machine.event(pid, first)) is not None:
                    return _ok(reached)
                return Wait({first}, lambda done: _ok(machine.event(pid, first) or 0))
            case "reached":
                if (reached := machine.event(pid, first)) is None:
                    raise Refused(Code.NOT_READY)
                return _ok(reached)
            case _:
                machine.forget_event(pid, first)
                return _ok()

    def _checkpoint(self, client: Client, name: str, rest: Sequence[str]) -> bytes | Wait:
        machine = self.machine
        process = self._named(client.peer, int(rest[0]))
        pid = process.peer.pid
        match name:
            case "state":
                return _ok(int(process.state))
            case "lock":
                timeout_ns, tickets = int(rest[1]) * 1_000_000, machine.begin_lock(pid)

                def locked(done: bool) -> bytes:
                    machine.end_lock(pid, locked=done)
                    return _ok() if done else b"err %d\n" % Code.NOT_READY

                until_ns = self._now_ns + timeout_ns if timeout_ns else None
                return Wait(set(tickets), locked, until_ns)
            case "checkpoint":
                machine.checkpoint(pid)
            case "restore":
                pairs = [pair.partition("=") for pair in rest[1].split(",")] if len(rest) > 1 and rest[1] else []
                machine.restore(pid, {int(old): int(new) for old, _, new in pairs})
            case _:
                machine.unlock(pid)
        return _ok()

    def _named(self, asker: Peer, pid: int) -> Process:
        """Return the process that one who asks means: those of its container, or all from outside of any."""
        for process in self.machine.processes.values():
            if seen_as(asker, process.peer) == pid:
                return process
        raise Refused(Code.INVALID_VALUE)

    def _lost(self, tickets: Sequence[int]) -> None:
        for ticket in tickets:
            self._told.pop(ticket, None)

    def _old_words(self, number: int, client: Client, line: bytes) -> Answers:
        assert client.card is not None
        if line == b"S":
            return [(number, json.dumps(by_owner(self.machine, client.card)).encode() + b"\n")]
        if line == b"M":
            return [(number, json.dumps(memory_by_owner(self.machine, client.card)).encode() + b"\n")]
        if line == b"Q":
            client.ends = not client.peer.owner
        elif line[:2] in (b"K ", b"A "):
            if client.kernels is None:
                client.kernels = self.machine.open(client.peer, client.card)
            if line[:2] == b"A ":
                return [(number, self._take(client, client.kernels, line[2:]))]
            takes_ns = min(LONGEST_K_NS, _nanoseconds(line[2:]))
            pid = client.peer.pid
            self._told[self.machine.submit(pid, client.kernels, 0, takes_ns, self._now_ns)] = number
        return []

    def _take(self, client: Client, context: int, mib: bytes) -> bytes:
        """Give a client so much memory in place of what it had."""
        pid = client.peer.pid
        try:
            if client.piece is not None:
                self.machine.free(pid, client.piece)
            client.piece = None
            if int(mib):
                client.piece = self.machine.allocate(pid, context, int(mib) << 20)
        except (Refused, ValueError):
            return b"E\n"
        return b"A\n"


def _outside(client: Client) -> None:
    if client.peer.owner:
        raise Refused(Code.NOT_PERMITTED)


def _ok(*words: object) -> bytes:
    return " ".join(["ok", *map(str, words)]).encode() + b"\n"


def _nanoseconds(text: bytes) -> int:
    """Return the time of a kernel in milliseconds; what is not a time is none."""
    try:
        return max(0, int(float(text) * 1e6))
    except (ValueError, OverflowError):
        return 0
