"""What runs on a host: containers that outlive the agent, and what is known of them when a new agent looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import ContainerConfig, Ready, SessionConfig, Size, Termination, check_config
from mesos_gpu.container.spec.nesting import descendants, is_nested, parent_of, top_level
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import BadInput, Conflict, ContainerError, MesosGpuError, NotFound
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId
from tests.sim import answering, executors
from tests.sim.executors import kind_of

if TYPE_CHECKING:
    from tests.sim.world import Host, Process

LIFE = "SIM_LIFE"
"""A task's variable: SECONDS:STATUS, how long it runs and how it ends; without, it runs until it is ended."""
STUBBORN = "SIM_STUBBORN"
"""A task's variable: it does not end when it is asked to."""
REMEMBERED = 1000


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

    def begin(self, config: ContainerConfig, gpus: frozenset[str]) -> Container:
        """Start a container; its command decides when it ends."""
        world = self.host.world
        container = Container(config, gpus, self._kernel, world.now_s, kind_of(config.argv))
        self._look_for_two_hands(container)
        self.running[config.container_id] = container
        self.begun[container.task] = self.begun.get(container.task, 0) + 1
        world.tell(self.host.name, f"container {container.task} begins with {sorted(gpus)}")
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


class SimulatedContainers:
    """The containerizer of one run of an agent: what it knows is lost with it, what runs is not.

    Steps come in the order of the real one: GPUs are taken and written down, the container begins; its end is seen,
    its GPUs are freed, then whoever waits is told. Between any two of them time passes, and the agent may die.
    """

    def __init__(self, machine: Machine, isolator: SharingIsolator) -> None:
        self.machine, self.isolator = machine, isolator
        self._world = machine.host.world
        self._known: set[ContainerId] = set()
        self._launching: set[ContainerId] = set()
        self._doomed: set[ContainerId] = set()
        self._ended: dict[ContainerId, Termination] = {}
        self._over: dict[ContainerId, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def recover(self, live: Collection[ContainerId]) -> None:
        """See Containers: others than `live` are ended; those of `live` that ended meanwhile are found so."""
        await self._pause()
        wanted = set(live)
        running = [one for one in self.machine.running if top_level(one) in wanted and self._ours(one)]
        held = self.isolator.recover([one for one in running if not is_nested(one)])
        for stray in [one for one in self.machine.running if top_level(one) not in wanted]:
            self.machine.end(stray, Termination(signal=9))
            self.machine.exits.pop(stray, None)
        outer = set(running)
        for container_id, how in list(self.machine.exits.items()):
            if container_id in wanted or (is_nested(container_id) and top_level(container_id) in outer):
                self._ended[container_id] = how
        for container_id in sorted({*held} - set(running)):
            self.isolator.cleanup(container_id)
        for container_id in running:
            self._follow(container_id)

    def _ours(self, container_id: ContainerId) -> bool:
        """Tell whether the agent launched it: what a framework's own executor has is its own affair."""
        outer = self.machine.running.get(top_level(container_id))
        return outer is None or outer.executor != "custom" or not is_nested(container_id)

    async def launch(
        self, config: ContainerConfig, progress: Callable[[str], None] | None = None, ready: Ready | None = None
    ) -> int:
        """See Containers."""
        check_config(config)
        container_id = config.container_id
        if container_id in self._known or container_id in self._launching or container_id in self._ended:
            raise Conflict(f"a container {container_id} exists already")
        self._launching.add(container_id)
        try:
            if is_nested(container_id):
                if parent_of(container_id) not in self._known:
                    raise ContainerError(f"container {container_id} lies in one that does not run")
            else:
                self.isolator.prepare(container_id, config.gpus, labels=config.labels)
            try:
                await self._pause()
                if ready is not None:
                    await ready()
                if self._world.random.random() < 0.01:
                    raise ContainerError("the runtime refuses")
                if container_id in self._doomed:
                    raise ContainerError(f"container {container_id} was destroyed while it was launched")
                if is_nested(container_id) and top_level(container_id) not in self.machine.running:
                    raise ContainerError(f"container {container_id} lies in one that has ended")
            except BaseException:
                self._clean_up(container_id)
                raise
            self.machine.begin(config, self._held(container_id))
            self._follow(container_id)
        finally:
            self._launching.discard(container_id)
        await self._pause()
        return 4711

    def _held(self, container_id: ContainerId) -> frozenset[str]:
        return frozenset(gpu.uuid for gpu in self.isolator._whole.held.get(container_id, ()))

    def _clean_up(self, container_id: ContainerId) -> None:
        if not is_nested(container_id):
            self.isolator.cleanup(container_id)

    async def wait(self, container_id: ContainerId) -> Termination:
        """See Containers."""
        if container_id not in self._ended:
            if container_id not in self._over:
                raise NotFound(container_id)
            await self._over[container_id].wait()
        if container_id not in self._ended:
            raise NotFound(container_id)
        return self._ended[container_id]

    async def resize(self, container_id: ContainerId, size: Size) -> None:
        """See Containers."""
        container = self.machine.running.get(container_id)
        if container_id not in self._known or container is None:
            raise NotFound(container_id)
        had = len(container.gpus)
        if size.gpus < had:
            # What it can open is taken from it before that is written down, whoever is killed between the two.
            self.machine.give(container_id, frozenset(sorted(container.gpus, key=_number_of)[: size.gpus]))
        if size.gpus != had:
            try:
                self.isolator.update(container_id, size.gpus)
            except MesosGpuError:
                self.machine.give(container_id, self._held(container_id))
                raise
            self.machine.give(container_id, self._held(container_id))

    def pid_of(self, container_id: ContainerId) -> int | None:
        """See Containers."""
        return 4711 if container_id in self.machine.running else None

    def freeze_file(self, container_id: ContainerId) -> Path | None:
        """See Containerizer: nothing here is frozen."""
        return None

    def expect(self) -> None:
        pass

    def network_infos(self, container_id: ContainerId) -> Sequence[Mapping[str, Any]]:
        """See Containers."""
        return ()

    def network_namespace(self, container_id: ContainerId) -> int | None:
        """See Containers."""
        return None

    async def kill(self, container_id: ContainerId, grace_s: float) -> None:
        """See Containers."""
        if container_id in self._launching:
            self._doomed.add(container_id)
            return
        if container_id not in self._known and container_id not in self._ended:
            raise NotFound(container_id)
        self.machine.ask_to_end(container_id, grace_s)

    async def execute(self, container_id: ContainerId, execution: Execution) -> int:
        """See Containers: every command asks how the task is."""
        container = self.machine.running.get(container_id)
        if container is None:
            raise NotFound(container_id)
        await self._pause()
        return answering.answered(container)

    async def destroy(self, container_id: ContainerId) -> None:
        """See Containers."""
        if container_id in self._launching:
            self._doomed.add(container_id)
        elif container_id in self._known:
            self.machine.end(container_id, Termination(signal=9))
            await self._over[container_id].wait()
        self._ended.pop(container_id, None)
        self._over.pop(container_id, None)
        self.machine.exits.pop(container_id, None)

    def containers(self) -> Collection[ContainerId]:
        """See Containers."""
        return sorted(self._known)

    async def usage(self, container_id: ContainerId) -> dict[str, Any]:
        """See Containers."""
        if container_id not in self._known:
            raise NotFound(container_id)
        return {"timestamp": self.machine.host.wall(), "mem_limit_bytes": 64 << 20}

    async def enter(self, config: SessionConfig) -> Attachment:
        """See Containers; nothing here asks for it."""
        raise BadInput("there are no sessions here")

    async def send_signal(self, container_id: ContainerId, number: int) -> None:
        """See Containers."""
        if container_id not in self._known:
            raise NotFound(container_id)
        self.machine.end(container_id, Termination(signal=number))

    def record(self, container_id: ContainerId) -> Record:
        """See Containers."""
        container = self.machine.running.get(container_id)
        if container_id not in self._known or container is None:
            raise NotFound(container_id)
        config = container.config
        return Record(
            container_id=container_id, step="running", boot_id=self.machine.host.boot_id, sandbox=str(config.sandbox),
            gpus=config.gpus, user=config.user, shares_cgroup=config.shares_cgroup, pid=1,
            volumes=config.sandbox_volumes,
        )  # fmt: skip

    def switchboard(self, container_id: ContainerId) -> Switchboard | None:
        """See Containers."""
        self.record(container_id)
        return None

    async def close(self) -> None:
        """See Containers."""
        for task in self._tasks:
            task.cancel()

    def _follow(self, container_id: ContainerId) -> None:
        self._known.add(container_id)
        self._over[container_id] = asyncio.Event()
        task = asyncio.ensure_future(self._watch(container_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, container_id: ContainerId) -> None:
        container = self.machine.running.get(container_id)
        if container is not None:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            container.watchers.append(ended)
            await ended
        await self._pause()
        try:
            self._clean_up(container_id)
        except (MesosGpuError, OSError) as error:  # as the real one: it stays held for now
            self._world.tell(self.machine.host.name, f"what {container_id} held is not given back: {error}")
        self._known.discard(container_id)
        if container_id in self.machine.exits:
            self._ended[container_id] = self.machine.exits[container_id]
        self._over[container_id].set()
        while len(self._ended) > REMEMBERED:
            self._ended.pop(next(iter(self._ended)))

    async def _pause(self) -> None:
        await asyncio.sleep(self._world.random.uniform(0.0, 0.05))


def _number_of(uuid: str) -> int:
    """Return the number of a GPU of a host, by which the isolator takes the highest first."""
    return int(uuid.rpartition("-")[2])
