"""A scheduler of the v1 API that outlives its masters, and what it asks of them by hand."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing.box import MesosBox
from tests.support.master.build import framework_info
from tests.support.master.live import PATIENCE_S, Scheduler, soon


class Framework:
    """It subscribes with each master that there is, and keeps what it was told of every task."""

    def __init__(self, box: MesosBox) -> None:
        self.box = box
        self.id: str | None = None
        self.told: dict[str, list[str]] = {}
        self._heard: set[str] = set()
        self.offers: list[Document] = []
        self.messages: list[tuple[str, str]] = []
        """What executors have said: their ids, and texts."""
        self.scheduler = Scheduler(box.url)

    async def subscribe(self) -> None:
        """Subscribe with the master that there is now, once it takes frameworks."""
        await self.scheduler.close()
        self.scheduler, self.offers = Scheduler(self.box.url), []
        info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE", failover_timeout=1000.0)
        await self.scheduler.subscribe(info, self.id)
        self.id = self.scheduler.framework_id

    async def offer(self, gpus: float = 0) -> Document:
        """Return an offer that nobody has used, with so many GPUs; those with fewer go back."""
        while True:
            while not self.offers:
                await self.take()
            offer = self.offers.pop()
            if sum(r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus") >= gpus:
                return offer
            await self.scheduler.call("DECLINE", {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0}})

    async def launch(self, task_id: str, line: str, *, gpus: float = 0, state: str = "TASK_RUNNING") -> None:
        """Launch a task and wait until it is told to be in this state."""
        offer = await self.offer(gpus)
        await self.scheduler.launch(offer, task(offer, task_id, line, gpus=gpus), refuse_s=0)
        await self.hears(task_id, state)

    async def hears(self, task_id: str, state: str) -> Document:
        """Read statuses until a task is in this state, unless it was; return the last one read."""
        status: Document = {}
        end = time.monotonic() + PATIENCE_S
        while state not in self.told.get(task_id, ()):
            status = await self.take() or status
            assert time.monotonic() < end, f"{task_id} is not {state}: {self.told}\n{self.box.logs()}"
        return status

    async def take(self) -> Document | None:
        """Take the next event; return the status that it is, if it is one that was not told before.

        Each that asks for it is acknowledged; one whose acknowledgement got lost is told again, and is the same.
        """
        event = await soon(self.scheduler.events.get())
        assert event is not None, f"the stream ended\n{self.box.logs()}"
        if event["type"] == "OFFERS":
            self.offers += event["offers"]["offers"]
        elif event["type"] == "RESCIND":
            self.offers = [offer for offer in self.offers if offer["id"] != event["rescind"]["offer_id"]]
        elif event["type"] == "MESSAGE":
            said = event["message"]
            self.messages.append((said["executor_id"]["value"], base64.b64decode(said["data"]).decode()))
        elif event["type"] == "UPDATE":
            status: Document = event["update"]["status"]
            uuid = status.get("uuid")
            if uuid:
                await self.scheduler.acknowledge(status)
                if uuid in self._heard:
                    return None
                self._heard.add(uuid)
            self.told.setdefault(status["task_id"]["value"], []).append(status["state"])
            return status
        return None

    async def reconcile(self, *asked: tuple[str, str | None]) -> None:
        """Ask for the states of tasks, each with an agent's id or none; of all tasks, if none is named."""
        tasks = [{"task_id": {"value": name}} | _agent(agent_id) for name, agent_id in asked]
        assert (await self.scheduler.call("RECONCILE", {"tasks": tasks})).status == 202

    async def answers(self, count: int) -> list[Document]:
        """Return the next statuses, so many, by task."""
        found: list[Document] = []

        end = time.monotonic() + PATIENCE_S
        while len(found) < count:
            status = await self.take()
            found += [] if status is None else [status]
            assert time.monotonic() < end, f"{count} answers wanted: {found}\n{self.box.logs()}"
        return sorted(found, key=lambda status: str(status["task_id"]["value"]))

    async def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait for what the box shows, while events go on being read into the queue."""
        await asyncio.to_thread(self.box.until, what, holds)


@asynccontextmanager
async def subscribed(box: MesosBox) -> AsyncIterator[Framework]:
    framework = Framework(box)
    try:
        await framework.subscribe()
        yield framework
    finally:
        await framework.scheduler.close()


def task(offer: Document, task_id: str, line: str, *, gpus: float = 0) -> Document:
    """Return the TaskInfo of a command."""
    needs = {"cpus": 0.1, "mem": 32.0, "gpus": gpus}
    resources = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in needs.items() if v]
    named = {"name": task_id, "task_id": {"value": task_id}, "agent_id": offer["agent_id"]}
    return {**named, "resources": resources, "command": {"value": line}}


def ended(box: MesosBox, task_id: str) -> bool:
    """Whether the agent holds the end of a task, of which nobody has heard."""
    (framework,) = box.agents[0].state()["frameworks"]
    shown = [t for e in framework["executors"] for k in ("tasks", "completed_tasks") for t in e[k]]
    shown += [t for e in framework["completed_executors"] for k in ("tasks", "completed_tasks") for t in e[k]]
    return any(t["id"] == task_id and t["state"] == "TASK_FINISHED" for t in shown)


def _agent(agent_id: str | None) -> Document:
    return {} if agent_id is None else {"agent_id": {"value": agent_id}}
