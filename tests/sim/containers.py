"""The containerizer of one run of an agent, on a machine whose containers outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.life.following import LAST_RETRY_S
from mesos_gpu.container.spec.config import ContainerConfig, Ready, SessionConfig, Size, Termination, check_config
from mesos_gpu.container.spec.nesting import is_nested, parent_of, top_level
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import BadInput, Conflict, ContainerError, MesosGpuError, NotEnoughGpus, NotFound
from mesos_gpu.isolator.plan import Change
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share
from tests.sim import answering
from tests.sim.cards import amounts, number_of
from tests.sim.machine import Machine

REMEMBERED = 1000
OPEN = 0.03
"""How often a container has a card open that is to be taken from it."""


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
        if machine.cards:
            self._isolator_reaches = isolator._reach
            isolator._reach = self._reach  # type: ignore[method-assign]

    async def recover(self, live: Collection[ContainerId]) -> None:
        """See Containers: others than `live` are ended; those of `live` that ended meanwhile are found so."""
        await self._pause()
        wanted = set(live)
        running = [one for one in self.machine.running if top_level(one) in wanted and self._ours(one)]
        held = self.isolator.recover([one for one in running if not is_nested(one)])
        self._look_at_records(running)
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

    def _look_at_records(self, running: Collection[ContainerId]) -> None:
        """What a container can use of cards is on record, or the next one is given it, too."""
        for container_id in running:
            known = amounts(self._parts(container_id))
            for card, has in amounts(self.machine.running[container_id].parts).items():
                if known.get(card) != has:
                    who = f"{self.machine.running[container_id].task} on {self.machine.host.name}"
                    self._world.finding(f"{who} can use {has} of card {card}, and on record is {known.get(card)}")

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
                self._prepare(config)
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
            self.machine.begin(config, self._held(container_id), self._parts(container_id))
            self._follow(container_id)
        finally:
            self._launching.discard(container_id)
        await self._pause()
        return 4711

    def _prepare(self, config: ContainerConfig) -> None:
        """Take what a container is to have; nobody is refused it for what has ended."""
        try:
            self.isolator.prepare(config.container_id, config.gpus, labels=config.labels, share=config.share)
        except NotEnoughGpus as error:
            there = self._known | self._launching
            gone = [str(one) for one in (*self.isolator._whole.held, *self.isolator.shares) if one not in there]
            if gone and self.machine.host.disk.refused_s < self._world.now_s:
                self._world.finding(f"{config.container_id} is refused ({error}): {gone} have ended, and hold GPUs")
            raise

    def _held(self, container_id: ContainerId) -> frozenset[str]:
        return frozenset(gpu.uuid for gpu in self.isolator._whole.held.get(container_id, ()))

    def _parts(self, container_id: ContainerId) -> tuple[CardPart, ...]:
        share = self.isolator.shares.get(container_id) if self.machine.cards else None
        return () if share is None else share.parts

    def _reach(self, container_id: ContainerId, share: Share) -> Change:
        """Change what a container can open, as the isolator says; it may have open what it is to lose."""
        change = self._isolator_reaches(container_id, share)
        container = self.machine.running.get(container_id)
        lost = amounts(() if container is None else container.parts).keys() - amounts(share.parts).keys()
        if lost and self._world.random.random() < OPEN:
            raise Conflict(f"container {container_id} has card {min(lost)} open")
        self.machine.reach(container_id, share.parts)
        return change

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
        self._give(container_id, size.gpus)

    async def update(self, container_id: ContainerId, gpus: int) -> None:
        """See Containerizer."""
        await self._pause()
        self._give(container_id, gpus)

    async def change_access(self, container_id: ContainerId, how: Callable[[], Change]) -> Change:
        """See Containerizer."""
        await self._pause()
        if container_id not in self._known:
            raise NotFound(container_id)
        return how()

    def _give(self, container_id: ContainerId, gpus: int) -> None:
        container = self.machine.running.get(container_id)
        if container_id not in self._known or container is None:
            raise NotFound(container_id)
        had = len(container.gpus)
        if gpus < had:
            # What it can open is taken from it before that is written down, whoever is killed between the two.
            self.machine.give(container_id, frozenset(sorted(container.gpus, key=number_of)[:gpus]))
        if gpus != had:
            try:
                self.isolator.update(container_id, gpus)
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

    async def revoke_stale(self) -> None:
        """See Containers; the GPUs here are always the same."""

    async def send_signal(self, container_id: ContainerId, number: int, grace_s: float | None = None) -> None:
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
        if not self._gives_back(container_id):  # as the real one: it stays held for now
            task = asyncio.ensure_future(self._give_back_late(container_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._known.discard(container_id)
        if container_id in self.machine.exits:
            self._ended[container_id] = self.machine.exits[container_id]
        self._over[container_id].set()
        while len(self._ended) > REMEMBERED:
            self._ended.pop(next(iter(self._ended)))

    def _gives_back(self, container_id: ContainerId) -> bool:
        try:
            self._clean_up(container_id)
        except (MesosGpuError, OSError) as error:
            self._world.tell(self.machine.host.name, f"what {container_id} held is not given back: {error}")
            return False
        return True

    async def _give_back_late(self, container_id: ContainerId) -> None:
        done = False
        while not done:
            await asyncio.sleep(LAST_RETRY_S)
            done = self._gives_back(container_id)

    async def _pause(self) -> None:
        await asyncio.sleep(self._world.random.uniform(0.0, 0.05))
