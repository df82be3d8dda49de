"""Apps whose tasks are asked for their health: well, sick for a while, or never well; and what follows from it.

What asks them is the services' own: Marathon over HTTP and TCP, agents by HTTP, TCP, and a command in the container.
Some are asked by Marathon whether they are ready, too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mesos_gpu.agent.decisions import checking
from mesos_gpu.marathon.decisions import health_updates, orchestrator
from mesos_gpu.mesos.checks import HealthNews
from tests.sim.actors import LATER, Actor
from tests.sim.answering import HEALTH, READY, ready_after_s, sick_within
from tests.sim.faults import span
from tests.sim.people import MOST_APPS, Wanted

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine
    from tests.sim.world import Host

PAUSE_S = 240.0
MOST = 2
"""Apps with checks at a time, for each check costs a connection."""
FAILURES, TIMEOUT_S, GRACE_S = 2, 8.0, 30.0
CALM_S = 240.0
"""A kill that nothing disturbs has been carried out, and a check run, after so long."""
WATCH_S = 150.0
WELL, NEVER = "inf:inf", "0:inf"
KINDS = ("HTTP", "TCP", "COMMAND", "MESOS_HTTP", "MESOS_TCP")
NOT_YET = "1e9"
NAME = "checked-"


@dataclass
class Checked(Actor):
    """Whoever has apps with health checks."""

    often: ClassVar[float] = 0.35
    name: ClassVar[str] = "health"
    interval_s: float = 0.0
    _count: int = 0

    async def work(self) -> None:
        """Make such an app now and then, and look after those that there are."""
        self.interval_s = self.chance.choice((15.0, 30.0)) * self.world.pacing.pace.checks
        self._install()
        while self.busy:
            await self.pause(PAUSE_S)
            self._look()
            if self.busy:
                await (self._create() if len(self._mine()) < MOST else self._change())

    @property
    def _known_after_s(self) -> float:
        """After so long a sickness is known, and one that is over does not count any more."""
        return GRACE_S + (FAILURES + 2) * (self.interval_s + TIMEOUT_S)

    @property
    def _each(self) -> bool:
        """Return whether all apps are changed in the end, rather than one, and are both never ready and never well."""
        return self.world.seed >= LATER

    def _mine(self) -> list[str]:
        return sorted(name for name in self.stage.people.apps if name.startswith(f"/{NAME}"))

    # What it does.

    def _how(self) -> str:
        """Return from when until when tasks of an app are sick."""
        kind = self.chance.choice(("well", "well", "while", "while", "never"))
        if kind == "while":
            begins_s = self.world.pacing.life(span(self.chance, 1.0, 900.0))
            return f"{begins_s:.1f}:{begins_s + span(self.chance, 5.0, 400.0):.1f}"
        return WELL if kind == "well" else NEVER

    async def _create(self) -> None:
        people = self.stage.people
        if len(people.apps) > MOST_APPS:
            return
        self._count += 1
        name, instances, protocol = f"/{NAME}{self._count}", self.chance.choice((1, 2)), self.chance.choice(KINDS)
        check: dict[str, Any] = {
            "protocol": protocol, "gracePeriodSeconds": GRACE_S, "intervalSeconds": self.interval_s,
            "timeoutSeconds": TIMEOUT_S, "maxConsecutiveFailures": FAILURES,
        }  # fmt: skip
        check |= {"command": {"value": "are you well"}} if protocol == "COMMAND" else {"portIndex": 0}
        factor, most_s = self.world.pacing.backoff(lasting=True)
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "instances": instances, "healthChecks": [check],
            "portDefinitions": [{"port": 0, "name": "http"}], "env": {HEALTH: f"{protocol}:{self._how()}"},
            "backoffSeconds": 1, "backoffFactor": factor, "maxLaunchDelaySeconds": most_s,
        }  # fmt: skip
        if protocol.endswith("HTTP") and self.chance.random() < 0.6:
            body["env"][READY] = f"{span(self.chance, 1.0, 200.0):.1f}"
            body["readinessChecks"] = [
                {"name": "up", "portName": "http", "path": "/ready", "intervalSeconds": 15, "timeoutSeconds": TIMEOUT_S}
            ]
        answer = await self.ask_marathon("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            people.apps[name] = Wanted(instances, 0, True, sure=answer is not None)

    async def _change(self) -> None:
        await self._put(self.chance.choice(self._mine()), self._how())

    async def _put(self, name: str, how: str, ready: str | None = None) -> bool:
        """Have tasks of an app be well or not; return whether that is so now, or the app is not there any more.

        `ready` says after how many seconds they are; it says so of an app that is asked for it alone.
        """
        found = await self.ask_marathon("GET", f"/v2/apps{name}")
        if found is None or found.status != 200:
            return found is not None and found.status == 404
        environment = found.json()["app"]["env"]
        if HEALTH not in environment:
            # It was lost before it was on disk, and somebody's change of its command has made another, without checks.
            return await self._remove(name)
        protocol = environment[HEALTH].split(":")[0]
        changed = {"env": {HEALTH: f"{protocol}:{how}"}}
        if READY in environment:
            changed["env"][READY] = ready or f"{span(self.chance, 1.0, 200.0):.1f}"
        answer = await self.ask_marathon("PUT", f"/v2/apps{name}?force=true", changed)
        return answer is not None and answer.status in (200, 404)

    async def leave(self) -> None:
        """Have all be well from now on; they are changed to what never is, which must wait, and back."""
        for name in self._mine():
            await self._heal(name)
        if self._each:
            for name in self._mine():
                await self._must_wait(name)
        for name in self._mine()[1:]:
            await self._remove(name)
        if self._mine() and not self._each:
            await self._must_wait(self._mine()[0])
        self._look()

    async def _remove(self, name: str) -> bool:
        if (await self.stage.people.delete(name)) is None:
            return False
        self.stage.people.apps.pop(name, None)
        return True

    async def _must_wait(self, name: str) -> None:
        """A deployment of what is never well, or never ready, does not end, and what it is to replace stays."""
        if not await self._is_well(name):
            return
        asked = any(READY in c.config.environment for _, c in self._containers() if c.task.startswith(_prefix(name)))
        if self._each and self.chance.random() < 0.5:
            asked = False  # what is asked whether it is ready is asked whether it is well, too
        before = [container for _, container in self._containers() if container.task.startswith(_prefix(name))]
        await (self._put(name, WELL, NOT_YET) if asked else self._put(name, NEVER))
        await asyncio.sleep(WATCH_S)
        deployments = await self.ask_marathon("GET", "/v2/deployments")
        if deployments is not None and not any(name in one["affectedApps"] for one in deployments.json()):
            lacks = "ready" if asked else "well"
            self.world.finding(f"a deployment of {name} has ended although what it has started is not {lacks}")
        gone = [container.task for container in before if container.termination is not None]
        if gone:
            self.world.finding(f"{gone} were ended for others that are not well")
        await self._heal(name)

    async def _heal(self, name: str) -> None:
        for _ in range(30):
            if await self._put(name, WELL):
                break
            await asyncio.sleep(20.0)

    async def _is_well(self, name: str) -> bool:
        """Return whether an app has all that it wants within a while, and nothing else to do."""
        for _ in range(20):
            await asyncio.sleep(30.0)
            found = await self.ask_marathon("GET", f"/v2/apps{name}?embed=app.counts&embed=app.deployments")
            if found is None or found.status != 200:
                continue
            app = found.json()["app"]
            if not app["deployments"] and app["tasksHealthy"] == app["instances"] == app["tasksRunning"] > 0:
                return True
        return False

    # What must be so.

    def _install(self) -> None:
        """Be told of each end for health. For good."""
        real_end, real_take, real_readiness = health_updates._end, checking.take, health_updates.take_readiness

        def end(draft: Any, instance: Any, task: Any, cause: str) -> None:
            for marathon in self.cluster.marathons:
                self._ends(str(task.id), cause, marathon)
            real_end(draft, instance, task, cause)

        def take(task: Any, news: Any) -> Any:
            if isinstance(news, HealthNews) and news.kill:
                self._ends(str(task.key.task), "the agent's check", None)
            return real_take(task, news)

        def take_readiness(draft: Any, event: Any) -> None:
            real_readiness(draft, event)
            known = draft.readiness.get(event.task_id)
            if known is not None and known.ready:
                self._is_ready(str(event.task_id))

        health_updates._end, checking.take = end, take
        orchestrator.take_readiness = take_readiness

    def _ends(self, task: str, cause: str, asker: Host | None) -> None:
        """A task is about to be ended for its health: it was sick, or could not be asked."""
        self.tell(f"{task} is to end: {cause}")
        for machine, container in self._containers():
            if container.task != task or sick_within(container, self.world.now_s, self._known_after_s):
                continue
            if self._calm(machine, asker, self._known_after_s):
                self.world.finding(f"{task} is ended for its health, and it is well: {cause}")

    def _calm(self, machine: Machine, asker: Host | None, for_s: float) -> bool:
        """Tell whether nothing has kept who asks from an answer for so long."""
        since_s = self.world.now_s - for_s
        others = self.cluster.marathons if asker is None else [asker]
        for name in (machine.host.name, *(host.name for host in (*others, *self.cluster.masters))):
            process = self.world.processes.get(name)
            if process is None or process.began_s > since_s or process.frozen_until_s > since_s:
                return False
        pairs = [(machine.host, other) for other in others]
        pairs += [(one, master) for master in self.cluster.masters for one in (machine.host, *self.cluster.marathons)]
        return all(one is other or self.world.network.quiet_since_s(one, other) < since_s for one, other in pairs)

    def _is_ready(self, task: str) -> None:
        """A deployment counts a task as ready: it says so, or did."""
        for _, container in self._containers():
            if container.task == task and self.world.now_s < container.began_s + ready_after_s(container):
                self.world.finding(f"{task} counts for ready, and says that it is not")

    def _look(self) -> None:
        """What has been sick for long enough, while nothing else was wrong, is not there any more."""
        for machine, container in self._containers():
            if sick_within(container, self.world.now_s, 0.0):
                long_s = self._known_after_s + CALM_S
                always = sick_within(container, self.world.now_s, long_s, throughout=True)
                # Who leads among several, and since when, is not known here while things break.
                known = not self.busy or self.cluster.zookeeper is None
                if always and known and self._calm(machine, None, long_s) and self._clocks_agree():
                    self.world.finding(f"{container.task} has been sick for {long_s:.0f} s, and runs")

    def _clocks_agree(self) -> bool:
        """Tell whether no clock is wrong: by such a one the time that a task is given to come up may not be over."""
        return all(abs(host.wall_offset_s) < 5.0 for host in self.world.hosts.values())

    def _containers(self) -> list[tuple[Machine, Container]]:
        return [
            (machine, container)
            for machine in self.cluster.machines.values()
            for container in machine.running.values()
            if HEALTH in container.config.environment and container.executor is None
        ]

    async def settled(self) -> None:
        """All have been well for a while, and are known to be."""
        self._look()
        for name in self._mine():
            wanted = self.stage.people.apps[name]
            found = await self.ask_marathon("GET", f"/v2/apps{name}?embed=app.counts")
            well = None if found is None or found.status != 200 else found.json()["app"]["tasksHealthy"]
            if wanted.sure and well != wanted.instances:
                self.world.finding(f"{well} of {wanted.instances} tasks of {name} are said to be well; all are")


def _prefix(name: str) -> str:
    return f"{name[1:]}."
