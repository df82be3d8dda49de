"""One task, and five masters after one another at one address: it is the same process, and no status is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.mesos.resource import Document
from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.releases import Release
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler, soon

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

OURS = "ours"
SUCCESSION = ("1.7.3", "1.11.0", OURS, "1.11.0")
STATES = ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]


class Framework:
    """A scheduler that outlives its masters: it subscribes with each, and keeps what it was told of every task."""

    def __init__(self, box: GenuineBox) -> None:
        self.box = box
        self.id: str | None = None
        self.told: dict[str, list[str]] = {}
        self.offers: list[Document] = []
        self.scheduler = Scheduler(box.url)

    async def subscribe(self) -> None:
        """Subscribe with the master that there is now, once it takes frameworks."""
        await self.scheduler.close()
        self.scheduler, self.offers = Scheduler(self.box.url), []
        info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE", failover_timeout=1000.0)
        await self.scheduler.subscribe(info, self.id)
        self.id = self.scheduler.framework_id

    async def launch(self, task_id: str, line: str, *, gpus: int = 0) -> None:
        while not self.offers:
            await self.take()
        offer = self.offers.pop()
        needs = {"cpus": 0.1, "mem": 32.0, "gpus": float(gpus)}
        resources = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in needs.items() if v]
        named = {"name": task_id, "task_id": {"value": task_id}, "agent_id": offer["agent_id"]}
        await self.scheduler.launch(offer, {**named, "resources": resources, "command": {"value": line}}, refuse_s=0)
        await self.hears(task_id, "TASK_RUNNING")

    async def hears(self, task_id: str, state: str) -> None:
        """Read statuses until a task is in this state; each that asks for it is acknowledged."""
        while state not in self.told.get(task_id, ()):
            await self.take()

    async def take(self) -> None:
        """Take the next event."""
        event = await soon(self.scheduler.events.get())
        assert event is not None, f"the stream ended\n{self.box.logs()}"
        if event["type"] == "OFFERS":
            self.offers += event["offers"]["offers"]
        elif event["type"] == "RESCIND":
            self.offers = [offer for offer in self.offers if offer["id"] != event["rescind"]["offer_id"]]
        elif event["type"] == "UPDATE":
            status = event["update"]["status"]
            self.told.setdefault(status["task_id"]["value"], []).append(status["state"])
            if status.get("uuid"):
                await self.scheduler.acknowledge(status)


async def test_a_task_outlives_the_replacement_of_its_masters_by_ours_and_back(
    releases: Callable[[str], Release], make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(releases("1.4.3"), gpus=2)
    framework = Framework(box)
    try:
        await framework.subscribe()
        beat = tmp_path / "beat"
        await framework.launch("long", f"echo $$ >> {beat}; while true; do touch {beat}.now; sleep 0.1; done", gpus=1)
        for n, version in enumerate(SUCCESSION):
            await framework.launch(f"t{n}", f"while [ ! -e {tmp_path}/go{n} ]; do sleep 0.05; done")
            box.kill_master()
            (tmp_path / f"go{n}").touch()
            completed = f"t{n}"
            await asyncio.to_thread(box.until, "it ended without a master", lambda t=completed: ended(box, t))
            if version == OURS:
                box.start_ours()
            else:
                box.start_master(releases(version))
            agent_id = box.agents[0].id
            back = [agent_id]
            await asyncio.to_thread(
                box.until, "the agent is back", lambda b=back: [s["id"] for s in box.state()["slaves"]] == b
            )
            assert box.state()["version"] == ("1.12.0" if version == OURS else version)
            await framework.subscribe()
            await framework.hears(f"t{n}", "TASK_FINISHED")
            assert framework.told[f"t{n}"] == STATES
        assert framework.told["long"] == STATES[:2]
        assert len(beat.read_text().splitlines()) == 1, "it began once"
        before = Path(f"{beat}.now").stat().st_mtime_ns
        await asyncio.to_thread(box.until, "it runs", lambda: Path(f"{beat}.now").stat().st_mtime_ns > before)
        await framework.scheduler.call("KILL", {"task_id": {"value": "long"}})
        await framework.hears("long", "TASK_KILLED")
        assert framework.told["long"] == [*STATES[:2], "TASK_KILLED"]
    finally:
        await framework.scheduler.close()


def ended(box: GenuineBox, task_id: str) -> bool:
    """Whether the agent holds the end of a task, of which nobody has heard."""
    (framework,) = box.agents[0].state()["frameworks"]
    shown = [t for e in framework["executors"] for k in ("tasks", "completed_tasks") for t in e[k]]
    shown += [t for e in framework["completed_executors"] for k in ("tasks", "completed_tasks") for t in e[k]]
    return any(t["id"] == task_id and t["state"] == "TASK_FINISHED" for t in shown)
