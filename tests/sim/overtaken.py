"""Whoever sees to it that what was sent first comes last: one connection stands still, and all others pass.

A kernel that gets no answer sends again after longer and longer, up to two minutes; meanwhile its process may be
killed, and the next one speaks over a connection of its own. Cuts and slow networks hold back what is said over all
connections of two hosts, so that this is rare with them. Here it comes when a certain message is sent, and ends when
another is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from mesos_gpu.container.spec.config import Termination
from tests.sim.actors import LATER, NEWEST, Actor
from tests.sim.faults import count_to, span
from tests.sim.network import LONGEST_RETRY_S

if TYPE_CHECKING:
    from tests.sim.machine import Container
    from tests.sim.network import Transport

PAUSES_S = (5.0, 20.0, 80.0)
PATIENCE_S = 150.0
"""After so long without the message that is waited for, another is."""
FIRST = {"RunTask": 3.0, "ReregisterSlaveMessage": 3.0, "StatusUpdateMessage": 1.0, "SlaveReregisteredMessage": 1.0}
FIRST |= {"StatusUpdateAcknowledgementMessage": 1.0, "KillTaskMessage": 1.0, "ApplyOperationMessage": 1.0}
"""Messages of masters and agents at which it begins, and how often each is chosen."""
FIRST_TOO = {"UpdateSlaveMessage": 2.0}
"""The same, of seeds from `NEWEST` on."""
THEN = ("ReregisterSlaveMessage", "SlaveReregisteredMessage", None)
"""Those of the same two hosts at which it goes on; None: after a while."""
HELD, CRASHES, MARATHON, AT_ONCE = 0.8, 0.6, 0.3, 0.4
"""How often the connection stands still; how often a task of the agent ends then, and Marathon is killed; and how often
what was held back comes at once then."""
KILLED = ("sender", "sender", "sender", "receiver", "receiver", "")
"""Who is killed when it begins."""


@dataclass(eq=False)
class _Scene:
    """What is waited for: a message, between any master and agent, or these `hosts` once it has begun."""

    message: str | None
    left: int
    """How many of it are to be sent still."""
    hosts: frozenset[str] = frozenset()
    held: Transport | None = None
    """What stands still."""
    tasks: tuple[Container, ...] = ()
    """Those that ran on the agent when it began."""


@dataclass
class Overtaken(Actor):
    """One scene at a time: a message that begins it, one at which it goes on, and its end."""

    often: ClassVar[float] = 0.3
    since: ClassVar[int] = LATER
    name: ClassVar[str] = "overtaken"
    _scene: _Scene | None = None
    _all: list[_Scene] = field(default_factory=list)

    async def work(self) -> None:
        """Wait for a message now and then."""
        pause_s = self.chance.choice(PAUSES_S)
        self.world.network.on_data = self._sees
        first = FIRST | FIRST_TOO if self.world.seed >= NEWEST else FIRST
        while self.busy:
            await self.pause(pause_s)
            if self.busy and self._scene is None:
                message = self.chance.choices(list(first), list(first.values()))[0]
                self._scene = _Scene(message, count_to(self.chance, 3))
                self.world.soon(PATIENCE_S, self._give_up, self._scene)

    def _give_up(self, scene: _Scene) -> None:
        if self._scene is scene:
            self._scene = None

    def _sees(self, end: Transport, data: bytes) -> None:
        """Something is about to be sent: this may be the message that is waited for."""
        scene = self._scene
        if scene is None or end.peer is None or f"/mesos.internal.{scene.message}".encode() not in data:
            return
        sender, receiver = end.process.host.name, end.peer.process.host.name
        pair, agents = frozenset((sender, receiver)), self.cluster.machines.keys()
        others = pair - agents
        if len(others) != 1 or not others <= {host.name for host in self.cluster.masters}:
            return
        if scene.hosts and scene.hosts != pair:
            return
        scene.left -= 1
        if scene.left > 0:
            return
        if scene.hosts:
            self._scene = None
            self._goes_on(scene)
        else:
            scene.hosts = pair
            scene.tasks = tuple(self._tasks(next(iter(pair & agents))))
            self._begins(scene, end, sender, receiver)

    def _begins(self, scene: _Scene, end: Transport, sender: str, receiver: str) -> None:
        chance = self.chance
        killed = {"sender": sender, "receiver": receiver}.get(chance.choice(KILLED))
        held = chance.random() < HELD
        self.tell(f"{scene.message} from {sender} to {receiver}{' stands still' if held else ''}; killed: {killed}")
        if held:
            scene.held = end
            self.world.network.stall(end)
            self._all.append(scene)
            self.world.soon(LONGEST_RETRY_S, self._release, scene)
        if killed is not None:
            self.world.soon(span(chance, 1e-4, 0.5), self.cluster.kill, killed)
        scene.message, scene.left = chance.choice(THEN), 1
        if scene.message is None:
            self._scene = None
            self.world.soon(span(chance, 0.1, 60.0), self._goes_on, scene)

    def _goes_on(self, scene: _Scene) -> None:
        """Others have spoken since: things happen that they speak of, and then the first one comes."""
        chance = self.chance
        agent = next(name for name in scene.hosts if name in self.cluster.machines)
        if self.busy and chance.random() < MARATHON:
            self.world.soon(span(chance, 1e-4, 1.0), self.cluster.kill, chance.choice(self.cluster.marathons).name)
        tasks = [container for container in self._tasks(agent) if container in scene.tasks]
        after_s = 0.0 if chance.random() < AT_ONCE else span(chance, 0.2, 60.0)
        if self.busy and tasks and chance.random() < CRASHES:
            container, crash_s = chance.choice(tasks), span(chance, 0.01, 20.0)
            self.tell(f"{container.task} is to crash")
            ended = container.config.container_id, Termination(exit_code=1)
            self.world.soon(crash_s, self.cluster.machines[agent].end, *ended)
            after_s += crash_s
        self.world.soon(after_s, self._release, scene)

    def _tasks(self, agent: str) -> list[Container]:
        """Return the tasks of an agent whose framework acknowledges what becomes of them."""
        guest, running = self.stage.judge.guest, self.cluster.machines[agent].running.values()
        return [one for one in running if one.executor is None and (guest is None or not guest.is_lazy(one.task))]

    def _release(self, scene: _Scene) -> None:
        if scene.held is not None:
            self.tell(f"what stood still between {' and '.join(sorted(scene.hosts))} comes")
            self.world.network.release(scene.held)
            scene.held = None

    def mend(self) -> None:
        """Nothing stands still any more."""
        self._scene = self.world.network.on_data = None
        for scene in self._all:
            self._release(scene)
