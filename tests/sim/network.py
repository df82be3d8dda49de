"""TCP between simulated hosts: bytes come in order or not at all, late or after minutes, and some ends never say so."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.sim.world import PROCESS, Killed

if TYPE_CHECKING:
    from tests.sim.world import Host, Process, World

LOOPBACK = "127.0.0.1"
CONNECT_PATIENCE_S = 127.0
"""How long the kernel tries to connect (tcp_syn_retries 6: tcp(7))."""
SEND_PATIENCE_S = 924.6
"""How long it sends again what is not acknowledged (tcp_retries2 15: tcp(7))."""
LONGEST_RETRY_S = 120.0
"""How long it waits at most between two tries (TCP_RTO_MAX)."""
HIGH_WATER = 64 * 1024
EARLY_S = 2e-6
"""A timer may come so much before its time: the loop takes what is due within its clock's resolution."""


class Listener:
    """A port somebody listens at; looks like what the endpoint's own kind of listener looks like."""

    def __init__(self, network: Network, process: Process, ip: str, port: int, make: Callable[[], Any]) -> None:
        self.network, self.process, self.make = network, process, make
        self.address, self.port = (ip, port), port

    def close(self) -> None:
        """Accept nobody more."""
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Process, protocol: Any, own: Any, peer_address: Any) -> None:
        super().__init__()
        self.network, self.process, self.protocol = network, process, protocol
        self.own, self.peer_address = own, peer_address
        self.peer: Transport | None = None
        self.gone = self._closing = self._paused = self._full = False
        self._held: deque[tuple[str, bytes]] = deque()
        self.sent: deque[tuple[float, str, bytes]] = deque()
        """What is on its way to the peer: when it may arrive, what it is."""
        self.sent_bytes = 0
        self.last_due_s = 0.0
        self.stuck_since_s: float | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return addresses; there is no socket."""
        return {"peername": self.peer_address, "sockname": self.own}.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        """Hand what comes from now on to another protocol."""
        self.protocol = protocol

    def get_protocol(self) -> Any:
        """Return who is told of what comes."""
        return self.protocol

    def is_closing(self) -> bool:
        """Tell whether it is closed, or about to be."""
        return self._closing

    def write(self, data: Any) -> None:
        """Send bytes."""
        if not self.process.alive:
            raise Killed
        if self._closing or not data:
            return
        self.network.send(self, "data", bytes(data))
        if self.sent_bytes > HIGH_WATER and not self._full:
            self._full = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send bytes."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """It can."""
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes."""
        self.network.send(self, "end", b"")

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the peer has not got."""
        return self.sent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Keep to what there is."""

    def pause_reading(self) -> None:
        """Take nothing more for now."""
        self._paused = True

    def resume_reading(self) -> None:
        """Go on."""
        self._paused = False
        while self._held and not self._paused and not self.gone:
            self.take(*self._held.popleft())

    def is_reading(self) -> bool:
        """Tell whether it takes what comes."""
        return not self._paused and not self._closing

    def close(self) -> None:
        """Close once all is sent."""
        if not self._closing:
            self._closing = True
            self.network.send(self, "end", b"")
            self._lost_soon(None)

    def abort(self) -> None:
        """Close at once; the peer sees a reset."""
        if not self.gone and not (self._closing and not self.sent):
            self._closing = True
            self.sent.clear()
            self.sent_bytes = 0
            self.network.send(self, "reset", b"")
            self._lost_soon(None)

    def take(self, kind: str, data: bytes) -> None:
        """Something has come from the peer; a step of this process."""
        if self.gone or self._closing:
            if kind == "data" and self.process.alive:
                self.network.send(self, "reset", b"")
            return
        if self._paused:
            self._held.append((kind, data))
            return
        if kind == "data":
            self.protocol.data_received(data)
        elif kind == "end":
            if not self.protocol.eof_received():
                self.close()
        else:
            self._closing = True
            self.lost(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def arrived(self, count: int) -> None:
        """The peer has got some bytes."""
        self.sent_bytes -= count
        if self._full and self.sent_bytes <= HIGH_WATER // 4 and not self.gone and self.process.alive:
            self._full = False
            self.network.world.loop.call_soon(self.protocol.resume_writing, context=self.process.context.copy())

    def _lost_soon(self, error: Exception | None) -> None:
        self.network.world.loop.call_soon(self.lost, error, context=self.process.context.copy())

    def lost(self, error: Exception | None) -> None:
        """Tell the protocol, once, that there is no connection any more."""
        if not self.gone:
            self.gone = True
            self.network.open.pop(self, None)
            self.protocol.connection_lost(error)


class Network:
    """All connections, and which hosts cannot reach which."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.open: dict[Transport, None] = {}
        self._waiting: dict[Transport, None] = {}
        self.cut: set[frozenset[str]] = set()
        """Pairs of hosts, by name, between which nothing passes."""
        self._ports = itertools.count(32768)
        self._slow: dict[frozenset[str], float] = {}
        self._traps: dict[frozenset[str], tuple[int, Callable[[], None]]] = {}
        self._disturbed_s: dict[frozenset[str], float] = {}
        self._still: dict[Transport, frozenset[str]] = {}
        """Ends whose pieces do not get through, while those of others do; and between which hosts they are."""
        self.on_data: Callable[[Transport, bytes], None] | None = None
        """Told of each piece of data that is about to be sent."""
        self.on_change: list[Callable[[], None]] = []
        """Told whenever hosts can be reached, or not, that could not, or could."""

    def listen(self, ip: str, port: int, make: Callable[[], Any]) -> Listener:
        """Listen as the process whose step this is. Raises OSError for a port that is taken."""
        process = PROCESS.get()
        if process is None:
            raise RuntimeError("nobody listens outside a process")
        port = port or next(self._ports)
        taken = self.listeners.get((ip, port))
        if taken is not None and taken.process.alive:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.listeners[(ip, port)] = listener = Listener(self, process, ip, port, make)
        return listener

    async def connect(self, make: Callable[[], Any], ip: str, port: int) -> tuple[Transport, Any]:
        """Connect to an address, or a host's name, as the process whose step this is. Raises OSError."""
        process = PROCESS.get()
        if process is None:
            raise RuntimeError("nobody connects outside a process")
        until_s = self.world.now_s + CONNECT_PATIENCE_S
        near_by = ip == LOOPBACK
        there = process.host if near_by else self._host(ip)
        ip = there.ip
        pause_s = 1.0
        while there.down or self.is_cut(process.host, there):
            if self.world.now_s + pause_s > until_s:
                await asyncio.sleep(max(0.0, until_s - self.world.now_s))
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            await asyncio.sleep(pause_s)
            pause_s *= 2
        await asyncio.sleep(2 * self._latency_s(process.host, there))
        listener = self.listeners.get((ip, port))
        if listener is None or not listener.process.alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        protocol = make()
        own = (LOOPBACK if near_by else process.host.ip, next(self._ports))
        near = Transport(self, process, protocol, own, (ip, port))
        far = Transport(self, listener.process, None, (ip, port), own)
        near.peer, far.peer = far, near
        self.open[near] = self.open[far] = None

        def accept() -> None:
            far.protocol = listener.make()
            far.protocol.connection_made(far)

        self.world.loop.call_soon(accept, context=listener.process.context.copy())
        protocol.connection_made(near)
        return near, protocol

    def send(self, end: Transport, kind: str, data: bytes) -> None:
        """Send something from one end; it comes after all that was sent before."""
        peer, process = end.peer, end.process
        if peer is None or not process.alive:
            return
        if kind == "data":
            if self._traps or process.fatal_send is not None:
                self._spring(process, peer.process.host)
            if self.on_data is not None:
                self.on_data(end, data)
        now_s = self.world.now_s
        due_s = now_s + self._latency_s(process.host, peer.process.host)
        if due_s < end.last_due_s:
            due_s = end.last_due_s
        end.last_due_s = due_s
        end.sent.append((due_s, kind, data))
        end.sent_bytes += len(data)
        self.world.soon(due_s - now_s, self._pass_on, end)

    def _spring(self, process: Process, there: Host) -> None:
        """Something is about to be sent: what was to happen at this one does. Raises Killed."""
        if process.fatal_send is not None:
            process.fatal_send -= 1
            if process.fatal_send <= 0:
                self.world.kill(process, why="kill -9 before something is sent")
                raise Killed
        if not self._traps:
            return
        pair = frozenset((process.host.name, there.name))
        trap = self._traps.get(pair)
        if trap is not None:
            left, spring = trap
            self._traps[pair] = (left - 1, spring)
            if left <= 1:
                del self._traps[pair]
                spring()

    def trap(self, one: Host, other: Host, count: int, spring: Callable[[], None]) -> None:
        """Have something done when so many pieces more are sent between two hosts, before the last of them passes."""
        self._traps[frozenset((one.name, other.name))] = (count, spring)

    def _pass_on(self, end: Transport) -> None:
        """Deliver what is due from one end."""
        peer = end.peer
        if peer is None:
            return
        here, there = end.process.host, peer.process.host
        until_s = self.world.now_s + EARLY_S
        while end.sent and end.sent[0][0] <= until_s:
            if there.down or here.down or end in self._still or (self.cut and self.is_cut(here, there)):
                self._hold(end)
                return
            _, kind, data = end.sent.popleft()
            end.stuck_since_s = None
            end.arrived(len(data))
            if peer.process.alive:
                if peer.protocol is None:
                    end.sent.appendleft((self.world.now_s, kind, data))
                    end.sent_bytes += len(data)
                    self.world.soon(max(1e-4, peer.process.frozen_until_s - self.world.now_s), self._pass_on, end)
                    return
                self._hand_over(peer, kind, data)
            elif kind == "data" and end.process.alive:
                # Nobody has this connection any more: the kernel there says so.
                self.world.soon(self._latency_s(there, here), self._refused, end)

    def _hand_over(self, peer: Transport, kind: str, data: bytes) -> None:
        """Have a process take what has come: in this very step, unless it stands still or somebody lies in wait."""
        world, process = self.world, peer.process
        if world.ambush is not None or process.frozen_until_s > world.now_s:
            world.loop.call_soon(peer.take, kind, data, context=process.context.copy())
            return
        try:
            process.context.copy().run(peer.take, kind, data)
        except Exception as error:
            text = f"Exception in callback {peer.take}"
            world.loop.call_exception_handler({"message": text, "exception": error})
        except Killed:
            pass  # in the middle of it

    def _hold(self, end: Transport) -> None:
        self._waiting[end] = None
        if end.stuck_since_s is None:
            end.stuck_since_s = self.world.now_s
            self.world.soon(SEND_PATIENCE_S, self._give_up, end, end.stuck_since_s)

    def _give_up(self, end: Transport, since_s: float) -> None:
        if end.stuck_since_s == since_s and end.sent and end.process.alive and not end.gone:
            end._closing = True
            error = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            self.world.loop.call_soon(end.lost, error, context=end.process.context.copy())

    def _refused(self, end: Transport) -> None:
        if end.process.alive and not end.gone:
            self.world.loop.call_soon(end.take, "reset", b"", context=end.process.context.copy())

    def died(self, process: Process, *, silent: bool) -> None:
        """A process has died: its kernel tells the peers, unless that is gone as well."""
        for listener in [found for found in self.listeners.values() if found.process is process]:
            listener.close()
        for end in [found for found in self.open if found.process is process]:
            self.open.pop(end, None)
            if silent or end.gone or end.peer is None:
                end.sent.clear()
                continue
            due_s = max(end.last_due_s, self.world.now_s + self._latency_s(process.host, end.peer.process.host))
            # Data that nobody has read makes the kernel reset the connection.
            end.sent.append((due_s, self.world.random.choice(("end", "reset")), b""))
            self.world.soon(due_s - self.world.now_s, self._pass_on, end)

    # Faults.

    def disarm(self) -> None:
        """Let no trap be sprung any more."""
        self._traps.clear()

    def is_cut(self, one: Host, other: Host) -> bool:
        """Tell whether nothing passes between two hosts."""
        return bool(self.cut) and one is not other and frozenset((one.name, other.name)) in self.cut

    def partition(self, one: Host, other: Host) -> None:
        """Let nothing pass between two hosts."""
        self.cut.add(frozenset((one.name, other.name)))
        self._disturbed_s[frozenset((one.name, other.name))] = self.world.now_s
        self.changed()

    def heal(self, *pairs: frozenset[str]) -> None:
        """Let everything pass again, between these hosts or all: what was held comes now."""
        for pair in pairs or tuple(self.cut):
            self._disturbed_s[pair] = self.world.now_s
        self.cut -= set(pairs or tuple(self.cut))
        self.changed()
        self.flush()

    def changed(self) -> None:
        """Tell who wants to know that other hosts can be reached than before."""
        for told in self.on_change:
            told()

    def flush(self) -> None:
        """What could not be delivered is tried again."""
        waiting, self._waiting = self._waiting, {}
        for end in waiting:
            # A kernel that has tried again for so long waits as long until it does once more.
            longest_s = 1.0
            if end.stuck_since_s is not None and self.world.random.random() < 0.5:
                longest_s = min(LONGEST_RETRY_S, max(1.0, self.world.now_s - end.stuck_since_s))
            self.world.soon(self.world.random.uniform(0.0, longest_s), self._pass_on, end)

    def slow(self, one: Host, other: Host, seconds: float) -> None:
        """Make what passes between two hosts take up to so much longer; 0: no longer."""
        pair = frozenset((one.name, other.name))
        if seconds or self._slow.get(pair):
            self._disturbed_s[pair] = self.world.now_s
        if seconds:
            self._slow[pair] = seconds
        else:
            self._slow.pop(pair, None)

    def stall(self, end: Transport) -> None:
        """Let nothing more come that one end sends, until `release`; what others send comes."""
        if end.peer is not None:
            self._still[end] = pair = frozenset((end.process.host.name, end.peer.process.host.name))
            self._disturbed_s[pair] = self.world.now_s

    def release(self, end: Transport) -> None:
        """Let what an end has sent come at last."""
        pair = self._still.pop(end, None)
        if pair is not None:
            self._disturbed_s[pair] = self.world.now_s
            self._waiting.pop(end, None)
            self._pass_on(end)

    def quiet_since_s(self, one: Host, other: Host) -> float:
        """Return since when what two hosts send each other has come at once; now, if it does not."""
        pair = frozenset((one.name, other.name))
        if pair in self.cut or self._slow.get(pair) or pair in self._still.values():
            return self.world.now_s
        return self._disturbed_s.get(pair, 0.0)

    def _latency_s(self, one: Host, other: Host) -> float:
        chance = self.world.random.random()
        if one is other:
            return 1e-5 + (1e-4 - 1e-5) * chance
        slow_s = self._slow.get(frozenset((one.name, other.name)), 0.0) if self._slow else 0.0
        return 1e-4 + (2e-3 - 1e-4) * chance + (self.world.random.uniform(0.0, slow_s) if slow_s else 0.0)

    def _host(self, ip: str) -> Host:
        for host in self.world.hosts.values():
            if ip in (host.ip, host.name):
                return host
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
