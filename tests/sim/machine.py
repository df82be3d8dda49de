"""What runs on a host: containers that outlive the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mesos_gpu.container.spec.config import ContainerConfig, Termination
from mesos_gpu.container.spec.nesting import descendants
from mesos_gpu.gpu.device import HealthEvent
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart
from tests.sim import answering, executors
from tests.sim.cards import Card, overbooked
from tests.sim.executors import kind_of

if TYPE_CHECKING:
    from tests.sim.world import Host, Process

LIFE = "SIM_LIFE"
"""A task's variable: SECONDS:STATUS, how long it runs and how it ends; without, it runs until it is ended."""
STUBBORN = "SIM_STUBBORN"
"""A task's variable: it does not end when it is asked to."""


@dataclass(eq=False)
class Container:
    """One that runs. `task`: whose it is, by the name its command is told."""

    config: ContainerConfig
    gpus: frozenset[str]
    kernel: Process
    began_s: float
    executor: str | None = None
    """Which kind of executor it holds; None for a task's own, or one that an executor has."""
    process: Process | None = None
    """The executor."""
    termination: Termination | None = None
    watchers: list[asyncio.Future[None]] = field(default_factory=list)
    at_end: list[Callable[[], None]] = field(default_factory=list)
    """What is done when it ends."""
    pid: int = 0
    booked: tuple[CardPart, ...] = ()
    """The parts of cards that it began with, which its master counts for it as long as it runs."""
    parts: tuple[CardPart, ...] = ()
    """Those that it can use now: none while it is suspended."""
    away: bool = False
    """Whether what it had on GPUs was copied to the machine's memory."""

    @property
    def task(self) -> str:
        if self.executor is not None:
            return self.config.container_id
        return self.config.environment.get("MESOS_TASK_ID", self.config.container_id)


class Machine:
    """The containers of one host, as they truly are. It is the kernel's: a power cut ends them, nothing else does."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.running: dict[ContainerId, Container] = {}
        self.exits: dict[ContainerId, Termination] = {}
        """What is left of those that ended, until the agent has forgotten them."""
        self.begun: dict[str, int] = {}
        self.volumes: dict[str, str] = {}
        """Persistent volumes that something was written to, and which task did so first."""
        self.on_begin: Callable[[Container], None] = lambda container: None
        self.on_end: Callable[[Container], None] = lambda container: None
        self.on_ask: list[Callable[[Container, float], None]] = []
        """Told of who is asked to end, and after how many seconds it is ended."""
        self.on_reach: list[Callable[[Container], None]] = []
        """Told of who runs and can use other parts of cards than before, or none."""
        self.cards: dict[int, Card] = {}
        """Those of its GPUs that containers share, by number."""
        self.ill: dict[int, str] = {}
        """What is wrong with GPUs, by number."""
        self.doubted: set[int] = set()
        """Those of which an agent may still believe that something is wrong with them."""
        self.on_ill: tuple[Callable[[HealthEvent], None], Process | None] | None = None
        """Who is told of GPUs that fall ill, and whose step that is."""
        self.weights: dict[str, int | None] = {}
        """The weights that were said of containers at the agent; None: nobody knows."""
        self._pids = 0
        self._kernel = host.world.spawn(f"{host.name}-kernel", host)

    def tasks(self) -> list[str]:
        """Return the tasks that run, in the order in which they began."""
        return [container.task for container in self.running.values() if container.executor is None]

    def power_cut(self) -> None:
        """End everything, without a trace."""
        self.host.world.kill(self._kernel, why="power cut", silent=True)
        for container in self.running.values():
            if container.process is not None:
                self.host.world.kill(container.process, why="power cut", silent=True)
        for container in list(self.running.values()):
            container.termination = Termination(signal=9)
            self.on_end(container)
        self.running.clear()
        self.exits.clear()

    def boot(self) -> None:
        """Begin with nothing."""
        self._kernel = self.host.world.spawn(f"{self.host.name}-kernel", self.host)

    def begin(self, config: ContainerConfig, gpus: frozenset[str], parts: tuple[CardPart, ...] = ()) -> Container:
        """Start a container; its command decides when it ends."""
        world = self.host.world
        self._pids += 1
        container = Container(config, gpus, self._kernel, world.now_s, kind_of(config.argv), pid=self._pids)
        container.booked = container.parts = parts
        self._look_for_two_hands(container)
        self.running[config.container_id] = container
        self._look_at_cards()
        self.begun[container.task] = self.begun.get(container.task, 0) + 1
        world.tell(self.host.name, f"container {container.task} begins with {sorted(gpus)}{_told(parts)}")
        self.on_begin(container)
        for volume in config.volumes:
            if volume.owned:
                self._use(Path(volume.source), container.task)
        if container.executor is not None:
            container.process = executors.start(self, container)
            return container
        answering.begin(self, container)
        life = config.environment.get(LIFE)
        if life is not None:
            seconds, status = life.split(":")
            ends = Termination(exit_code=int(status))
            world.soon(float(seconds), self.end, config.container_id, ends, process=self._kernel)
        return container

    def _use(self, volume: Path, task: str) -> None:
        """Look for what earlier tasks have written into a volume, down to the disk; the first one writes it."""
        written, before = volume / "written", self.volumes.get(str(volume))
        if before is not None and not written.exists():
            self.host.world.finding(f"what {before} has written is gone when {task} begins: {volume.name}")
        if volume.is_dir() and not written.exists():
            written.write_text(task)
            for path in (written, volume):
                self.host.disk.synced(str(path))
            self.volumes[str(volume)] = task

    def give(self, container_id: ContainerId, gpus: frozenset[str]) -> None:
        """A container has these GPUs from now on."""
        container = self.running.get(container_id)
        if container is not None and container.gpus != gpus:
            container.gpus = gpus
            self.host.world.tell(self.host.name, f"container {container.task} has {sorted(gpus)} now")
            self._look_for_two_hands(container)

    def weight_of(self, container_id: str) -> int | None:
        """Return the weight that an agent has to show; None when nobody knows."""
        booked = self.running[ContainerId(container_id)].booked if container_id in self.running else ()
        return self.weights.get(container_id, max((part.weight for part in booked), default=None))

    def reach(self, container_id: ContainerId, parts: tuple[CardPart, ...]) -> None:
        """A container can use these parts of cards from now on, and no others."""
        container = self.running.get(container_id)
        if container is None or container.parts == parts:
            return
        if not container.away and {part.card for part in container.parts} - {part.card for part in parts}:
            self.host.world.finding(f"{container.task} loses {_told(container.parts)}, and is not put away")
        container.parts = parts
        for told in self.on_reach:
            told(container)
        self.host.world.tell(self.host.name, f"container {container.task} has{_told(parts) or ' no part'} now")
        self._look_at_cards()

    def _look_at_cards(self) -> None:
        for said in overbooked(self.cards, self.running.values()) if self.cards else ():
            self.host.world.finding(f"{self.host.name}: {said}")

    def _look_for_two_hands(self, container: Container) -> None:
        for other in self.running.values():
            if other is not container and other.gpus & container.gpus:
                both = ", ".join(sorted(other.gpus & container.gpus))
                hands = f"{other.task} and {container.task}"
                self.host.world.finding(f"{both} of {self.host.name} is in two hands: {hands}")

    def end(self, container_id: ContainerId, termination: Termination) -> None:
        """End a container, and those that lie in it."""
        container = self.running.pop(container_id, None)
        if container is None:
            return
        for inner in descendants(container_id, self.running):
            self.end(inner, Termination(signal=9))
        if container.process is not None:
            self.host.world.kill(container.process, why="its container ends")
        container.termination = termination
        self.exits[container_id] = termination
        self.host.world.tell(self.host.name, f"container {container.task} ends: {termination}")
        self.on_end(container)
        for told in container.at_end:
            told()
        for watcher in container.watchers:
            if not watcher.done():
                watcher.set_result(None)

    def ask_to_end(self, container_id: ContainerId, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace, which the agent's restart does not stop."""
        container = self.running.get(container_id)
        if container is None:
            return
        world = self.host.world
        for told in self.on_ask:
            told(container, grace_s)
        stubborn = STUBBORN in container.config.environment
        if grace_s > 0 and not stubborn:
            asked = Termination(signal=15)
            world.soon(
                world.random.uniform(0.0, min(grace_s, 2.0)), self.end, container_id, asked, process=self._kernel
            )
        world.soon(grace_s, self.end, container_id, Termination(signal=9), process=self._kernel)


def _told(parts: tuple[CardPart, ...]) -> str:
    return "".join(f" {part.mem_units} GiB {part.weight} slices of card {part.card}" for part in parts)
