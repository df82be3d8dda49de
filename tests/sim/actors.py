"""Who and what a history has beside services, people and faults: each actor is in some histories and not in others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from tests.sim.http import Answer, request

if TYPE_CHECKING:
    from tests.sim.judge import Judge
    from tests.sim.people import People
    from tests.sim.services import Cluster
    from tests.sim.world import World

LATER, NEWEST = 60_000, 100_000
"""Histories of seeds from here on have what actors have learnt since there were others; and what they learnt last."""


@dataclass
class Stage:
    """What an actor finds when a history begins."""

    world: World
    cluster: Cluster
    people: People
    judge: Judge


@dataclass
class Actor:
    """Does something for as long as `busy` is so; nothing of it is left broken once it has left.

    `often`: how many histories have it. `chance` is its own, so that histories without it are as they were before
    there was such an actor.
    """

    often: ClassVar[float] = 0.3
    since: ClassVar[int] = 0
    """Seeds below it were played before there was such an actor: they have it only where somebody says so."""
    name: ClassVar[str] = ""
    stage: Stage
    busy: bool = True
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(f"{self.name} of {self.world.seed}")

    @property
    def world(self) -> World:
        """Return the world that it acts in."""
        return self.stage.world

    @property
    def cluster(self) -> Cluster:
        """Return what it acts upon."""
        return self.stage.cluster

    async def work(self) -> None:
        """Act, until `busy` is not so any more."""

    def mend(self) -> None:
        """Let everything work again: called at the moment when faults end."""

    async def leave(self) -> None:
        """Put right what needs somebody to do so, once faults have ended."""

    async def settled(self) -> None:
        """Everything has worked for long enough: say what is not as it must be."""

    async def pause(self, mean_s: float) -> None:
        """Do nothing for a while, so long in the mean where a history is dense."""
        await asyncio.sleep(self.world.pause_s(self.chance.expovariate(1 / mean_s)))

    def tell(self, what: str) -> None:
        """Write down that it did something."""
        self.world.tell(self.name, what)

    async def ask_marathon(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Return Marathon's answer, None when nobody knows what was done."""
        return await self.stage.people.ask(method, path, body)

    async def ask_master(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Return the answer of the master that leads; None without one, or when nobody knows what was done."""
        for master in self.cluster.masters:
            try:
                answer = await request(f"{master.ip}:5050", method, path, body)
            except (OSError, asyncio.TimeoutError):
                continue
            if answer.status in (200, 202, 400, 403, 404, 409):
                return answer
        return None


def names_of(seed: int, kinds: Sequence[type[Actor]], named: Sequence[str] | None) -> list[str]:
    """Return the names of the actors that the history of a seed has, or those that are named."""
    if named is not None:
        return list(named)
    there = [kind for kind in kinds if seed >= kind.since]
    return [kind.name for kind in there if Random(f"{kind.name} at {seed}").random() < kind.often]


def drawn(stage: Stage, kinds: Sequence[type[Actor]], names: Sequence[str]) -> list[Actor]:
    """Return the actors of those names."""
    found = [kind(stage) for kind in kinds if kind.name in names]
    if found:
        stage.world.tell("actors", ", ".join(actor.name for actor in found))
    return found
