"""Whatever happens to the GPUs of an agent, over all doors and with crashes of every party: none shared or leaked."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.agent.decisions.lending import Standing
from mesos_gpu.agent.gpus.lender import Lender
from mesos_gpu.agent.model.leases import LeaseRequest, WatchRequest
from mesos_gpu.errors import Conflict, MesosGpuError
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.mesos.ids import ContainerId
from tests.fakes.gpus import GPUS, ScriptedDriver
from tests.fakes.leases import Killed, Machine, MemoryRecords
from tests.support.histories import examples

DOORS = ("docker", "cdi", "kubernetes", "nvidia-docker", "docker-args")


class MemoryCheckpoints:
    """The isolator's record of containers."""

    def __init__(self) -> None:
        self.held: dict[ContainerId, frozenset[Gpu]] = {}

    def save(self, container_id: ContainerId, gpus: frozenset[Gpu]) -> None:
        self.held[container_id] = frozenset(gpus)

    def remove(self, container_id: ContainerId) -> None:
        self.held.pop(container_id, None)

    def claim(self, owner: object) -> None:
        """One isolator after another uses these."""

    def close(self) -> None:
        """Nothing is locked."""

    def load(self) -> dict[ContainerId, frozenset[HeldGpu]]:
        return {name: frozenset(map(HeldGpu.of, gpus)) for name, gpus in self.held.items()}


@dataclass
class Holder:
    """Somebody outside Mesos who believes to have GPUs, and what of it lives."""

    gpus: frozenset[Gpu]
    pid: int = 0
    cgroup: str = ""
    container: str = ""


@dataclass
class World:
    """One machine. What is not the agent's outlives it."""

    dice: random.Random
    machine: Machine = field(default_factory=Machine)
    records: MemoryRecords = field(default_factory=MemoryRecords)
    checkpoints: MemoryCheckpoints = field(default_factory=MemoryCheckpoints)
    tasks: dict[ContainerId, frozenset[Gpu]] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    named: int = 0

    def begin(self) -> None:
        """Start an agent on what the last one left."""
        self.isolator = NvidiaGpuIsolator(
            GPUS,
            ScriptedDriver(),
            None,
            self.checkpoints,  # type: ignore[arg-type]
        )
        choice = lambda gpus, count: frozenset(self.dice.sample(sorted(gpus), count))  # noqa: E731
        self.lender = Lender(self.isolator, self.records, Path("/tmp"), self.machine, choice=choice)
        for orphan in self.isolator.recover(list(self.tasks)):
            self.isolator.cleanup(orphan)
        self.lender.start()

    async def crash(self) -> None:
        await self.lender.close()
        self.begin()

    def name(self) -> int:
        self.named += 1
        return self.named

    # --- what happens -------------------------------------------------------------------------------------------

    async def launch(self) -> None:
        container = ContainerId(f"task-{self.name()}")
        try:
            self.tasks[container] = frozenset(self.isolator.prepare(container, self.dice.randint(0, 2)).gpus)
        except Conflict:
            pass

    async def exit(self) -> None:
        if self.tasks:
            container = self.dice.choice(sorted(self.tasks))
            del self.tasks[container]
            self.isolator.cleanup(container)

    async def lend(self) -> None:
        """A door asks; it, the disk or the agent may fail on the way, and the door may not hear what became of it."""
        pid = self.name()
        self.machine.processes.add(pid)
        cgroup = f"/sys/fs/cgroup/{pid}" if self.dice.random() < 0.3 else ""
        if cgroup:
            self.machine.cgroups.add(cgroup)
        engine = self.dice.random() < 0.4
        standings = self._standings()
        count = self.dice.randint(1, 2)
        names = tuple(gpu.uuid for gpu in self.dice.sample(GPUS, count)) if self.dice.random() < 0.5 else ()
        asked = LeaseRequest(self.dice.choice(DOORS), "h", "", None if names else count, names)
        watch = WatchRequest(pid, cgroup=cgroup, folder="/tmp" if engine else "")
        self.records.fails = self.dice.random() < 0.05
        self.records.kills = self.dice.choice(("before", "after")) if self.dice.random() < 0.1 else ""
        try:
            lease = self.lender.lend(asked, watch, standings)
        except MesosGpuError:
            self._gone(Holder(frozenset(), pid, cgroup))
        except Killed:
            await self.crash()
            self._gone(Holder(frozenset(), pid, cgroup))  # it heard of no lease, and gives up
        else:
            holder = Holder(frozenset(lease.gpus), pid, cgroup)
            if engine and lease.watch.engine is not None and self.dice.random() < 0.8:
                holder.container = f"{pid:064x}"
                self.machine.cids[lease.watch.engine.cidfile] = holder.container
                self.machine.containers.add(holder.container)
                self.lender.look(lease.id)
            self.holders.append(holder)
        finally:
            self.records.fails, self.records.kills = False, ""

    async def vanish(self) -> None:
        """A holder ends, or is killed."""
        if self.holders:
            self._gone(self.holders.pop(self.dice.randrange(len(self.holders))))

    async def engine_stops(self) -> None:
        """The process that made a container ends; the container is there still."""
        for holder in self.holders:
            if holder.container:
                self.machine.processes.discard(holder.pid)

    async def look(self) -> None:
        self.records.kills = self.dice.choice(("before", "after")) if self.dice.random() < 0.1 else ""
        try:
            for lease in list(self.lender.leases):
                self.lender.look(lease.id)
        except Killed:
            await self.crash()
        finally:
            self.records.kills = ""

    async def give_back(self) -> None:
        """A holder that is done says so."""
        if self.holders:
            holder = self.holders.pop(self.dice.randrange(len(self.holders)))
            lease = self.lender.by_gpu().get(next(iter(holder.gpus)).uuid)
            self._gone(holder)
            if lease is not None and set(lease.gpus) == holder.gpus:
                self.lender.end(lease.id, "done")

    def _gone(self, holder: Holder) -> None:
        self.machine.processes.discard(holder.pid)
        self.machine.cgroups.discard(holder.cgroup)
        self.machine.containers.discard(holder.container)

    def _standings(self) -> list[Standing]:
        lent = self.lender.by_gpu()
        held = {gpu for gpus in self.isolator.held.values() for gpu in gpus}
        return [Standing(gpu, "a task" if gpu in held else "lent" if gpu.uuid in lent else "") for gpu in GPUS]

    # --- what must be so ----------------------------------------------------------------------------------------

    def check(self) -> None:
        hands = [gpu for gpus in self.tasks.values() for gpu in gpus]
        hands += [gpu for holder in self.holders for gpu in holder.gpus]
        assert len(hands) == len(set(hands)), "a GPU is in two hands"
        on_the_book = {gpu for gpus in (*self.isolator.held.values(), *self.isolator.lent.values()) for gpu in gpus}
        assert on_the_book >= set(hands), "somebody has a GPU that is on no book"
        assert on_the_book.isdisjoint(self.isolator.free)
        assert {gpu for lease in self.lender.leases for gpu in lease.gpus} == {
            gpu for gpus in self.isolator.lent.values() for gpu in gpus
        }

    async def end(self) -> None:
        """Everybody goes: nothing may be left."""
        while self.holders:
            await self.vanish()
        while self.tasks:
            await self.exit()
        for lease in list(self.lender.leases):
            self.lender.look(lease.id)
        assert self.isolator.free == frozenset(GPUS), "a GPU is leaked"
        assert self.records.load() == []
        await self.lender.close()


ACTIONS = (
    World.launch,
    World.lend,
    World.lend,
    World.exit,
    World.vanish,
    World.engine_stops,
    World.look,
    World.give_back,
    World.crash,
)


async def history(seed: int, actions: list[int]) -> None:
    world = World(random.Random(seed))
    world.begin()
    for number in actions:
        await ACTIONS[number](world)
        world.check()
    await world.end()


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 1 << 32), actions=st.lists(st.integers(0, len(ACTIONS) - 1), max_size=60))
def test_no_gpu_is_in_two_hands_and_none_leaks(seed: int, actions: list[int]) -> None:
    asyncio.run(history(seed, actions))


def test_nor_in_ten_thousand_steps() -> None:
    dice = random.Random(15)
    asyncio.run(history(15, [dice.randrange(len(ACTIONS)) for _ in range(10_000)]))
