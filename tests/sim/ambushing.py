"""Whoever kills a service between any two of its steps, or takes its machine's power there.

Other faults come at moments of the clock, of a write or of a message. Between two steps of one moment, as when one part
of a service has decided and another has not yet done it, only this one comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tests.sim.actors import Actor
from tests.sim.faults import count_to
from tests.sim.world import Process

PAUSES_S = (60.0, 150.0, 400.0)
MOST_STEPS = 400
AT_AN_ACT = 0.3
"""How often an act of somebody has one lie in wait."""
POWER = 0.3
"""How many take the power of the whole machine."""


@dataclass
class Ambushing(Actor):
    """One service at a time: the one that is chosen first is waited for."""

    often: ClassVar[float] = 0.3
    name: ClassVar[str] = "ambushing"
    _left: int = 0
    _whose: str = ""

    async def work(self) -> None:
        """Lie in wait now and then, and at acts of people."""
        pause_s = self.chance.choice(PAUSES_S)
        self.stage.people.on_act.append(self._acted)
        while self.busy:
            await self.pause(pause_s)
            self._lie_in_wait()

    def _acted(self) -> None:
        if self.chance.random() < AT_AN_ACT:
            self._lie_in_wait()

    def _lie_in_wait(self) -> None:
        if self.busy and self.world.ambush is None:
            self._whose, self._left = self.chance.choice(self.cluster.names), count_to(self.chance, MOST_STEPS)
            self.world.ambush = self._sees

    def _sees(self, process: Process) -> None:
        """Let a process make a step, or end it before that."""
        if process.name != self._whose:
            return
        self._left -= 1
        if self._left > 0:
            return
        self.world.ambush = None
        power = self.chance.random() < POWER
        self.tell(f"{self._whose} is met between two steps{', and its machine loses its power' if power else ''}")
        (self.cluster.power_cut if power else self.cluster.kill)(self._whose)

    def mend(self) -> None:
        """Lie in wait no more."""
        self.world.ambush = None
