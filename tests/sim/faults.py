"""What goes wrong, and when it is mended again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.marathon.model.jobs import CORRECTION_S

if TYPE_CHECKING:
    from tests.sim.services import Cluster
    from tests.sim.world import Host, World

LONGEST_CUT_S = 1200.0
HOW_OFTEN = {"kill": 5, "kill_while_writing": 6, "cut": 5, "slow": 2, "power": 2, "clock": 1, "quorum": 1}
HOW_OFTEN |= {"kill_while_sending": 4, "cut_while_sending": 4, "kill_executor": 1, "freeze": 3, "flap": 2, "storm": 1}
"""How often each kind comes, beside the others, before a seed makes it up to four times as often or as rare."""
LEFT_OUT = 0.3
"""How many of the kinds a history does without: what some hide, others show."""
LONGEST_FREEZE_S = 200.0
HAUNTED = 0.6
"""How many histories have faults that come when somebody does something, beside those that come at any time."""
LONGEST_AFTER_S = 10.0
CONGESTED = 0.25
"""How often what was cut off is slow for a while when it is back: everybody sends what had to wait."""


def span(chance: Random, least_s: float, most_s: float) -> float:
    """Return how long something lasts: as often from 1 s to 10 s as from 10 s to 100 s."""
    return float(math.exp(chance.uniform(math.log(least_s), math.log(most_s))))


def swarm(seed: int, what: str, usual: Mapping[str, float]) -> dict[str, float]:
    """Return what the history of a seed has of some kinds, and how often each comes beside the others.

    Source: Groce et al., Swarm Testing (ISSTA 2012): configurations that leave kinds out find more than one that has
    all.
    """
    chance = Random(f"{what} of {seed}")
    drawn = {kind: often * 4 ** chance.uniform(-1, 1) for kind, often in usual.items() if chance.random() >= LEFT_OUT}
    return drawn or dict(usual)


def some_kinds(seed: int) -> dict[str, float]:
    """Return the faults that the history of a seed has, and how often each comes."""
    return swarm(seed, "faults", HOW_OFTEN)


def haunt_of(seed: int) -> float:
    """Return how often something breaks just when somebody has asked for something, in the history of a seed."""
    chance = Random(f"haunt of {seed}")
    return chance.uniform(0.05, 0.5) if chance.random() < HAUNTED else 0.0


def count_to(chance: Random, most: int) -> int:
    """Return which of the next ones it is to be: as often one of the first few as of the many after them."""
    return int(span(chance, 1.0, most + 1.0))


@dataclass
class Faults:
    """Things break as long as `going` is so; `kinds` says which, and how often; `haunt`: see haunt_of."""

    world: World
    cluster: Cluster
    kinds: dict[str, float]
    haunt: float = 0.0
    going: bool = True
    count: int = 0
    on_fault: list[Callable[[], None]] = field(default_factory=list)
    """Told of each: who uses a cluster does something when it breaks."""

    async def work(self, pause_s: float) -> None:
        """Break something now and then."""
        chance = self.world.random
        while True:
            # Some come together: what one alone does not break, two at a time may.
            together = chance.random() < 0.25
            pause = chance.uniform(0.0, 3.0) if together else self.world.pause_s(chance.expovariate(1 / pause_s))
            await asyncio.sleep(pause)
            if not self.going:
                return
            self._break()

    def _break(self) -> None:
        if not self.going:
            return
        self.count += 1
        getattr(self, self.world.random.choices(list(self.kinds), list(self.kinds.values()))[0])()
        for told in self.on_fault:
            told()

    def acted(self) -> None:
        """Somebody asks for something: that is when most is on its way, and when it is worst if something breaks."""
        chance = self.world.random
        if self.going and self.haunt and chance.random() < self.haunt:
            self.world.soon(span(chance, 0.001, LONGEST_AFTER_S), self._break)

    def kill(self) -> None:
        """A service is killed; sometimes several at one moment."""
        chance = self.world.random
        for name in chance.sample(self.cluster.names, chance.choice((1, 1, 1, 2, 3))):
            self.cluster.kill(name)

    def kill_while_writing(self) -> None:
        """A service is killed at one of its next writes."""
        self.cluster.kill_while_writing(self.world.random.choice(self.cluster.names))

    def kill_while_sending(self) -> None:
        """A service is killed before one of the next things that it sends."""
        self.cluster.kill_while_sending(self.world.random.choice(self.cluster.names))

    def cut_while_sending(self) -> None:
        """Nothing passes between two hosts, from one of the next things on that one sends to the other."""
        chance = self.world.random
        one = chance.choice(self.cluster.masters)
        other = self.cluster.host_of(chance.choice([name for name in self.cluster.names if name != one.name]))
        lasts_s = self.world.lasts_s(span(chance, 0.5, LONGEST_CUT_S))

        def spring() -> None:
            self.world.tell("faults", f"{one.name} is cut off from {other.name} for {lasts_s:.1f} s")
            self.world.network.partition(one, other)
            self.world.soon(lasts_s, self._heal, one, [other])

        self.world.network.trap(one, other, count_to(chance, 30), spring)

    def kill_executor(self) -> None:
        """An executor is killed, and its container ends with it."""
        found = [
            (machine, container)
            for machine in self.cluster.machines.values()
            for container in machine.running.values()
            if container.executor is not None
        ]
        if found:
            machine, container = self.world.random.choice(found)
            self.world.tell("faults", f"the executor in {container.task} is killed")
            machine.end(container.config.container_id, Termination(signal=9))

    def cut(self) -> None:
        """Nothing passes between two hosts for a while, or to and from one."""
        chance = self.world.random
        hosts = [self.cluster.host_of(name) for name in self.cluster.names]
        centres = list(self.cluster.masters)
        if self.cluster.zookeeper is not None:
            centres.append(self.cluster.zookeeper.host)
            hosts.append(self.cluster.zookeeper.host)
        one = chance.choice(hosts)
        others = [host for host in hosts if host is not one]
        if chance.random() < 0.5:
            centre = chance.choice(centres)
            others = [centre] if one is not centre else [chance.choice(others)]
        for other in others:
            self.world.network.partition(one, other)
        names = ", ".join(other.name for other in others)
        lasts_s = self.world.lasts_s(span(chance, 0.5, LONGEST_CUT_S))
        self.world.tell("faults", f"{one.name} is cut off from {names} for {lasts_s:.1f} s")
        self.world.soon(lasts_s, self._heal, one, others)

    def _heal(self, one: Host, others: list[Host]) -> None:
        """Let what comes from a host to others pass again; it may have to queue for a while."""
        chance = self.world.random
        if self.going and chance.random() < CONGESTED:
            for other in others:
                self._congest(one, other, span(chance, 1.0, 100.0))
        self.world.network.heal(*(frozenset((one.name, other.name)) for other in others))

    def _congest(self, one: Host, other: Host, lasts_s: float) -> None:
        self.world.network.slow(one, other, self.world.random.uniform(0.05, 5.0))
        self.world.soon(lasts_s, self.world.network.slow, one, other, 0.0)

    def slow(self) -> None:
        """What passes between two hosts is slow for a while."""
        chance = self.world.random
        one, other = chance.sample([self.cluster.host_of(name) for name in self.cluster.names], 2)
        if chance.random() < 0.5:
            # Nearly all of what is sent is to and from the master.
            one = chance.choice([master for master in self.cluster.masters if master is not other] or [one])
        self.world.tell("faults", f"{one.name} to {other.name} is slow")
        self._congest(one, other, chance.uniform(1.0, 200.0))

    def power(self) -> None:
        """A host loses its power."""
        name = self.world.random.choice(self.cluster.names)
        self.world.tell("faults", f"power cut at {name}")
        self.cluster.power_cut(name)

    def quorum(self) -> None:
        """ZooKeeper answers nobody for a while."""
        if self.cluster.zookeeper is not None and self.cluster.zookeeper.quorum:
            lasts_s = self.world.lasts_s(span(self.world.random, 1.0, 120.0))
            self.world.tell("faults", f"ZooKeeper has no quorum for {lasts_s:.1f} s")
            self.cluster.zookeeper.lose_quorum(lasts_s)

    def clock(self) -> None:
        """Somebody sets a clock, by seconds or by days."""
        chance = self.world.random
        deciding = [host.name for host in (*self.cluster.masters, *self.cluster.marathons)]
        host = self.cluster.host_of(chance.choice(chance.choice((self.cluster.names, deciding))))
        jump_s = chance.choice((-1.0, 1.0, 1.0)) * 10 ** chance.uniform(0.0, 5.5)
        host.wall_offset_s += jump_s
        if 0.0 < host.wall_offset_s < CORRECTION_S:
            self.world.ahead_s = max(self.world.ahead_s, host.wall_offset_s)
        self.world.tell("faults", f"the clock of {host.name} jumps by {jump_s:.1f} s")

        def right() -> None:
            host.wall_offset_s = 0.0
            self.world.tell("faults", f"the clock of {host.name} is set right")

        if chance.random() < 0.5:
            self.world.soon(self.world.lasts_s(span(chance, 1.0, 600.0)), right)

    def freeze(self) -> None:
        """A service makes no step for a while, and goes on as if nothing had been."""
        chance = self.world.random
        process = self.world.processes.get(chance.choice(self.cluster.names))
        if process is not None:
            self.world.freeze(process, self.world.lasts_s(span(chance, 0.5, LONGEST_FREEZE_S)))

    def flap(self) -> None:
        """Two hosts reach each other, and do not, several times in a row."""
        chance = self.world.random
        one = chance.choice(self.cluster.masters)
        other = self.cluster.host_of(chance.choice([name for name in self.cluster.names if name != one.name]))
        self.world.tell("faults", f"the link of {one.name} and {other.name} flaps")
        at_s = 0.0
        for _ in range(chance.randint(2, 6)):
            lasts_s = span(chance, 0.1, 30.0)
            self.world.soon(at_s, self.world.network.partition, one, other)
            self.world.soon(at_s + lasts_s, self.world.network.heal, frozenset((one.name, other.name)))
            at_s += lasts_s + span(chance, 0.01, 10.0)

    def storm(self) -> None:
        """All services are killed within seconds, or all hosts lose their power."""
        chance = self.world.random
        power = chance.random() < 0.5
        self.world.tell("faults", "all hosts lose their power" if power else "all services are killed")
        for name in self.cluster.names:
            self.world.soon(chance.uniform(0.0, 3.0), self.cluster.power_cut if power else self.cluster.kill, name)

    def mend(self) -> None:
        """Let everything work again; clocks are set right."""
        self.going = False
        self.world.network.disarm()
        self.world.network.heal()
        for name in self.cluster.names:
            host = self.cluster.host_of(name)
            host.wall_offset_s = 0.0
            for other in self.cluster.names:
                if other != name:
                    self.world.network.slow(host, self.cluster.host_of(other), 0.0)
            process = self.world.processes.get(name)
            if process is not None:
                process.fatal_in = process.fatal_send = None
