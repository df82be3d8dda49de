"""Apps of high and low priority where GPUs are scarce: who gives way, how it is told, and who never waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from mesos_gpu.marathon.decisions import in_order
from mesos_gpu.marathon.state.actions import Publish
from tests.sim.actors import Actor
from tests.sim.faults import span
from tests.sim.machine import STUBBORN

if TYPE_CHECKING:
    from tests.sim.http import Answer
    from tests.sim.machine import Container, Machine

PAUSE_S = 120.0
MOST_LOW, MOST_HIGH = 2, 2
QUIET_S = 300.0
"""After so long at peace everything that was under way has been done."""
PATIENCE_S = 600.0
"""For so long at most an app of high priority waits at peace while others hold what it needs, and may give way."""
LAUNCHED_S = 1.0
"""A container is known to have begun so soon."""
LOW, HIGH = "low-", "high-"


@dataclass(frozen=True)
class _App:
    priority: int
    preemptible: bool
    grace_s: int


@dataclass
class Preempting(Actor):
    """Whoever has such apps. What is removed is known for ever: its tasks may end later."""

    often: ClassVar[float] = 0.35
    name: ClassVar[str] = "preempting"
    _apps: dict[str, _App] = field(default_factory=dict)
    _there: dict[str, None] = field(default_factory=dict)
    """Those that may be there."""
    _taken: dict[str, str] = field(default_factory=dict)
    """Tasks that were to give way, and for whom."""
    _gave_way_s: dict[str, float] = field(default_factory=dict)
    """When each was to, first."""
    _asked_s: dict[str, float] = field(default_factory=dict)
    """When each was first asked to end."""
    _count: int = 0

    async def work(self) -> None:
        """Make and remove apps now and then."""
        self._install()
        while self.busy:
            await self.pause(PAUSE_S)
            if not self.busy:
                return
            kind, most = self.chance.choice(((LOW, MOST_LOW), (HIGH, MOST_HIGH), (HIGH, MOST_HIGH)))
            there = sorted(name for name in self._there if name.startswith(f"/{kind}"))
            if len(there) >= most or (there and self.chance.random() < 0.4):
                await self._remove(self.chance.choice(there))
            elif kind == LOW:
                await self._create_low(instances=self.chance.randint(2, 6), gpus=self.chance.choice((1, 1, 2)))
            else:
                gpus = self.chance.choice((1, 2, 4))
                await self._create(HIGH, 1 if gpus > 1 else 2, gpus, _App(self.chance.choice((2, 5, 20)), False, 3))

    async def _create_low(self, *, instances: int, gpus: int) -> str | None:
        app = _App(self.chance.choice((0, 1, 2, 5)), True, int(span(self.chance, 1.0, 40.0)))
        return await self._create(LOW, instances, gpus, app)

    async def _create(self, kind: str, instances: int, gpus: int, app: _App) -> str | None:
        """Create an app; return its name, None when nobody knows whether it is there."""
        self._count += 1
        name = f"/{kind}{self._count}"
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": instances,
            "priority": app.priority, "preemptible": app.preemptible, "taskKillGracePeriodSeconds": app.grace_s,
            "env": {STUBBORN: "1"} if self.chance.random() < 0.5 else {},
            "backoffSeconds": 1, "backoffFactor": 1.15, "maxLaunchDelaySeconds": 30,
        }  # fmt: skip
        self._apps[name] = app
        self._there[name] = None
        answer = await self.ask_marathon("POST", "/v2/apps", body)
        return name if answer is not None and answer.status == 201 else None

    async def _remove(self, name: str) -> None:
        answer = await self.ask_marathon("DELETE", f"/v2/apps{name}?force=true")
        if answer is not None:
            self._there.pop(name, None)

    async def _remove_all(self) -> None:
        for _ in range(20):
            for name in list(self._there):
                await self._remove(name)
            if not self._there:
                return
            await asyncio.sleep(30.0)

    # At every moment.

    def _install(self) -> None:
        """Be told of who gives way, and of each task that is asked to end. For good."""
        real = in_order.give_way

        def give_way(draft: Any, units: Any, taker: str) -> None:
            before = len(draft.actions)
            real(draft, units, taker)
            for action in draft.actions[before:]:
                if isinstance(action, Publish) and action.kind == "instance_preempted_event":
                    self._gives_way(dict(action.fields), taker)

        in_order.give_way = give_way
        for machine in self.cluster.machines.values():
            machine.on_ask.append(partial(self._asked, machine))

    def _gives_way(self, event: dict[str, Any], taker: str) -> None:
        app, task = event["appId"], str(event["taskId"])
        self.tell(f"{task} gives way to {taker}")
        self._taken[task] = taker
        self._gave_way_s.setdefault(task, self.world.now_s)
        own, other = self._apps.get(app), self._apps.get(taker)
        if own is None or not own.preemptible:
            self.world.finding(f"{task} is to give way to {taker}, and its app does not say that it may")
        elif other is not None and other.priority <= own.priority:
            self.world.finding(f"{task} of priority {own.priority} is to give way to {taker} of {other.priority}")
        elif other is not None:
            said = (event["takenBy"], event["priority"], event["takenByPriority"], event["graceSeconds"])
            if said != (taker, own.priority, other.priority, own.grace_s):
                self.world.finding(f"it is said that {app} gave way as {said}, and {own} did to {taker}, {other}")

    def _told_s(self, task: str, machine: Machine) -> float:
        """Return from when on a task is to end: an agent may have died of its own kill, and not have told the task."""
        agent = self.world.processes.get(machine.host.name)
        gave_way_s = self._gave_way_s[task]
        return gave_way_s if agent is not None and agent.began_s > gave_way_s else self.world.now_s

    def _asked(self, machine: Machine, container: Container, grace_s: float) -> None:
        """A task is asked to end. Operators who drain an agent say how long that may take at most."""
        app = self._apps.get("/" + container.task.split(".")[0])
        if app is None or container.task not in self._taken or self.stage.judge.operators is not None:
            return
        if self.world.now_s - container.began_s < LAUNCHED_S:
            return  # its kill came while it was launched: nothing of it has run
        now_s = self.world.now_s
        first_s = self._asked_s.setdefault(container.task, self._told_s(container.task, machine))
        # The next process of an agent asks once more, with what is left by its clock.
        least_s = app.grace_s if first_s == now_s else app.grace_s - (now_s - first_s) - 1.0
        if grace_s < least_s:
            self.world.finding(f"{container.task} gives way, and has {grace_s:g} s to end, not {least_s:g} s")

    # At peace.

    async def leave(self) -> None:
        """Remove all; then see one of high priority have what others hold, and those have it back."""
        await self._remove_all()
        await asyncio.sleep(QUIET_S)
        gpus = self.cluster.whole
        low = await self._create_low(instances=gpus, gpus=1)
        if low is not None and await self._runs(low, 1, more=True):
            await asyncio.sleep(QUIET_S)
            await self._takes(low)
        await self._remove_all()

    async def _takes(self, low: str) -> None:
        ran = await self._running(low)
        count = min(ran, self.chance.choice((1, 2)))
        high = await self._create(HIGH, count, 1, _App(self._apps[low].priority + 1, False, 3)) if count else None
        if high is None:
            return
        if not await self._runs(high, count):
            queue = await self.ask_marathon("GET", "/v2/queue")
            self.tell(f"the queue: {b'' if queue is None else queue.body!r}")
            if queue is not None and _is_behind_who_waits_longer(queue.json()["queue"], high):
                return
            held = await self._running(low)
            self.world.finding(f"{high} waits at peace for {count} GPUs, and {low}, which may give way, has {held}")
            return
        found = await self.ask_marathon("GET", f"/v2/apps{low}?embed=app.lastTaskFailure")
        failure = {} if found is None or found.status != 200 else found.json()["app"].get("lastTaskFailure", {})
        taken = [task for task, taker in self._taken.items() if taker == high]
        if taken and found is not None and not failure.get("message", "").startswith(f"gave way to {high}"):
            self.world.finding(f"{taken} gave way to {high}, and the record says {failure}")
        await self._remove(high)
        if not await self._runs(low, ran, more=True):
            self.world.finding(f"{await self._running(low)} of the {ran} tasks of {low} are back, and {high} is gone")

    async def _runs(self, name: str, count: int, *, more: bool = False) -> bool:
        """Return whether so many tasks of an app run within a while, or more where that counts, too."""
        for _ in range(int(PATIENCE_S / 20.0)):
            await asyncio.sleep(20.0)
            running = await self._running(name)
            if running == count or (more and running > count):
                return True
        return False

    async def _running(self, name: str) -> int:
        found: Answer | None = await self.ask_marathon("GET", f"/v2/apps{name}?embed=app.counts")
        return 0 if found is None or found.status != 200 else int(found.json()["app"]["tasksRunning"])


def _is_behind_who_waits_longer(queue: list[dict[str, Any]], name: str) -> bool:
    """Return whether somebody who waits has his place before an app as he has waited so much longer, whoever gives way.

    What a point of priority is worth: `--priority_aging`, docs/do/gangs.md and mesos_gpu/queueing/values.py.
    """
    waits = {one["app"]["id"]: one for one in queue if "app" in one and "order" in one}
    own = waits.get(name)
    return own is not None and any(
        one["order"]["place"] < own["order"]["place"] and one["since"] < own["since"] for one in waits.values()
    )
