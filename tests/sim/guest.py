"""A framework beside Marathon: it says each kill once, and acknowledges late, twice, or some updates not at all."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import json

from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.shares.suspending import RESUME, SUSPEND, data_of
from tests.sim.faults import span
from tests.sim.http import Connection
from tests.sim.machine import LIFE, STUBBORN

if TYPE_CHECKING:
    from tests.sim.services import Cluster
    from tests.sim.world import Host, Process, World

CALLS = "/api/v1/scheduler"
SILENCE_S = 75.0
"""Five heartbeats that did not come are a connection that is gone."""
PATIENCE_S = 30.0
MOST_TASKS, MOST_GPUS = 6, 2
MOST_GIB, MOST_SLICES = 4, 5
SUSPENDING_S = 90.0
"""How often it suspends a task or has it go on, in the mean."""
CALM_S = 200.0
"""What nothing disturbs for so long has been done: longer than it takes an agent to find its master again."""
FORGOTTEN_S = 120.0
"""A launch that nothing is heard of for so long has not happened."""
OVER = frozenset(("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_DROPPED", "TASK_LOST"))
OVER |= {"TASK_GONE", "TASK_GONE_BY_OPERATOR"}
REMOVED = "Framework has been removed"
"""What a master says to one that was away for longer than its failover_timeout."""
HABITS = ("late", "twice", "never", "hurried", "leaves", "asks", "startled")


@dataclass
class _Task:
    agent: str
    gpus: int
    since_s: float
    state: str = "TASK_STAGING"
    part: bool = False
    """Whether it has a part of a shared card."""
    lazy: bool = False
    """Whether it is never acknowledged that it runs: then nothing later is told."""
    known_to: Process | None = None
    """The process of the master that launched it, or has told of it last: another one may not know it yet."""
    kill_by: Process | None = None
    """The process of the master that has taken the kill."""
    kill_s: float = 0.0
    """When it has."""
    kill_counts: bool = False
    """Whether it knew the task then."""


@dataclass
class Guest:
    """The scheduler, at a host of its own. `habits`: what it does beside the usual; None of them is against the rules.

    late: acknowledges after a while. twice: again after a while. never: not that some tasks run. hurried: kills what it
    has launched just now. leaves: goes for a while. asks: for the states of its tasks when it is back.
    startled: kills or leaves when something breaks.
    """

    world: World
    cluster: Cluster
    habits: frozenset[str]
    busy: bool = True
    tasks: dict[str, _Task] = field(default_factory=dict)
    framework: str | None = None
    _stream: str | None = None
    _master: Host | None = None
    _open: Connection | None = None
    _heard_s: float = 0.0
    """When something has come from a master last."""
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _kept: list[Any] = field(default_factory=list)
    _chance: Random = field(init=False)
    """Of what it does with parts of cards: without any, all else is as it was before there were any."""

    def __post_init__(self) -> None:
        self._chance = Random(f"parts of guest at {self.world.seed}")

    @classmethod
    def drawn(cls, world: World, cluster: Cluster) -> Guest:
        """Return the one of a seed."""
        chance = Random(f"guest of {world.seed}")
        return cls(world, cluster, frozenset(habit for habit in HABITS if chance.random() < 0.6))

    async def work(self, pause_s: float) -> None:
        """Subscribe again and again, and kill something now and then; never ends."""
        self._later(self._kill_now_and_then(pause_s))
        if self.cluster.shape.shared:
            self._later(self._suspend_now_and_then())
        failures = 0
        while True:
            host = self.cluster.masters[failures % len(self.cluster.masters)]
            try:
                if not await self._listen(host):
                    failures += 1
            except (OSError, asyncio.TimeoutError) as error:
                self.world.tell("guest", f"{host.name}: {type(error).__name__}")
                failures += 1
            self._stream = None
            longest_s = self.world.pacing.away_s(self.world.now_s) if "leaves" in self.habits and self.busy else 3.0
            await asyncio.sleep(span(self.world.random, 0.2, longest_s))

    def startled(self) -> None:
        """Something broke: that is when people look, and kill what they do not like, or restart their scheduler."""
        if self.busy and "startled" in self.habits and self.world.random.random() < 0.6:
            self._later(self._act_soon())

    async def _act_soon(self) -> None:
        chance = self.world.random
        await asyncio.sleep(span(chance, 0.01, 10.0))
        if "leaves" in self.habits and chance.random() < 0.4 and self._open is not None:
            self._open.close()
            return
        live = sorted(name for name, task in self.tasks.items() if self._may_be_killed(task))
        if live:
            # What is on a machine that is not there is what they look at first.
            away = [name for name in live if self._is_away(name)]
            await self._kill(chance.choice(away or live))

    def _may_be_killed(self, task: _Task) -> bool:
        return task.state == "TASK_RUNNING" and task.kill_by is None

    def _is_away(self, name: str) -> bool:
        hosts = [machine.host.name for machine in self.cluster.machines.values() if name in machine.tasks()]
        return any(host not in self.world.processes for host in hosts)

    async def end(self) -> None:
        """Kill everything, as often as it takes, until nothing runs or ten minutes are over."""
        for _ in range(20):
            running = [task for machine in self.cluster.machines.values() for task in machine.tasks()]
            mine = [task for task in running if task in self.tasks]
            if not mine:
                return
            for task in mine:
                await self._call("KILL", self._kill_of(task))
            await asyncio.sleep(30.0)

    def look(self) -> None:
        """What a master took a kill of does not run, if that master has led since, and its agent was there a while."""
        for machine in self.cluster.machines.values():
            for name in machine.tasks():
                task = self.tasks.get(name)
                if task is None or task.kill_by is None or task.state == "TASK_UNREACHABLE" or not task.kill_counts:
                    continue
                if self.world.now_s - task.kill_s > CALM_S and self._calm(machine.host, task.kill_by):
                    self.world.finding(f"the kill of {name} was taken by {task.kill_by}, and it runs")

    def _calm(self, host: Host, master: Process) -> bool:
        """Tell whether a master and an agent have been there, and spoken with each other, for long enough."""
        agent, since_s = self.world.processes.get(host.name), self.world.now_s - CALM_S
        if agent is None or not master.alive or agent.began_s > since_s:
            return False
        if max(agent.frozen_until_s, master.frozen_until_s) > since_s:
            return False
        return self.world.network.quiet_since_s(host, master.host) < since_s

    def is_lazy(self, task: str) -> bool:
        """Tell whether nothing more is told of a task, because the framework does not acknowledge what was."""
        return task in self.tasks and self.tasks[task].lazy

    # The subscription.

    async def _listen(self, host: Host) -> bool:
        """Follow the events of a master until it ends; return whether it was the one that leads."""
        framework: dict[str, Any] = {
            "user": "root", "name": "guest", "roles": ["guest"], "checkpoint": True,
            "failover_timeout": self.world.pacing.pace.failover_s,
            "capabilities": [{"type": kind} for kind in ("MULTI_ROLE", "PARTITION_AWARE", "GPU_RESOURCES")],
        }  # fmt: skip
        call: dict[str, Any] = {"type": "SUBSCRIBE", "subscribe": {"framework_info": framework}}
        if self.framework is not None:
            framework["id"] = call["framework_id"] = {"value": self.framework}
        connection = await asyncio.wait_for(Connection.open(f"{host.ip}:5050"), PATIENCE_S)
        try:
            head = await connection.begin("POST", CALLS, call, patience_s=PATIENCE_S)
            if head.status != 200:
                return False
            self._stream, self._master, self._open = head.headers["mesos-stream-id"], host, connection
            decoder = RecordDecoder()
            while (chunk := await connection.chunk(patience_s=SILENCE_S)) is not None:
                for record in decoder.feed(chunk):
                    self._event(json.decode(record))
            return True
        finally:
            self._open = None
            connection.close()

    def _begin_anew(self) -> None:
        """Subscribe as another framework, as the one of before has ended with its tasks."""
        away_s = self.world.now_s - self._heard_s
        if away_s < 0.99 * self.world.pacing.pace.failover_s:
            self.world.finding(f"the guest is told that it was removed, and was away for {away_s:.0f} s")
        self.framework = None
        for task in self.tasks.values():
            if task.state not in OVER:
                task.state, task.kill_by = "TASK_LOST", None

    def _event(self, event: Any) -> None:
        kind = event["type"]
        if kind == "SUBSCRIBED":
            self.framework = event["subscribed"]["framework_id"]["value"]
            self.world.tell("guest", f"subscribed as {self.framework}")
            if "asks" in self.habits:
                self._later(self._ask())
        elif kind == "OFFERS":
            for offer in event["offers"]["offers"]:
                self._later(self._take(offer))
        elif kind == "UPDATE":
            self._status(event["update"]["status"])
        elif kind == "ERROR":
            if event["error"]["message"] == REMOVED:
                self._begin_anew()
            else:
                self.world.finding(f"the guest is told of an error: {event['error']}")
            return
        self._heard_s = self.world.now_s

    async def _ask(self) -> None:
        open_ = {name: task for name, task in self.tasks.items() if task.state not in OVER}
        asked = [{"task_id": {"value": name}, "agent_id": {"value": task.agent}} for name, task in open_.items()]
        await self._call("RECONCILE", {"tasks": asked})

    # Tasks.

    async def _take(self, offer: Any) -> None:
        """Launch something, or decline."""
        chance = self.world.random
        offered = sum(one["scalar"]["value"] for one in offer["resources"] if one["name"] == "gpus")
        live = [task for task in self.tasks.values() if self._counts(task)]
        gpus = chance.choice((0, 1))
        part = self._part_of(offer) if self.cluster.shape.shared else []
        gpus = 0 if part else gpus
        fits = gpus <= offered and sum(task.gpus for task in live) + gpus <= MOST_GPUS and len(live) < MOST_TASKS
        ids = [{"value": offer["id"]["value"]}]
        if not self.busy or not fits or chance.random() < 0.3:
            refuse_s = self.world.pause_s(chance.choice((1.0, 5.0, 30.0, 120.0))) if self.busy else 3600.0
            await self._call("DECLINE", {"offer_ids": ids, "filters": {"refuse_seconds": refuse_s}})
            return
        name, agent = f"guest-{next(self._numbers)}", offer["agent_id"]["value"]
        life = f"{self.world.pacing.life(span(chance, 0.05, 600.0)):.3f}:{chance.choice((0, 1))}"
        variables = {"MESOS_TASK_ID": name}
        # What has GPUs ends: what an app needs to be replaced, or a gang, is not taken for ever.
        if gpus or part or chance.random() < 0.4:
            variables[LIFE] = life
        if chance.random() < 0.2:
            variables[STUBBORN] = "1"
        lazy = "never" in self.habits and chance.random() < 0.2
        self.tasks[name] = _Task(agent, gpus, self.world.now_s, part=bool(part), lazy=lazy, known_to=self._led_by())
        wanted = {"cpus": 0.1, "mem": 32.0, "gpus": float(gpus)}
        task = {
            "name": name, "task_id": {"value": name}, "agent_id": {"value": agent},
            "resources": [
                {"name": kind, "type": "SCALAR", "scalar": {"value": size}, "allocation_info": {"role": "guest"}}
                for kind, size in wanted.items() if size
            ] + part,
            "command": {
                "value": "work",
                "environment": {"variables": [{"name": key, "value": value} for key, value in variables.items()]},
            },
        }  # fmt: skip
        refuse_s = self.world.pause_s(1.0)
        launch = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
        await self._call("ACCEPT", {"offer_ids": ids, "operations": [launch], "filters": {"refuse_seconds": refuse_s}})
        if "hurried" in self.habits and chance.random() < 0.4:
            await asyncio.sleep(span(chance, 0.001, 2.0))
            await self._kill(name)

    def _part_of(self, offer: Any) -> list[Any]:
        """Return resources that are a part of a shared card, of any of its units; often none."""
        chance = self._chance
        offered: dict[str, dict[int, list[int]]] = {"gpu_mem": {}, "gpu_slices": {}}
        for one in offer["resources"]:
            for pair in one["ranges"]["range"] if one["name"] in offered else ():
                for number in range(int(pair["begin"]), int(pair["end"]) + 1):
                    offered[one["name"]].setdefault(number // 1000, []).append(number)
        cards = sorted(offered["gpu_mem"].keys() & offered["gpu_slices"].keys())
        if not cards or chance.random() < 0.4:
            return []
        card, found = chance.choice(cards), []
        for name, most in (("gpu_mem", MOST_GIB), ("gpu_slices", MOST_SLICES)):
            free = offered[name][card]
            count = min(len(free), chance.randint(1, most))
            taken = sorted(chance.sample(free, count)) if chance.random() < 0.5 else free[:count]
            ranges = {"range": [{"begin": number, "end": number} for number in taken]}
            found.append({"name": name, "type": "RANGES", "ranges": ranges, "allocation_info": {"role": "guest"}})
        return found

    async def _suspend_now_and_then(self) -> None:
        """Have what tasks with parts have on their cards put away, and brought back; never ends."""
        chance, away = self._chance, set[str]()
        while True:
            await asyncio.sleep(self.world.pause_s(chance.expovariate(1 / SUSPENDING_S)))
            away = {name for name in away if self.tasks[name].state == "TASK_RUNNING"}
            running = sorted(name for name, task in self.tasks.items() if task.part and task.state == "TASK_RUNNING")
            if not running or not self.busy:
                continue
            name = chance.choice(running)
            words = RESUME if name in away else SUSPEND
            away ^= {name}
            agent = {"agent_id": {"value": self.tasks[name].agent}, "executor_id": {"value": name}}
            await self._call("MESSAGE", {**agent, "data": data_of(words)})

    def _counts(self, task: _Task) -> bool:
        young = self.world.now_s - task.since_s < FORGOTTEN_S
        return task.state not in OVER and (task.state != "TASK_STAGING" or young)

    def _status(self, status: dict[str, Any]) -> None:
        self.cluster.on_status("guest", status)
        name, chance = status["task_id"]["value"], self.world.random
        task = self.tasks[name]
        task.state, task.known_to = status["state"], self._led_by()
        was_away = status.get("reason") == "REASON_AGENT_REREGISTERED"  # if that was told while nobody heard it
        if was_away or task.state in ("TASK_UNREACHABLE", "TASK_LOST"):
            task.kill_by = None  # what a master knew of it is gone: the kill, too
        if "uuid" not in status or (task.lazy and task.state not in OVER):
            return
        body = {name: status[name] for name in ("agent_id", "task_id", "uuid")}
        after_s = span(chance, 0.1, 60.0) if "late" in self.habits and chance.random() < 0.3 else 0.0
        self._later(self._acknowledge(body, after_s))
        if "twice" in self.habits and chance.random() < 0.3:
            self._later(self._acknowledge(body, after_s + span(chance, 0.01, 30.0)))

    async def _acknowledge(self, body: Any, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._call("ACKNOWLEDGE", body)

    async def _kill_now_and_then(self, pause_s: float) -> None:
        chance = self.world.random
        while True:
            await asyncio.sleep(self.world.pause_s(chance.expovariate(1 / pause_s)))
            self.look()
            if "leaves" in self.habits and chance.random() < 0.2 and self._open is not None and self.busy:
                self._open.close()
            live = sorted(name for name, task in self.tasks.items() if self._may_be_killed(task))
            if live and self.busy:
                await self._kill(chance.choice(live))

    def _led_by(self) -> Process | None:
        return None if self._master is None else self.world.processes.get(self._master.name)

    def _kill_of(self, name: str) -> Any:
        return {"task_id": {"value": name}, "agent_id": {"value": self.tasks[name].agent}}

    async def _kill(self, name: str) -> None:
        """Kill a task: once, if the master has taken it.

        A master that has not heard of the task since it leads, because its agent is not back yet, forgets the kill.
        Source: Mesos src/master/master.cpp, kill(): it reconciles instead, and of such an agent that says nothing.
        """
        process, task = self._led_by(), self.tasks[name]
        if await self._call("KILL", self._kill_of(name)) and task.state != "TASK_UNREACHABLE":
            task.kill_by, task.kill_s, task.kill_counts = process, self.world.now_s, task.known_to is process
            if self._is_away(name):
                self.world.tell("guest", f"{name} is to be killed, and its agent is away")

    # Calls.

    async def _call(self, kind: str, body: Any) -> bool:
        """Return whether the master has taken a call; one that it has not is not made again."""
        master = self._master
        if self._stream is None or master is None:
            return False
        call = {"type": kind, "framework_id": {"value": self.framework}, kind.lower(): body}
        try:
            connection = await asyncio.wait_for(Connection.open(f"{master.ip}:5050"), PATIENCE_S)
            try:
                headers = {"Mesos-Stream-Id": self._stream or ""}
                answer = await connection.ask("POST", CALLS, call, headers, patience_s=PATIENCE_S)
            finally:
                connection.close()
        except (OSError, asyncio.TimeoutError) as error:
            self.world.tell("guest", f"{kind}: {type(error).__name__}")
            return False
        self.world.tell("guest", f"{kind} {body.get('task_id', {}).get('value', '')}: {answer.status}")
        return answer.status == 202

    def _later(self, doing: Any) -> None:
        self._kept.append(asyncio.ensure_future(doing))
