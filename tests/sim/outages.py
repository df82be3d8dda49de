"""Apps that need something which is away for a while, such as a database.

What starts meanwhile fails, and waits longer each time; some of what runs fails, too, and the rest runs on beside it.
When it is there again, all must run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from mesos_gpu.container.spec.config import Termination
from tests.sim.actors import NEWEST, Actor
from tests.sim.faults import span
from tests.sim.people import MOST_APPS, Wanted

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine

PAUSE_S = 200.0
MOST = 3
NAME = "needing-"
LASTS_S = (60.0, 600.0)
"""An outage lasts so long in a dense history: as many failures as make what waits wait for its longest."""
FAILS_S = (0.05, 8.0)
"""After so long a task finds out that what it needs is not there."""
FAILING = 0.5
"""How many of those that run notice that at all."""


@dataclass
class Outages(Actor):
    """Whoever has such apps, and the outages."""

    often: ClassVar[float] = 0.3
    since: ClassVar[int] = NEWEST
    name: ClassVar[str] = "outages"
    _away: dict[str, int] = field(default_factory=dict)
    """The apps whose need is away now, and which outage that is."""
    _count: int = 0
    _outages: int = 0

    async def work(self) -> None:
        """Make such an app now and then, and have outages of those that there are."""
        for machine in self.cluster.machines.values():
            self._follow(machine)
        while self.busy:
            await self.pause(PAUSE_S)
            if not self.busy:
                return
            mine = self._mine()
            if len(mine) < MOST and (not mine or self.chance.random() < 0.4):
                await self._create()
            else:
                self._begin(self.chance.choice(mine))

    def _mine(self) -> list[str]:
        return sorted(name for name in self.stage.people.apps if name.startswith(f"/{NAME}"))

    async def _create(self) -> None:
        people = self.stage.people
        if len(people.apps) > MOST_APPS:
            return
        self._count += 1
        name, instances = f"/{NAME}{self._count}", self.chance.randint(2, 4)
        factor, most_s = self.world.pacing.backoff(lasting=True)
        body: dict[str, Any] = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "instances": instances,
            "backoffSeconds": 1, "backoffFactor": factor, "maxLaunchDelaySeconds": most_s,
        }  # fmt: skip
        answer = await self.ask_marathon("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            people.apps[name] = Wanted(instances, 0, True, sure=answer is not None)

    def _begin(self, name: str) -> None:
        self._outages += 1
        number, lasts_s = self._outages, self.world.lasts_s(span(self.chance, *LASTS_S))
        self.tell(f"what {name} needs is away for {lasts_s:.0f} s")
        self._away[name] = number
        self.world.soon(lasts_s, self._end, name, number)
        for machine in self.cluster.machines.values():
            for container in list(machine.running.values()):
                if _app_of(container) == name and self.chance.random() < FAILING:
                    self._fail(machine, container)

    def _end(self, name: str, number: int) -> None:
        if self._away.get(name) == number:
            del self._away[name]
            self.tell(f"what {name} needs is there again")

    def mend(self) -> None:
        """All that is needed is there from now on."""
        self._away.clear()

    # What it does to tasks.

    def _follow(self, machine: Machine) -> None:
        """Be told of each that begins. For good."""
        real = machine.on_begin

        def begins(container: Container) -> None:
            real(container)
            if _app_of(container) in self._away:
                self._fail(machine, container)

        machine.on_begin = begins

    def _fail(self, machine: Machine, container: Container) -> None:
        ended = container.config.container_id, Termination(exit_code=1)
        self.world.soon(span(self.chance, *FAILS_S), machine.end, *ended, process=container.kernel)


def _app_of(container: Container) -> str:
    """Return the app of a task; that of an executor is none."""
    return "" if container.executor is not None else "/" + container.task.split(".")[0]
