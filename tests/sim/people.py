"""Whoever uses the cluster: creates, scales, changes and removes apps, runs jobs, and knows what it was promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.sim.executors import CUSTOM
from tests.sim.faults import swarm
from tests.sim.http import Answer, request
from tests.sim.machine import LIFE, STUBBORN

if TYPE_CHECKING:
    from tests.sim.services import Cluster
    from tests.sim.world import World

MOST_APPS = 5
PATIENCE_S = 60.0
LATE_S = 150.0
"""After so long at peace everything has come that networks held back, or services that were frozen have."""
NOBODY_KNOWS = (502, 503, 504)
"""Answers of who passes a request on, or could not write down that it was done: it may have been done."""


PATHS = ("/v2/apps", "/v2/pods")
ACTS = {"create": 4.0, "create_pod": 2.0, "create_keeper": 2.0, "scale": 3.0, "change": 2.0, "remove": 2.0}
ACTS |= {"run_job": 5.0, "kill_task": 2.0, "schedule_job": 0.5, "create_gang": 1.0, "create_lone": 1.5}
CREATING = frozenset(("create", "create_pod", "create_keeper", "run_job"))
TIMED = "timed-"
"""How the names of jobs with a schedule begin; each starts every few minutes, and never twice at a time."""
MOST_TIMED = 2
GANG = 2
LONE = "lone-"
"""How the names of apps begin of which never two may run, whatever becomes of the machine of the one."""


def acts_of(seed: int) -> dict[str, float]:
    """Return what people do in the history of a seed, and how often each comes: at least something is made."""
    acts = swarm(seed, "people", ACTS)
    return acts if CREATING & set(acts) else {**acts, "create": 4.0}


@dataclass
class Wanted:
    """What an app was last acknowledged to be; `sure` is False after a call that nobody answered."""

    instances: int
    gpus: int
    lasting: bool
    sure: bool = True
    pod: bool = False
    keeps: bool = False
    """Whether it has a persistent volume."""
    gang: bool = False
    """Whether its instances start two by two."""
    lone: bool = False
    """Whether never two of it may run: people leave it alone, as it is ended before another begins only so."""

    @property
    def path(self) -> str:
        """Return where the API has it."""
        return "/v2/pods" if self.pod else "/v2/apps"


@dataclass
class Run:
    """A run of a job that Marathon has taken: `gpus`, and how it ends by itself."""

    job: str
    run: str
    status: int


@dataclass
class People:
    """A person at a host of its own. One call after another."""

    world: World
    cluster: Cluster
    gpus: int
    acts: Mapping[str, float] = field(default_factory=lambda: ACTS)
    """What they do, and how often each comes beside the others."""
    apps: dict[str, Wanted] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    timed: list[str] = field(default_factory=list)
    """Jobs with a schedule."""
    untold: list[str] = field(default_factory=list)
    """Those of which nobody knows whether the schedule has come."""
    busy: bool = True
    calls: int = 0
    on_act: list[Callable[[], None]] = field(default_factory=list)
    """Told when something is asked for that changes something."""
    _unheard: set[str] = field(default_factory=set)
    """Paths of apps about which something was asked that nobody answered: it may be done later."""
    _late: set[str] = field(default_factory=set)
    """Those of them that were removed since, or were not there then."""
    _count: int = 0

    async def work(self, pause_s: float) -> None:
        """Do something now and then, until `busy` is not so any more."""
        chance = self.world.random
        while True:
            await asyncio.sleep(self.world.pause_s(chance.expovariate(1 / pause_s)))
            if not self.busy:
                return
            act = chance.choices(list(self.acts), list(self.acts.values()))[0]
            await getattr(self, act)()

    async def ask(self, method: str, path: str, body: Any = None) -> Answer | None:
        """Return Marathon's answer, None when none has come; then nobody knows what was done."""
        # Any of several Marathons takes it: those that stand by pass it on.
        where = self.cluster.marathons[0]
        if len(self.cluster.marathons) > 1:
            where = self.world.random.choice(self.cluster.marathons)
        self.calls += 1
        for told in self.on_act if method != "GET" else ():
            told()
        app = path.partition("?")[0] + (body["id"] if method == "POST" and path in PATHS else "")
        try:
            answer = await request(f"{where.ip}:8080", method, path, body, patience_s=PATIENCE_S)
        except (OSError, asyncio.TimeoutError) as error:
            self.world.tell("person", f"{method} {path}: {type(error).__name__}")
            self._unheard |= {app} if method != "GET" else set()
            return None
        self.world.tell("person", f"{method} {path}: {answer.status}")
        if answer.status in NOBODY_KNOWS:
            self._unheard |= {app} if method != "GET" else set()
            return None
        if method == "DELETE" and app in self._unheard and app.startswith(PATHS):
            self._late.add(app)
        # A change of what is not there is taken for a new app, and is not enough of one.
        if answer.status >= 500 or answer.status == 400 or (method == "POST" and answer.status == 422):
            self.world.finding(f"{method} {path} is answered by {answer.status}: {answer.body[:300]!r}")
        return answer

    async def remove_late(self) -> None:
        """Remove once more what was removed, or not there, before something that was asked about it was done."""
        if self._late:
            await asyncio.sleep(LATE_S)
        for app in sorted(self._late):
            for _ in range(20):
                if await self.ask("DELETE", f"{app}?force=true") is not None:
                    break
                await asyncio.sleep(30.0)
        self._late.clear()

    async def create(self) -> None:
        """Create an app, while the GPUs of all are enough for them."""
        chance, pacing = self.world.random, self.world.pacing
        gpus = chance.choice((0, 1, 1, 2))
        instances = chance.randint(1, 3)
        if len(self.apps) >= MOST_APPS or self._asked() + gpus * instances > self.gpus // 2:
            return
        self._count += 1
        name, lasting = f"/app-{self._count}", chance.random() < 0.7
        environment = (
            {} if lasting else {LIFE: f"{pacing.life(chance.uniform(0.05, 90.0)):.3f}:{chance.choice((0, 1))}"}
        )
        if chance.random() < 0.2:
            environment[STUBBORN] = "1"
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": instances,
            "env": environment, **self._backoff(lasting=lasting),
        }  # fmt: skip
        if chance.random() < 0.2:
            body["executor"] = f"/opt/{CUSTOM}"
        if chance.random() < 0.5:
            body["unreachableStrategy"] = chance.choice(
                ("disabled", {"inactiveAfterSeconds": 60, "expungeAfterSeconds": 120})
            )
        answer = await self.ask("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            self.apps[name] = Wanted(instances, gpus, lasting, sure=answer is not None)

    def _backoff(self, *, lasting: bool = True) -> dict[str, Any]:
        """Return how much later an app is started after each failure."""
        factor, most_s = self.world.pacing.backoff(lasting=lasting)
        return {"backoffSeconds": 1, "backoffFactor": factor, "maxLaunchDelaySeconds": most_s}

    async def create_keeper(self) -> None:
        """Create an app with a persistent volume, which is reserved for it together with its GPUs."""
        gpus = self.world.random.choice((0, 1))
        if len(self.apps) >= MOST_APPS or self._asked() + gpus > self.gpus // 2:
            return
        self._count += 1
        name = f"/keeper-{self._count}"
        volume = {"containerPath": "data", "mode": "RW", "persistent": {"size": 10}}
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": 1,
            "container": {"type": "MESOS", "volumes": [volume]},
            **self._backoff(),
        }  # fmt: skip
        answer = await self.ask("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            self.apps[name] = Wanted(1, gpus, True, sure=answer is not None, keeps=True)

    async def create_lone(self) -> None:
        """Create an app of which never two may run: a database, or whatever holds what is outside of the cluster."""
        gpus = self.world.random.choice((0, 1))
        if len(self.apps) >= MOST_APPS or self._asked() + gpus > self.gpus // 2:
            return
        self._count += 1
        name = f"/{LONE}{self._count}"
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": 1,
            "unreachableStrategy": "disabled",
            "upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0},
            **self._backoff(),
        }  # fmt: skip
        answer = await self.ask("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            self.apps[name] = Wanted(1, gpus, True, sure=answer is not None, lone=True)

    async def create_pod(self) -> None:
        """Create a pod of two containers, one of which may have GPUs."""
        chance, pacing = self.world.random, self.world.pacing
        gpus, instances = chance.choice((0, 1, 1)), chance.randint(1, 2)
        if len(self.apps) >= MOST_APPS or self._asked() + gpus * instances > self.gpus // 2:
            return
        self._count += 1
        name, lasting = f"/pod-{self._count}", chance.random() < 0.7
        life = {} if lasting else {LIFE: f"{pacing.life(chance.uniform(0.05, 90.0)):.3f}:{chance.choice((0, 1))}"}
        factor, most_s = pacing.backoff(lasting=lasting)
        containers = [
            {
                "name": part, "exec": {"command": {"shell": "serve"}}, "environment": life if part == "first" else {},
                "resources": {"cpus": 0.1, "mem": 32, "gpus": gpus if part == "first" else 0},
            }
            for part in ("first", "second")
        ]  # fmt: skip
        body = {
            "id": name, "containers": containers, "scaling": {"kind": "fixed", "instances": instances},
            "scheduling": {"backoff": {"backoff": 1, "backoffFactor": factor, "maxLaunchDelay": most_s}},
        }  # fmt: skip
        answer = await self.ask("POST", "/v2/pods", body)
        if answer is None or answer.status == 201:
            self.apps[name] = Wanted(instances, gpus, lasting, sure=answer is not None, pod=True)

    async def create_gang(self) -> None:
        """Create an app whose instances start two by two, on a machine each."""
        chance = self.world.random
        gpus, instances = 1, GANG * chance.randint(1, 2)
        if len(self.apps) >= MOST_APPS or self._asked() + gpus * instances > self.gpus // 2:
            return
        self._count += 1
        name = f"/gang-{self._count}"
        body = {
            "id": name, "cmd": "serve", "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": instances,
            "gang": {"size": GANG}, "priority": chance.choice((0, 0, 5)),
            **self._backoff(),
        }  # fmt: skip
        answer = await self.ask("POST", "/v2/apps", body)
        if answer is None or answer.status == 201:
            self.apps[name] = Wanted(instances, gpus, True, sure=answer is not None, gang=True)

    async def _change_pod(self, name: str, **changes: Any) -> Answer | None:
        """Put a pod as it is, but for some changes."""
        found = await self.ask("GET", f"/v2/pods{name}")
        if found is None or found.status != 200:
            return found
        return await self.ask("PUT", f"/v2/pods{name}?force=true", {**found.json(), **changes})

    async def scale(self) -> None:
        """Change how many instances an app has."""
        name = self._one(changing=True)
        if name is None:
            return
        wanted = self.apps[name]
        # What is reserved stays so: an app with a volume is scaled to nothing and back.
        instances = self.world.random.randint(0, 1 if wanted.keeps else 4)
        if wanted.gang:
            instances -= instances % GANG
        if self._asked() + wanted.gpus * max(0, instances - wanted.instances) > self.gpus // 2:
            return
        if wanted.pod:
            answer = await self._change_pod(name, scaling={"kind": "fixed", "instances": instances})
        else:
            answer = await self.ask("PUT", f"/v2/apps{name}?force=true", {"instances": instances})
        self._promised(name, answer, instances)

    async def change(self) -> None:
        """Give an app another command: its instances are replaced."""
        name = self._one(changing=True)
        if name is None:
            return
        self._count += 1
        if self.apps[name].pod:
            answer = await self._change_pod(name, labels={"change": str(self._count)})
        else:
            answer = await self.ask("PUT", f"/v2/apps{name}?force=true", {"cmd": f"serve {self._count}"})
        # How many there are is as unsure as it was: this does not say it.
        self._promised(name, answer, None)

    async def remove(self) -> None:
        """Remove an app."""
        name = self._one()
        if name is None:
            return
        answer = await self.delete(name)
        if answer is not None and answer.status in (200, 202, 404):
            del self.apps[name]
        elif answer is None:
            self.apps[name].sure = False

    async def delete(self, name: str) -> Answer | None:
        """Ask for the end of an app or a pod."""
        return await self.ask("DELETE", f"{self.apps[name].path}{name}?force=true")

    async def run_job(self) -> None:
        """Run something to its end."""
        chance = self.world.random
        self._count += 1
        status = chance.choice((0, 0, 0, 1))
        run = {
            "cmd": "work", "cpus": 0.1, "mem": 32, "disk": 0, "gpus": chance.choice((0, 1, 1)),
            "env": {LIFE: f"{self.world.pacing.job(chance.uniform(0.0, 120.0)):.3f}:{status}"},
            "restart": {"policy": "NEVER"},
        }  # fmt: skip
        job = f"job-{self._count}"
        made = await self.ask("POST", "/v1/jobs", {"id": job, "run": run})
        if made is None or made.status != 201:
            return
        begun = await self.ask("POST", f"/v1/jobs/{job}/runs", {})
        if begun is not None and begun.status == 201:
            self.runs.append(Run(job, begun.json()["id"], status))

    async def schedule_job(self) -> None:
        """Have something run every few minutes."""
        if len(self.timed) >= MOST_TIMED:
            return
        chance = self.world.random
        self._count += 1
        job = f"{TIMED}{self._count}"
        run = {
            "cmd": "work", "cpus": 0.1, "mem": 32, "disk": 0, "gpus": chance.choice((0, 1)),
            "env": {LIFE: f"{chance.uniform(0.0, 240.0):.3f}:0"}, "restart": {"policy": "NEVER"},
        }  # fmt: skip
        made = await self.ask("POST", "/v1/jobs", {"id": job, "run": run})
        if made is None or made.status != 201:
            return
        schedule = {
            "id": "often", "cron": self.world.pacing.pace.cron, "timezone": "UTC", "concurrencyPolicy": "FORBID",
            "enabled": True,
        }  # fmt: skip
        begun = await self.ask("POST", f"/v1/jobs/{job}/schedules", schedule)
        if begun is None:
            self.untold.append(job)
        elif begun.status == 201:
            self.timed.append(job)

    async def stop_timed(self) -> None:
        """Remove all jobs with a schedule; their runs end."""
        for job in (*self.timed, *self.untold):
            await self.ask("DELETE", f"/v1/jobs/{job}?stopCurrentJobRuns=true")

    async def kill_task(self) -> None:
        """Kill an instance of an app; another takes its place."""
        name = self._one(changing=True)
        if name is None or self.apps[name].pod:
            return
        answer = await self.ask("GET", f"/v2/apps{name}/tasks")
        if answer is None or answer.status != 200 or not answer.json()["tasks"]:
            return
        task = self.world.random.choice(sorted(task["id"] for task in answer.json()["tasks"]))
        await self.ask("DELETE", f"/v2/apps{name}/tasks/{task}")

    def _one(self, *, changing: bool = False) -> str | None:
        known = sorted(name for name, wanted in self.apps.items() if not (changing and wanted.lone))
        return self.world.random.choice(known) if known else None

    def _asked(self) -> int:
        return sum(wanted.gpus * (1 if wanted.keeps else wanted.instances) for wanted in self.apps.values())

    def _promised(self, name: str, answer: Answer | None, instances: int | None) -> None:
        wanted = self.apps[name]
        if answer is None:
            wanted.sure = False
        elif answer.status == 200 and instances is not None:
            wanted.instances, wanted.sure = instances, True
        elif answer.status in (404, 422) and wanted.sure:
            self.world.finding(f"{name} was acknowledged and is not known any more")
