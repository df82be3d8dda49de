"""A group of apps that one user changes, scales, rolls back and removes, and whose deployments the user cancels.

The expected tree is what Marathon shows after the last acknowledged change. In the end Marathon must show it still, and
run as many tasks of each app as it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.sim.actors import Actor
from tests.sim.http import Answer
from tests.sim.people import LATE_S

SINCE = 120_000
"""Histories of seeds from here on have this actor."""
PAUSE_S = 60.0
GROUP = "/team"
MOST_INSTANCES, MOST_GPUS = 12, 2
ACTS = {"put": 4.0, "scale": 2.0, "roll_back": 2.0, "cancel": 3.0, "restart": 1.0, "kill": 1.0, "remove": 1.0}
"""What the user does, and how often compared with the others."""
STRATEGIES = ((1.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.0, 0.0))
"""The minimumHealthCapacity and maximumOverCapacity of the apps without GPUs."""


@dataclass
class Grouping(Actor):
    """The user of one group."""

    often: ClassVar[float] = 0.3
    since: ClassVar[int] = SINCE
    name: ClassVar[str] = "grouping"
    _expected: Mapping[str, int] | None = None
    """Apps of the group and their instances, as they were last acknowledged; None if that is unknown."""
    _unknown_until_s: float = 0.0
    """Until when a request that was not answered may still be carried out."""
    _count: int = 0

    async def work(self) -> None:
        """Change the group now and then."""
        while self.busy:
            await self.pause(PAUSE_S)
            if self.busy:
                act = self.chance.choices(list(ACTS), list(ACTS.values()))[0]
                await getattr(self, f"_{act}")()

    async def _change(self, method: str, path: str, body: Any = None) -> None:
        """Request a change, and remember the tree that it led to."""
        answer = await self.ask_marathon(method, path, body)
        if answer is None:
            self._unknown_until_s = self.world.now_s + LATE_S
        if answer is None or answer.status < 300:
            shown = await self._shown()
            self._expected = None if self.world.now_s < self._unknown_until_s else shown

    async def _shown(self) -> dict[str, int] | None:
        """Return the apps of the group and their instances as Marathon shows them, or None without an answer."""
        answer = await self.ask_marathon("GET", "/v2/apps")
        if answer is None or answer.status != 200:
            return None
        return {app["id"]: app["instances"] for app in answer.json()["apps"] if app["id"].startswith(f"{GROUP}/")}

    def _force(self) -> str:
        return self.chance.choice(("true", "true", "false"))

    def _app(self, name: str, gpus: int = 0) -> dict[str, Any]:
        self._count += self.chance.random() < 0.5
        factor, most_s = self.world.pacing.backoff(lasting=True)
        health, over = (0.0, 0.0) if gpus else self.chance.choice(STRATEGIES)
        app: dict[str, Any] = {
            "id": name, "cmd": f"serve {self._count}", "cpus": 0.1, "mem": 32, "gpus": gpus,
            "instances": self.chance.randint(0, 1 if gpus else 3),
            "upgradeStrategy": {"minimumHealthCapacity": health, "maximumOverCapacity": over},
            "backoffSeconds": 1, "backoffFactor": factor, "maxLaunchDelaySeconds": most_s,
        }  # fmt: skip
        if self.chance.random() < 0.5:
            after_s = self.chance.choice((0, 60, 200))
            app["unreachableStrategy"] = {"inactiveAfterSeconds": after_s, "expungeAfterSeconds": after_s + 100}
        return app

    async def _put(self) -> None:
        """Create the group, or replace what is in it."""
        names = [name for name in ("a", "b") if self.chance.random() < 0.8]
        inner = {"id": "inner", "apps": [self._app("c", gpus=self.chance.choice((0, 1)))]}
        if "a" in names and self.chance.random() < 0.6:
            inner["dependencies"] = [f"{GROUP}/a"]
        body = {"apps": [self._app(name) for name in names], "groups": [inner]}
        await self._change("PUT", f"/v2/groups{GROUP}?force={self._force()}", body)

    async def _scale(self) -> None:
        """Multiply the instances of all apps of the group."""
        shown, factor = await self._shown(), self.chance.choice((0, 0.5, 2))
        if not shown or sum(shown.values()) * factor > MOST_INSTANCES:
            return
        if shown.get(f"{GROUP}/inner/c", 0) * factor <= MOST_GPUS:
            await self._change("PUT", f"/v2/groups{GROUP}?force={self._force()}", {"scaleBy": factor})

    async def _roll_back(self) -> None:
        """Restore an earlier version of the group."""
        answer = await self.ask_marathon("GET", f"/v2/groups{GROUP}/versions")
        if answer is not None and answer.status == 200 and answer.json():
            version = self.chance.choice(answer.json())
            await self._change("PUT", f"/v2/groups{GROUP}?force={self._force()}", {"version": version})

    async def _cancel(self) -> None:
        """Cancel a deployment of the group: with force it stops where it is, without force it is undone."""
        answer = await self.ask_marathon("GET", "/v2/deployments")
        if answer is None or answer.status != 200:
            return
        ids = [
            one["id"]
            for one in answer.json()
            if all(app.startswith(f"{GROUP}/") for app in (*one["affectedApps"], *one["affectedPods"]))
        ]
        if ids:
            await self._change("DELETE", f"/v2/deployments/{self.chance.choice(ids)}?force={self._force()}")

    async def _restart(self) -> None:
        await self._with_one("POST", f"/restart?force={self._force()}")

    async def _kill(self) -> None:
        """Kill all tasks of an app, which is then scaled to what is left."""
        await self._with_one("DELETE", "/tasks?scale=true&force=true")

    async def _with_one(self, method: str, path: str) -> None:
        shown = await self._shown()
        if shown:
            await self._change(method, f"/v2/apps{self.chance.choice(sorted(shown))}{path}")

    async def _remove(self) -> None:
        await self._change("DELETE", f"/v2/groups{GROUP}?force=true")

    async def settled(self) -> None:
        """Compare the group with what was acknowledged and with what runs; then remove it."""
        running, shown = await self.ask_marathon("GET", "/v2/apps?embed=apps.counts"), await self._shown()
        if running is None or shown is None:
            self.world.finding("Marathon does not answer although nothing is broken any more")
            return
        if self._expected is not None and shown != self._expected:
            self.world.finding(f"{GROUP} has {shown}; acknowledged was {dict(self._expected)}")
        for app in running.json()["apps"]:
            if app["id"] in shown and app["tasksRunning"] != app["instances"]:
                self.world.finding(f"{app['id']} has {app['tasksRunning']} running; wanted are {app['instances']}")
        await self._remove_for_good()

    async def _remove_for_good(self) -> Answer | None:
        for _ in range(20):
            answer = await self.ask_marathon("DELETE", f"/v2/groups{GROUP}?force=true")
            if answer is not None:
                return answer
            await asyncio.sleep(30.0)
        return None
