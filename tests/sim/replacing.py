"""Agents whose disk is replaced: the machine comes back at its address, knows nothing, and is another agent.

Its tasks and volumes are gone. Who has replaced the disk marks the agent of before as gone, sooner or later, if the
master still knows it: then apps begin elsewhere that wait for volumes there (docs/do/marathon.md). Where it does not,
who has such an app wipes it.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mesos_gpu.container.spec.config import Termination
from tests.sim.actors import LATER, Actor
from tests.sim.faults import span
from tests.sim.machine import Machine
from tests.sim.world import Host, Process

PAUSES_S = (300.0, 900.0)
MOMENT_S = 60.0
FAILS_FIRST = 0.5
"""How often what runs on a disk fails before that is replaced."""
NOTICE_S = 240.0
"""After so long at peace a master knows of every agent whether it is there."""
NEVER_KEPT = re.compile(r"cannot write down that the master calls this agent ([\w-]+):")
"""What an agent says at its end whose disk did not take the id that it was just given."""


@dataclass
class Replaced(Actor):
    """Whoever replaces disks."""

    often: ClassVar[float] = 0.35
    name: ClassVar[str] = "replacing"
    count: int = 0
    _before: dict[str, str] = field(default_factory=dict)
    """Ids of agents whose disks are no more, and their hosts."""
    _removed: dict[str, None] = field(default_factory=dict)
    """Those that no master knew any more when they were to be marked as gone: nobody hears that they are."""
    _newcomers: dict[str, float] = field(default_factory=dict)
    """Hosts whose agent had another id already when the one of before was marked as gone, and when that was."""

    async def work(self) -> None:
        """Replace a disk now and then."""
        self.cluster.on_exit.append(self._exits)
        pause_s = self.chance.choice(PAUSES_S)
        while self.busy:
            await self.pause(pause_s)
            if self.busy:
                await self._replace(self.chance.choice(self.cluster.agents))

    async def _replace(self, host: Host) -> None:
        if host.down:
            return
        agents = await self._agents()
        before = [agent["id"] for agent in agents or () if agent["hostname"] == host.name]
        if not before or host.down or not self.busy:
            return  # nobody knows it yet
        self.count += 1
        self.tell(f"the disk of {host.name} is replaced, which was {before}")
        machine = self.cluster.machines[host.name]
        failed = self.world.seed >= LATER and self.chance.random() < FAILS_FIRST
        if failed:
            await self._fail(machine)
        self.cluster.power_cut(host.name)
        host.disk.replaced()
        if self.stage.judge.operators is not None:
            self.stage.judge.operators.replaced(host.name, before)
        machine.volumes.clear()
        self._before |= dict.fromkeys(before, host.name)
        if failed or self.chance.random() < 0.5:
            # Who has seen it fail says so before the machine is there again.
            after_s = span(self.chance, 0.5, 10.0) if failed else self.world.lasts_s(span(self.chance, 5.0, 900.0))
            await asyncio.sleep(after_s)
            await self._mark_gone()

    async def _agents(self) -> list[Any] | None:
        answer = await self.ask_master("GET", "/master/slaves")
        return None if answer is None or answer.status != 200 else list(answer.json()["slaves"])

    async def _fail(self, machine: Machine) -> None:
        """The disk fails what runs there before anybody takes it out."""
        self.tell(f"what runs on {machine.host.name} fails")
        for container_id, container in list(machine.running.items()):
            if container.executor is None:
                machine.end(container_id, Termination(exit_code=1))
        await asyncio.sleep(span(self.chance, 0.1, 5.0))

    async def _mark_gone(self) -> None:
        """Mark as gone what will never come back under its id; the master may have found out by itself."""
        for agent, host in list(self._before.items()):
            known = {one["id"] for one in await self._agents() or () if one["hostname"] == host}
            if known and agent not in known:
                self._newcomers[host] = self.world.now_s
            body = {"type": "MARK_AGENT_GONE", "mark_agent_gone": {"agent_id": {"value": agent}}}
            answer = await self.ask_master("POST", "/api/v1", body)
            self.tell(f"{agent} is gone: {None if answer is None else (answer.status, answer.body)}")
            if answer is not None:
                self._before.pop(agent, None)  # who is about to leave may have done so meanwhile
                if answer.status != 200:
                    self._removed[agent] = None

    def _exits(self, process: Process, why: str) -> None:
        """Nobody has asked for the end of the agent that is there now; its log says which id it could not keep."""
        if (lost := NEVER_KEPT.search(why)) is not None:
            self._before[lost[1]] = process.name  # the master knows it, and nobody will ever be it
        since_s = self.world.now_s - self._newcomers.get(process.name, -MOMENT_S)
        if why == "exit 0" and since_s < MOMENT_S:
            self.world.finding(f"{process} ends as if it were the agent of before, which was marked as gone")

    async def leave(self) -> None:
        """Mark as gone what is, and give up the volumes that were there where nobody knew of it."""
        if not self.count:
            return
        for _ in range(20):
            if not self._before:
                break
            await self._mark_gone()
            await asyncio.sleep(30.0)
        await asyncio.sleep(NOTICE_S)
        for name in [name for name, wanted in self.stage.people.apps.items() if wanted.keeps]:
            await self._wipe(name)
        if self.world.seed >= LATER:
            await self._want_again()

    async def _want_again(self) -> None:
        """Have an instance of each app that had none: its volume may have been on what is gone."""
        for name, wanted in self.stage.people.apps.items():
            if wanted.keeps and not wanted.instances:
                answer = await self.ask_marathon("PUT", f"/v2/apps{name}?force=true", {"instances": 1})
                wanted.sure = answer is not None and answer.status == 200
                wanted.instances = 1

    async def _wipe(self, name: str) -> None:
        """Give up the volumes of an app that are on no agent any more."""
        tasks = await self.ask_marathon("GET", f"/v2/apps{name}/tasks")
        for task in () if tasks is None or tasks.status != 200 else tasks.json()["tasks"]:
            if task["slaveId"] in self._removed:
                self.tell(f"{name} is waiting for what is gone: {json.dumps(task)}")
                await self.ask_marathon("DELETE", f"/v2/apps{name}/tasks/{task['id']}?wipe=true")
