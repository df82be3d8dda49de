"""Apps, pods and jobs with parts of cards: who has them, who is suspended for whom, and who takes too much."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from mesos_gpu.container.spec.config import Termination
from tests.sim.actors import LATER, Actor
from tests.sim.cards import GREEDY, SLICES, is_greedy
from tests.sim.faults import span, swarm
from tests.sim.http import Answer
from tests.sim.keeping import CardKeeper
from tests.sim.machine import LIFE, STUBBORN
from tests.sim.people import Run, Wanted

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine

PAUSE_S = 45.0
MOST_APPS = 4
QUIET_S = 300.0
"""After so long at peace everything that was under way has been done."""
PATIENCE_S = 900.0
"""For so long at most an app of high priority waits at peace for what may be put away; some of it is refused."""
LOOK_S = 60.0
STRIKES, MOST_WRITES = 0.15, 6
"""How often an agent is killed at one of its next writes when somebody can use other parts of cards than before."""
UNSEEN = 0.4
"""How often somebody who is suspended ends when his agent is killed."""
TOO_MUCH = "GPU memory: the task"
ACTS = {"create": 5.0, "create_pod": 1.5, "run_job": 1.5, "scale": 3.0, "change": 1.5, "remove": 2.0, "kill_task": 2.0}
ACTS |= {"fall_ill": 1.0, "suspend": 2.0, "weigh": 1.5}


@dataclass(frozen=True)
class _App:
    """What is known of an app for ever: its tasks may end later."""

    share: Mapping[str, Any]
    preemptible: bool = False
    greedy: bool = False

    @property
    def suspendable(self) -> bool:
        """Tell whether its tasks may be suspended for others of high priority."""
        return self.preemptible and not self.share.get("highPriority")


@dataclass
class Sharing(Actor):
    """Whoever uses shared cards; `keeper` is who looks after their machines."""

    since: ClassVar[int] = 10_000
    name: ClassVar[str] = "sharing"
    apps: dict[str, Wanted] = field(default_factory=dict)
    """Those that may be there."""
    _known: dict[str, _App] = field(default_factory=dict)
    _count: int = 0
    keeper: CardKeeper = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._strikes = Random(f"strikes of {self.world.seed}")
        self._machines = {name: machine for name, machine in self.cluster.machines.items() if machine.cards}
        self.keeper = CardKeeper(self.world, self.cluster, self._machines, self.chance)

    async def work(self) -> None:
        """Do something now and then."""
        self._install()
        acts = swarm(self.world.seed, "sharing", ACTS)
        if not {"create", "create_pod"} & acts.keys():
            acts["create"] = 4.0
        self.tell(f"does {', '.join(acts)}")
        watching = asyncio.ensure_future(self._watch_memory())
        while self.busy:
            await self.pause(PAUSE_S)
            if self.busy:
                act = self.chance.choices(list(acts), list(acts.values()))[0]
                await (getattr(self.keeper, act) if hasattr(self.keeper, act) else getattr(self, f"_{act}"))()
        watching.cancel()

    # Apps.

    def _load(self, share: Mapping[str, Any]) -> float:
        """Return how much of the smallest card one instance is at most, memory and slices together."""
        return float(share["memGiB"] / self._smallest_gib + share["weight"] / SLICES)

    @property
    def _smallest_gib(self) -> int:
        return min(card.gib for machine in self._machines.values() for card in machine.cards.values())

    @property
    def _spare(self) -> float:
        """Return how many smallest cards of lasting apps more may be there: then each finds a card with room.

        A card that has none for half of it is half full. One instance more is there while another is replaced.
        """
        cards = sum(len(machine.cards) for machine in self._machines.values())
        lasting = [(name, wanted) for name, wanted in self.apps.items() if wanted.lasting]
        return cards / 2 - 0.5 - sum(self._load(self._known[name].share) * one.instances for name, one in lasting)

    def _part(self) -> dict[str, Any]:
        most = max(1, self._smallest_gib // 4)
        return {"memGiB": self.chance.randint(1, most), "weight": self.chance.choice((1, 1, 2, 6))}

    async def _create(self) -> None:
        """Create an app."""
        chance, share, instances = self.chance, self._part(), self.chance.randint(1, 3)
        lasting = chance.random() < 0.6 and self._load(share) * instances <= self._spare
        greedy = not lasting and chance.random() < 0.2
        if chance.random() < 0.3:
            share["highPriority"] = True
        if not lasting and not greedy and chance.random() < 0.5:
            # It may have to wait for ever, or have others suspended.
            share["memGiB"] = self._smallest_gib // 2
        if not lasting and not greedy and chance.random() < 0.2:
            share["cards"] = 2
        environment = {} if lasting else {LIFE: self._life()}
        if greedy:
            environment = {GREEDY: f"{chance.uniform(0.0, 60.0):.3f}"}
        elif chance.random() < 0.2:
            environment[STUBBORN] = "1"
        app = _App(share, chance.random() < 0.6, greedy)
        await self._post(app, Wanted(instances, 0, lasting), environment)

    def _life(self) -> str:
        seconds = self.world.pacing.life(self.chance.uniform(0.05, 300.0))
        return f"{seconds:.3f}:{self.chance.choice((0, 1))}"

    async def _post(self, app: _App, wanted: Wanted, environment: Mapping[str, str]) -> str | None:
        """Return the name of an app that is there now, None when nobody knows."""
        if len(self.apps) >= MOST_APPS:
            return None
        self._count += 1
        name = f"/share-{self._count}"
        factor, most_s = self.world.pacing.backoff(lasting=wanted.lasting)
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "instances": wanted.instances,
            "gpuShare": dict(app.share), "env": dict(environment), "preemptible": app.preemptible,
            "backoffSeconds": 1, "backoffFactor": factor, "maxLaunchDelaySeconds": most_s,
        }  # fmt: skip
        return await self._posted(name, app, wanted, "/v2/apps", body)

    async def _posted(self, name: str, app: _App, wanted: Wanted, path: str, body: Any) -> str | None:
        self._known[name], self.apps[name] = app, wanted
        answer = await self.ask_marathon("POST", path, body)
        wanted.sure = answer is not None
        if answer is not None and answer.status != 201:
            self.world.finding(f"{name} cannot be created: {answer.status} {answer.body[:300]!r}")
        return name if answer is not None else None

    async def _create_pod(self) -> None:
        """Create a pod of two containers, of which one or both have a part."""
        if len(self.apps) >= MOST_APPS:
            return
        share, both = self._part(), self.chance.random() < 0.3
        whole = {name: amount * (2 if both else 1) for name, amount in share.items()}
        lasting = self.chance.random() < 0.6 and self._load(whole) <= min(0.5, self._spare)
        self._count += 1
        name = f"/share-{self._count}"
        life = {} if lasting else {LIFE: self._life()}
        containers = [
            {
                "name": part, "exec": {"command": {"shell": "serve"}}, "environment": life,
                "resources": {"cpus": 0.1, "mem": 32}, **({"gpuShare": share} if both or part == "first" else {}),
            }
            for part in ("first", "second")
        ]  # fmt: skip
        factor, most_s = self.world.pacing.backoff(lasting=lasting)
        body = {
            "id": name, "containers": containers, "scaling": {"kind": "fixed", "instances": 1},
            "scheduling": {"backoff": {"backoff": 1, "backoffFactor": factor, "maxLaunchDelay": most_s}},
        }  # fmt: skip
        await self._posted(name, _App(whole), Wanted(1, 0, lasting, pod=True), "/v2/pods", body)

    async def _run_job(self) -> None:
        """Run something to its end."""
        self._count += 1
        status, job = self.chance.choice((0, 0, 1)), f"job-part-{self._count}"
        seconds = self.world.pacing.job(self.chance.uniform(0.0, 120.0))
        run = {
            "cmd": "work", "cpus": 0.1, "mem": 32, "disk": 0, "gpuShare": self._part(),
            "env": {LIFE: f"{seconds:.3f}:{status}"}, "restart": {"policy": "NEVER"},
        }  # fmt: skip
        made = await self.ask_marathon("POST", "/v1/jobs", {"id": job, "run": run})
        if made is None or made.status != 201:
            return
        begun = await self.ask_marathon("POST", f"/v1/jobs/{job}/runs", {})
        if begun is not None and begun.status == 201:
            self.stage.people.runs.append(Run(job, begun.json()["id"], status))

    def _one(self) -> str | None:
        """Return an app that may be changed."""
        names = sorted(name for name, wanted in self.apps.items() if not wanted.pod)
        return self.chance.choice(names) if names else None

    async def _scale(self) -> None:
        """Change how many instances an app has."""
        name, instances = self._one(), self.chance.randint(0, 4)
        if name is None:
            return
        wanted = self.apps[name]
        more = self._load(self._known[name].share) * max(0, instances - wanted.instances)
        if wanted.lasting and more > self._spare:
            return
        before, wanted.instances = wanted.instances, max(instances, wanted.instances)
        answer = await self.ask_marathon("PUT", f"/v2/apps{name}?force=true", {"instances": instances})
        if answer is None:
            wanted.sure = False
        elif answer.status == 200:
            wanted.instances, wanted.sure = instances, True
        else:
            wanted.instances = before
            self._is_not_there(name, answer)

    async def _change(self) -> None:
        """Give an app another command, or another part: its instances are replaced."""
        name = self._one()
        if name is None:
            return
        self._count += 1
        wanted, share = self.apps[name], {**self._known[name].share, **self._part()}
        changes: dict[str, Any] = {"cmd": f"serve {self._count}"}
        more = self._load(share) * wanted.instances
        if self.chance.random() < 0.5 and not wanted.lasting and more:
            changes["gpuShare"] = share
        answer = await self.ask_marathon("PUT", f"/v2/apps{name}?force=true", changes)
        if answer is None:
            wanted.sure = False
        elif answer.status == 201 and not wanted.sure:
            await self._remove(name)  # it had not come to be, and is made of these words alone now
        elif answer.status != 200:
            self._is_not_there(name, answer)

    def _is_not_there(self, name: str, answer: Answer) -> None:
        if self.apps[name].sure:  # else it may come to be later
            self.world.finding(f"{name} was acknowledged and is not known any more: {answer.status}")

    async def _remove(self, name: str | None = None) -> None:
        """Remove an app."""
        name = name or (self.chance.choice(sorted(self.apps)) if self.apps else None)
        if name is None:
            return
        answer = await self.ask_marathon("DELETE", f"{self.apps[name].path}{name}?force=true")
        if answer is not None and answer.status in (200, 202, 404):
            del self.apps[name]
        else:
            self.apps[name].sure = False

    async def _kill_task(self) -> None:
        """Kill an instance of an app; another takes its place."""
        name = self._one()
        found = None if name is None else await self.ask_marathon("GET", f"/v2/apps{name}/tasks")
        if found is not None and found.status == 200 and found.json()["tasks"]:
            task = self.chance.choice(sorted(task["id"] for task in found.json()["tasks"]))
            await self.ask_marathon("DELETE", f"/v2/apps{name}/tasks/{task}")

    # At every moment.

    def _install(self) -> None:
        """Be told of statuses, and of containers that begin. For good."""
        on_status = self.cluster.on_status

        def status(framework: str, told: dict[str, Any]) -> None:
            on_status(framework, told)
            self._status(told["task_id"]["value"], str(told.get("message", "")))

        self.cluster.on_status = status
        self.keeper.install()
        for machine in self._machines.values():
            machine.on_reach.append(partial(self._reaches, machine))

    def _status(self, task: str, message: str) -> None:
        app = self._known.get("/" + task.split(".")[0])
        if TOO_MUCH in message and (app is None or not app.greedy):
            self.world.finding(f"{task} keeps to its memory, and is told: {message}")

    def _reaches(self, machine: Machine, container: Container) -> None:
        """Who can use other parts now is suspended or resumed; its agent may be killed at its next writes."""
        if not container.parts:
            self._suspended(container)
            self._may_end_unseen(machine, container)
        if self.busy and self._strikes.random() < STRIKES:
            self.cluster.kill_while_writing(machine.host.name, MOST_WRITES)

    def _may_end_unseen(self, machine: Machine, container: Container) -> None:
        """Who is suspended may end just when his agent is killed: the next one has to find out."""
        agent = self.world.processes.get(machine.host.name)

        def away() -> None:
            if self.busy and not container.parts and self._strikes.random() < UNSEEN:
                ended = container.config.container_id, Termination(exit_code=1)
                self.world.soon(span(self._strikes, 0.01, 1.0), machine.end, *ended)

        if agent is not None and self.world.seed >= LATER:
            agent.at_end.append(away)

    def _suspended(self, container: Container) -> None:
        """Who is suspended is a guest's, or somebody has asked for it by hand, or its app says that it may be."""
        app = self._known.get("/" + container.task.split(".")[0])
        asked = container.config.container_id in self.keeper.touched or container.task.startswith("guest-")
        if not asked and (app is None or not app.suspendable):
            self.world.finding(f"{container.task} is suspended, and its app does not say that it may: {app}")

    async def _watch_memory(self) -> None:
        """Who has more memory than it may is ended, where its agent is there and nothing is wrong with it."""
        before: set[str] = set()
        while True:
            await asyncio.sleep(LOOK_S)
            now = set()
            for name, machine in self._machines.items():
                process, since_s = self.world.processes.get(name), self.world.now_s - LOOK_S
                if process is None or process.began_s > since_s or process.frozen_until_s > since_s:
                    continue
                if machine.host.disk.refused_s > since_s:
                    continue
                now |= {one.task for one in machine.running.values() if one.parts and is_greedy(one)}
            for task in sorted(now & before):
                self.world.finding(f"{task} has more memory than its part for {LOOK_S:g} s, and runs")
            before = now

    # At peace.

    def mend(self) -> None:
        """Cards are well again."""
        self.keeper.mend()

    async def leave(self) -> None:
        """Say that cards are well; remove what does not last; then see one of high priority have what others hold."""
        await self.keeper.leave()
        await self._remove_all(lasting=False)
        if self.chance.random() < 0.5:
            await self._remove_all()
            await self.stage.people.remove_late()
            await asyncio.sleep(QUIET_S)
            await self._takes()
            await self._remove_all()

    async def _remove_all(self, *, lasting: bool = True) -> None:
        for _ in range(20):
            for name in [name for name, wanted in self.apps.items() if lasting or not wanted.lasting]:
                await self._remove(name)
            if not any(lasting or not wanted.lasting for wanted in self.apps.values()):
                return
            await asyncio.sleep(30.0)

    async def _takes(self) -> None:
        """Fill the cards with what gives way; who comes then with high priority waits for nothing, and is followed."""
        share = {"memGiB": max(1, self._smallest_gib // 5), "weight": 5}
        most = sum(len(machine.cards) for machine in self._machines.values()) * SLICES // 5
        low = await self._post(_App(share, preemptible=True), Wanted(most, 0, False), {})
        if low is None or not await self._runs(low, 1, more=True):
            return
        await asyncio.sleep(QUIET_S)
        # Where somebody else has a part still, one waits, and has the place of the first that is suspended.
        await self.ask_marathon("PUT", f"/v2/apps{low}?force=true", {"instances": await self._running(low)})
        await asyncio.sleep(LOOK_S)
        part = {"memGiB": max(1, self._smallest_gib // 2), "weight": 12, "highPriority": True}
        high = await self._post(_App(part), Wanted(1, 0, False), {})
        if high is None:
            return
        if not await self._runs(high, 1):
            self.world.finding(f"{high} waits at peace for its part, and {low} has those that may be put away")
        await self._remove(high)
        for _ in range(int(PATIENCE_S / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            away = self._away()
            if not away:
                return
        self.world.finding(f"{away} are suspended still, and {high} is gone")

    def _away(self) -> list[str]:
        """Return the tasks of Marathon that are suspended."""
        containers = [one for machine in self._machines.values() for one in machine.running.values()]
        return [one.task for one in containers if one.task.startswith("share-") and one.booked and not one.parts]

    async def _runs(self, name: str, count: int, *, more: bool = False) -> bool:
        """Return whether so many tasks of an app run within a while, or more where that counts, too."""
        for _ in range(int(PATIENCE_S / 20.0)):
            await asyncio.sleep(20.0)
            running = await self._running(name)
            if running == count or (more and running > count):
                return True
        return False

    async def _running(self, name: str) -> int:
        found = await self.ask_marathon("GET", f"/v2/apps{name}?embed=app.counts")
        return 0 if found is None or found.status != 200 else int(found.json()["app"]["tasksRunning"])

    async def settled(self) -> None:
        """All that was acknowledged is so, and nobody is suspended for nobody; then remove it."""
        await self.stage.judge.compare(self.stage.people, self.apps)
        if self._away() and not any(self._known[name].share.get("highPriority") for name in self.apps):
            self.world.finding(f"{self._away()} are suspended, and nobody is there whom they are for")
        for container in (one for machine in self._machines.values() for one in machine.running.values()):
            if is_greedy(container):
                self.world.finding(f"{container.task} has more memory than its part, and runs")
        await self._remove_all()
