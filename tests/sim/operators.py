"""Whoever keeps the cluster: drains agents, deactivates them, announces maintenance, limits a role; for a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.sim.faults import span
from tests.sim.http import Answer, request

if TYPE_CHECKING:
    from tests.sim.machine import Container
    from tests.sim.services import Cluster
    from tests.sim.world import Host, World

HOW_OFTEN = {"drain": 3.0, "deactivate": 1.0, "maintain": 1.0, "limit": 1.0}
LONGEST_S = 600.0
DRAINING, MOST_TRIES = b"DRAINING state", 100
"""How a master says that an agent drains, and after how many tries at peace, one every five seconds, it must not."""
LOOK_S = 10.0
"""How often a drained agent is looked at."""


@dataclass
class Operators:
    """A person at a host of its own. What is drained is so for everybody: nothing runs there, and nothing begins."""

    world: World
    cluster: Cluster
    acts: dict[str, float]
    busy: bool = True
    drains: bool = True
    """Whether agents are drained: one with a task whose framework never acknowledges an update drains for ever.

    Source: Mesos src/master/master.cpp, checkAndTransitionDrainingAgent().
    """
    drained: dict[str, None] = field(default_factory=dict)
    """Hosts that a master has said to be drained, and that nobody has asked to have back."""
    _no_more: dict[str, None] = field(default_factory=dict)
    """Ids of agents whose disks are no more: who comes in their place is another agent, which nobody has drained."""
    _to_undo: list[Callable[[], Coroutine[Any, Any, bool]]] = field(default_factory=list)

    async def work(self, pause_s: float) -> None:
        """Do something now and then; nothing of it is left once `busy` is not so any more."""
        chance = self.world.random
        while self.busy:
            await asyncio.sleep(self.world.pause_s(chance.expovariate(1 / pause_s)))
            if self.busy:
                await getattr(self, chance.choices(list(self.acts), list(self.acts.values()))[0])()

    async def leave(self) -> None:
        """Undo everything, as often as it takes."""
        self.busy = False
        while self._to_undo:
            await self._undo(self._to_undo[0])

    def begins(self, host: str, container: Container) -> None:
        """A task begins."""
        if host in self.drained and container.executor is None:
            self.world.finding(f"task {container.task} begins on {host}, which is drained")

    def replaced(self, host: str, agents: Iterable[str]) -> None:
        """The agents of a host will not be back; whatever comes there has another id."""
        self.drained.pop(host, None)
        self._no_more |= dict.fromkeys(agents)

    async def drain(self) -> None:
        """Drain an agent; once it is drained nothing is to run there until it is asked for again."""
        found = await self._agent() if self.drains else None
        if found is None:
            return
        host, agent = found
        grace = {"seconds": int(span(self.world.random, 1.0, 60.0))}
        call = {"agent_id": agent, "max_grace_period": grace}

        undo = self._reactivating(agent, host)
        if await self._begin("DRAIN_AGENT", call, undo):
            until_s = self.world.now_s + self.world.lasts_s(span(self.world.random, 10.0, LONGEST_S))
            while self.world.now_s < until_s and self.busy:
                await self._look(host)
                await asyncio.sleep(LOOK_S)
            await self._undo(undo)

    async def deactivate(self) -> None:
        """Have an agent offered to nobody."""
        found = await self._agent()
        if found is not None:
            undo = self._reactivating(found[1], found[0])
            await self._until_undone("DEACTIVATE_AGENT", {"agent_id": found[1]}, undo)

    def _reactivating(self, agent: Any, host: str) -> Callable[[], Coroutine[Any, Any, bool]]:
        """Return what has an agent offered again.

        One refusal may be that of a master that was frozen while another came to lead, and does not know it yet. An
        agent that drains is offered again once it has.
        """
        refused = drains = 0

        async def undo() -> bool:
            nonlocal refused, drains
            self.drained.pop(host, None)
            answer = await self._ask("REACTIVATE_AGENT", {"agent_id": agent})
            if answer is None or answer.status == 200:
                return answer is not None
            if DRAINING not in answer.body:
                refused += 1
            elif agent["value"] in self._no_more:
                return True  # its disk is no more: it will not be back to end what it drains
            elif not self.busy:
                drains += 1
                if drains > MOST_TRIES:
                    self.world.finding(f"{host} does not end to drain, and nothing is broken any more")
            return refused > 1 or drains > MOST_TRIES

        return undo

    async def maintain(self) -> None:
        """Say that a machine will be away soon."""
        chance = self.world.random
        host = chance.choice(self.cluster.agents)
        start = {"nanoseconds": int((self.world.now_s + 1.7e9 + chance.uniform(-100.0, 300.0)) * 1e9)}
        window = {
            "machine_ids": [{"hostname": host.name, "ip": host.ip}],
            "unavailability": {"start": start, "duration": {"nanoseconds": 600 * 10**9}},
        }
        kind = "UPDATE_MAINTENANCE_SCHEDULE"
        await self._for_a_while(kind, {"schedule": {"windows": [window]}}, kind, {"schedule": {"windows": []}})

    async def limit(self) -> None:
        """Let a role have no more than a little."""
        limits = {"gpus": {"value": float(self.world.random.choice((0, 1)))}, "cpus": {"value": 1.0}}
        config = {"role": "guest", "limits": limits}
        more = {"force": True}
        kind = "UPDATE_QUOTA"
        without = {"quota_configs": [{"role": "guest"}], **more}
        await self._for_a_while(kind, {"quota_configs": [config], **more}, kind, without)

    async def _for_a_while(self, kind: str, body: Any, undone_by: str, undoing: Any) -> None:
        async def undo() -> bool:
            return await self._ask(undone_by, undoing) is not None

        await self._until_undone(kind, body, undo)

    async def _until_undone(self, kind: str, body: Any, undo: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        if await self._begin(kind, body, undo):
            await asyncio.sleep(self.world.lasts_s(span(self.world.random, 10.0, LONGEST_S)))
            await self._undo(undo)

    async def _begin(self, kind: str, body: Any, undo: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        """Ask for something that has to be undone, also when nobody knows whether it was done."""
        self._to_undo.append(undo)
        answer = await self._ask(kind, body)
        if answer is not None and answer.status != 200:
            self._to_undo.remove(undo)
            return False
        return True

    async def _undo(self, undo: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        while undo in self._to_undo:
            if await undo():
                self._to_undo = [left for left in self._to_undo if left is not undo]
            else:
                await asyncio.sleep(5.0)

    async def _look(self, host: str) -> None:
        state = await self._state()
        # Who leaves has asked for all of them again.
        for agent in () if state is None or not self.busy else state["slaves"]:
            if agent["hostname"] != host or agent["id"] in self._no_more:
                continue
            if agent.get("drain_info", {}).get("state") == "DRAINED":
                self.drained[host] = None
                running = self.cluster.machines[host].tasks()
                if running:
                    self.world.finding(f"{host} is said to be drained, and these run there: {running}")

    async def _agent(self) -> tuple[str, Any] | None:
        """Return the host of an agent that is registered, and its id."""
        state = await self._state()
        known = {} if state is None else {agent["hostname"]: agent["id"] for agent in state["slaves"]}
        if not known:
            return None
        host = self.world.random.choice(sorted(known))
        return host, {"value": known[host]}

    async def _state(self) -> Any:
        for master in self._masters():
            answer = await self._request(master, "GET", "/master/state", None)
            if answer is not None and answer.status == 200:
                return answer.json()
        return None

    async def _ask(self, kind: str, body: Any) -> Answer | None:
        """Return the answer of the master that leads, None when nobody knows whether it was done."""
        for master in self._masters():
            answer = await self._request(master, "POST", "/api/v1", {"type": kind, kind.lower(): body})
            if answer is not None and answer.status in (200, 400, 403, 404, 409):
                said = f"{kind} {json.dumps(body)[:80]}: {answer.status} {answer.body[:80]!r}"
                self.world.tell("operator", said)
                return answer
        return None

    def _masters(self) -> list[Host]:
        return self.world.random.sample(self.cluster.masters, len(self.cluster.masters))

    async def _request(self, master: Host, method: str, path: str, body: Any) -> Answer | None:
        try:
            return await request(f"{master.ip}:5050", method, path, body)
        except (OSError, asyncio.TimeoutError):
            return None
