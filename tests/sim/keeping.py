"""Who looks after machines with shared cards: suspends by hand, changes weights, and sees cards fall ill."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from mesos_gpu.gpu.device import HealthEvent
from tests.sim.faults import span
from tests.sim.http import Answer, request

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine
    from tests.sim.services import Cluster
    from tests.sim.world import Process, World

SETTLED_S = 1.0
"""So soon an agent has written down what it was told of a card."""
LAUNCHING_S = 60.0
"""A launch takes no longer than this from when its part was taken."""
FATAL, TO_DRAIN = (48, 79, 95), (63, 94)


@dataclass
class CardKeeper:
    """The operator of `machines`, and what happens to their cards."""

    world: World
    cluster: Cluster
    machines: dict[str, Machine]
    chance: Random
    by_hand: dict[str, str] = field(default_factory=dict)
    """Containers that were to be suspended by hand, and their hosts."""
    touched: set[str] = field(default_factory=set)
    """Containers that were to be suspended by hand once."""
    _withdrawn: dict[tuple[str, int], tuple[float, int]] = field(default_factory=dict)
    """Cards that an agent knows to be ill: since when, and in which boot of the host."""
    _at_hosts: dict[str, Process] = field(default_factory=dict)

    def install(self) -> None:
        """Be told of containers that begin. For good."""
        for name, machine in self.machines.items():
            machine.on_begin = partial(self._begins, name, machine.on_begin)

    def _begins(self, name: str, on_begin: Any, container: Container) -> None:
        on_begin(container)
        for part in container.parts:
            since_s, boots = self._withdrawn.get((name, part.card), (float("inf"), 0))
            if boots == self.cluster.host_of(name).boots and since_s < self.world.now_s - LAUNCHING_S:
                self.world.finding(f"{container.task} is given card {part.card} of {name}, which is known to be ill")

    async def _at(self, host: str, path: str, body: Any = None) -> Answer | None:
        """Return what an agent answers somebody at its own machine."""
        if host not in self._at_hosts:
            self._at_hosts[host] = self.world.spawn(f"{host}-keeper", self.cluster.host_of(host))
        keeper, answered = self._at_hosts[host], asyncio.get_running_loop().create_future()

        async def ask() -> None:
            try:
                answered.set_result(await request("127.0.0.1:5051", "POST", path, body))
            except (OSError, asyncio.TimeoutError):
                answered.set_result(None)

        self.world.soon(0.0, lambda: keeper.kept.append(asyncio.ensure_future(ask())), process=keeper)
        answer: Answer | None = await answered
        self.world.tell(
            "sharing", f"{path} {body} at {host}: {None if answer is None else (answer.status, answer.body[:200])}"
        )
        return answer

    def _sharers(self) -> list[tuple[str, str]]:
        """Return hosts and containers with parts."""
        return [
            (name, str(container_id))
            for name, machine in self.machines.items()
            for container_id, container in machine.running.items()
            if container.booked
        ]

    async def suspend(self) -> None:
        """Suspend a container by hand, or have one go on that was."""
        if self.by_hand and self.chance.random() < 0.5:
            await self._resume(self.chance.choice(sorted(self.by_hand)))
        elif sharers := self._sharers():
            host, container = self.chance.choice(sharers)
            self.by_hand[container] = host
            self.touched.add(container)
            await self._at(host, "/gpus/suspend", {"container_id": container})

    async def _resume(self, container: str) -> None:
        answer = await self._at(self.by_hand[container], "/gpus/resume", {"container_id": container})
        if answer is not None and answer.status in (200, 404):
            del self.by_hand[container]

    async def weigh(self) -> None:
        """Give a container another weight."""
        sharers = self._sharers()
        if not sharers:
            return
        host, container = self.chance.choice(sharers)
        machine, weight = self.machines[host], self.chance.randint(1, 12)
        before = machine.weights.get(container, machine.weight_of(container))
        machine.weights[container] = None
        answer = await self._at(host, "/gpu_shares/set", {"container_id": container, "weight": weight})
        if answer is not None and answer.status in (200, 400, 404):
            machine.weights[container] = weight if answer.status == 200 else before

    async def fall_ill(self) -> None:
        """A card has an error, and is well again after a while, whoever has heard of either."""
        name = self.chance.choice(sorted(self.machines))
        machine = self.machines[name]
        number = self.chance.choice(sorted(machine.cards))
        xid = self.chance.choice((*FATAL, *TO_DRAIN))
        machine.ill[number] = f"XID {xid}"
        machine.doubted.add(number)
        self.world.tell("sharing", f"card {number} of {name} is ill: XID {xid}")
        if machine.on_ill is not None and machine.on_ill[1] is self.world.processes.get(name):
            told, process = machine.on_ill
            event = HealthEvent(f"GPU-{name}-{number}", xid, f"XID {xid}")
            self.world.soon(0.0, told, event, process=process)
            self.world.soon(SETTLED_S, self._is_known, name, number, process)
        self.world.soon(self.world.lasts_s(span(self.chance, 10.0, 900.0)), self._is_well, name, number)

    def _is_known(self, name: str, number: int, process: Any) -> None:
        host = self.cluster.host_of(name)
        frozen = process.frozen_until_s > self.world.now_s - SETTLED_S
        if process.alive and not frozen and host.disk.refused_s < self.world.now_s - SETTLED_S:
            self._withdrawn[name, number] = self.world.now_s, host.boots

    def _is_well(self, name: str, number: int) -> None:
        self.machines[name].ill.pop(number, None)
        self._withdrawn.pop((name, number), None)

    # At peace.

    def mend(self) -> None:
        """Cards are well again."""
        for machine in self.machines.values():
            machine.ill.clear()
        self._withdrawn.clear()

    async def leave(self) -> None:
        """Say that cards are well, and have everybody go on who was suspended by hand."""
        self.mend()
        for name, machine in self.machines.items():
            for number in machine.cards:
                await self._until_done(name, f"/gpus/GPU-{name}-{number}/healthy")
            machine.doubted.clear()
        for container in list(self.by_hand):
            for _ in range(20):
                await self._resume(container)
                if container not in self.by_hand or container not in {one for _, one in self._sharers()}:
                    break
                await asyncio.sleep(30.0)
        self.by_hand.clear()

    async def _until_done(self, host: str, path: str) -> None:
        for _ in range(20):
            answer = await self._at(host, path)
            if answer is not None and answer.status == 200:
                return
            await asyncio.sleep(30.0)
        self.world.finding(f"{path} at {host} is not done, and nothing is broken")
