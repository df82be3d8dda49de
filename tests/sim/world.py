"""The simulated world: hosts with clocks and disks, processes on them that can die at any step, one source of chance.

What the services do in it is their own code. A step is one callback of the event loop; the process that it belongs to
is known by a context variable, so that clocks, disks and sockets are those of the host it runs on, and nothing of a
process that was killed is ever run again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.disk import Disk
    from tests.sim.loop import VirtualLoop
    from tests.sim.network import Network
    from tests.sim.paces import Pacing

EPOCH_S = 1_700_000_000.0
"""Unix time at which every history begins."""
FASTEST_DRIFT = 2e-4
"""Clocks of hosts run so much too fast or too slow at most; a bad quartz does 1e-4."""

_ADDRESS = re.compile(r"(0x|\.\.\.x?)[0-9a-f]{8,}")
"""Where an object lies, which is no part of a history; also in a text that was cut short (reprlib)."""
_PLACE = re.compile(r" at \S+\.py:\d+")
"""Where code is written, by which asyncio names a callback."""

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
"""Whose step this is; None: the simulator's own."""


class Killed(BaseException):
    """The process that makes this step is dead: what it was about to do is not done."""


@dataclass(eq=False)
class Host:
    """One machine. `down` between a power cut and the next boot."""

    name: str
    ip: str
    world: World = field(repr=False)
    rate: float = 1.0
    booted_s: float = 0.0
    wall_offset_s: float = 0.0
    boots: int = 1
    down: bool = False
    disk: Disk = field(init=False, repr=False)

    def mono(self) -> float:
        """Return its monotonic clock."""
        return (self.world.now_s - self.booted_s) * self.rate

    def wall(self) -> float:
        """Return its wall clock."""
        return EPOCH_S + self.world.now_s * self.rate + self.wall_offset_s

    @property
    def boot_id(self) -> str:
        """Return the name of this boot."""
        return f"{self.name}-boot-{self.boots}"


@dataclass(eq=False)
class Process:
    """One run of a program on a host, until it is killed or ends."""

    name: str
    host: Host
    number: int
    began_s: float = 0.0
    alive: bool = True
    kept: list[Any] = field(default_factory=list, repr=False)
    """What must not be collected before the history ends: closing a coroutine runs its `finally`."""
    at_end: list[Callable[[], None]] = field(default_factory=list, repr=False)
    """What the kernel lets go of when it dies, such as locks."""
    context: Context = field(default_factory=copy_context, repr=False)
    fatal_in: int | None = None
    """After so many more writes to the disk it is killed; None: it is not."""
    fatal_send: int | None = None
    """The same for what it sends."""
    waits_for: Callable[[], bool] | None = None
    """Whether its threads that speak to ZooKeeper have to wait."""
    frozen_until_s: float = 0.0
    """Until when of the world's time it makes no step: it was stopped, or its machine was."""
    thaws_s: float = 0.0
    """When the last of what waits for that is due."""
    on_freeze: list[Callable[[float], None]] = field(default_factory=list, repr=False)
    """Told for how many seconds it freezes."""

    def next_thaw_s(self) -> float:
        """Return a time for one step more after it froze, later than the ones before."""
        self.thaws_s += 1e-9
        return self.thaws_s

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


class World:
    """One history: everything that happens follows from the seed."""

    def __init__(self, seed: int, root: Path, pacing: Pacing) -> None:
        from tests.sim.loop import VirtualLoop
        from tests.sim.network import Network

        self.seed, self.root, self._folder = seed, root, str(root)
        self.random, self.pacing = Random(seed), pacing
        self.ahead_s = 0.0
        """By how much a clock was ahead at most that nobody took to be put right afterwards."""
        self.now_s = 0.0
        self.loop: VirtualLoop = VirtualLoop(self)
        self.network: Network = Network(self)
        self.hosts: dict[str, Host] = {}
        self.processes: dict[str, Process] = {}
        self.graveyard: list[Process] = []
        self.findings: list[str] = []
        self._numbers = 0
        self._nobody = Context()
        self._digest = hashlib.sha256()
        self.lines: list[str] = []
        self.first = False
        """Whether the history is over once something is found."""
        self.listener: Callable[[str], None] | None = None
        self.ambush: Callable[[Process], None] | None = None
        """Asked before each step whose process makes it, which it may kill; None: nobody lies in wait."""

    @property
    def digest(self) -> str:
        """Return a hash of all that was told: two runs of one seed have the same."""
        return self._digest.hexdigest()

    def tell(self, who: str, what: str) -> None:
        """Write down that something happened."""
        line = f"{self.now_s:14.6f} {who:12} {what}".replace(self._folder, "ROOT")
        if "0x" in line or "..." in line:
            line = _ADDRESS.sub(r"\1ADDRESS", line)
        if ".py:" in line:
            line = _PLACE.sub("", line)
        self._digest.update(line.encode())
        self.lines.append(line)
        if self.listener is not None:
            self.listener(line)

    def finding(self, what: str) -> None:
        """Something that must never be so is so."""
        if what not in self.findings:
            self.findings.append(what)
            self.tell("FINDING", what)
            if self.first:
                self.loop.stop()

    def add_host(self, name: str) -> Host:
        """Put up a machine, with a clock that is not quite right."""
        from tests.sim.disk import Disk

        host = Host(name, f"10.0.0.{len(self.hosts) + 1}", self)
        host.rate = 1.0 + self.random.uniform(-FASTEST_DRIFT, FASTEST_DRIFT)
        host.booted_s = -self.random.uniform(10.0, 1e6)
        host.wall_offset_s = self.random.uniform(-2.0, 2.0)
        host.disk = Disk(self, self.root / name)
        self.hosts[name] = host
        return host

    def spawn(self, name: str, host: Host) -> Process:
        """Return a new process of that name; the steps made in its context are its own."""
        self._numbers += 1
        process = Process(name, host, self._numbers, self.now_s)
        process.context.run(PROCESS.set, process)
        self.processes[name] = process
        self.tell(name, f"process {process} begins")
        return process

    def kill(self, process: Process, *, why: str = "kill -9", silent: bool = False) -> None:
        """End a process between two steps. `silent`: its peers are not told, for its host has gone with it."""
        if not process.alive:
            return
        process.alive = False
        self.tell(process.name, f"process {process} ends: {why}")
        self.graveyard.append(process)
        if self.processes.get(process.name) is process:
            del self.processes[process.name]
        self.loop.drop(process)
        self.network.died(process, silent=silent)
        for let_go in process.at_end:
            let_go()

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process, as SIGSTOP does, a swapping machine or a hypervisor; its connections stay open."""
        if process.alive and process.frozen_until_s <= self.now_s:
            self.tell(process.name, f"process {process} freezes for {seconds:.1f} s")
            self.loop.freeze(process, seconds)
            for told in process.on_freeze:
                told(seconds)

    def pause_s(self, seconds: float) -> float:
        """Return how long a pause from now on is that is of so many seconds in a dense history."""
        return self.pacing.pause(self.now_s, seconds)

    def lasts_s(self, seconds: float) -> float:
        """Return how long a fault that begins now lasts that does for so many seconds in a dense history."""
        return self.pacing.lasts(self.now_s, seconds)

    def soon(self, delay_s: float, call: Callable[..., Any], *args: Any, process: Process | None = None) -> None:
        """Do something after so many seconds of the world's time, as a step of a process or of nobody."""
        context = self._nobody if process is None else process.context
        self.loop.at(self.now_s + delay_s, call, *args, context=context)


def current() -> Process | None:
    """Return whose step this is."""
    return PROCESS.get()
