"""An ill GPU seen by a framework: what the master offered is taken back, and not offered again until it is well."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from tests.support.box.crashing import Victim
from tests.support.box.live import LiveBox
from tests.support.master.build import check_books, framework_info, task_info
from tests.support.master.live import Scheduler, live_master, soon, until

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


class Setup:
    def __init__(self, master: RunningMaster, agent: Victim, scheduler: Scheduler) -> None:
        self.master, self.agent, self.scheduler = master, agent, scheduler

    @property
    def total(self) -> int:
        (agent,) = self.master.engine.state.agents.values()
        return agent.total.gpus

    async def offer_with(self, gpus: int) -> dict[str, Any]:
        """Wait for an offer with this many GPUs; others are declined."""
        while True:
            event = await soon(self.scheduler.events.get())
            assert event is not None
            if event["type"] == "UPDATE":
                await self.scheduler.acknowledge(event["update"]["status"])
            for offer in event.get("offers", {}).get("offers", ()):
                if gpus_in(offer) == gpus:
                    return offer  # type: ignore[no-any-return]
                body = {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0.01}}
                await self.scheduler.call("DECLINE", body)

    async def clear(self) -> None:
        (agent,) = self.master.engine.state.agents.values()
        url = f"http://127.0.0.1:{agent.info['port']}/gpus"
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as response:
                ill = [gpu["uuid"] for gpu in await response.json() if gpu["condition"] != "healthy"]
            for gpu in ill:
                async with session.post(f"{url}/{gpu}/healthy") as response:
                    assert response.status == 200


def gpus_in(offer: dict[str, Any]) -> int:
    return int(sum(r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus"))


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    async with live_master(tmp_path / "master") as master:
        agent = Victim(tmp_path / "agent", master.url, 2)
        scheduler = Scheduler(master.url)
        try:
            await agent.spawn()
            await agent.until_ready()
            await scheduler.subscribe(framework_info(failover_timeout=600.0))
            yield Setup(master, agent, scheduler)
        finally:
            await agent.end(signal.SIGUSR1)
            await agent.close()
            check_books(master.engine.state)
            await scheduler.close()
    assert agent.leftovers(agent_gone=True) == []


async def test_offers_of_a_gpu_that_falls_ill_are_taken_back(setup: Setup) -> None:
    offer = await setup.offer_with(2)
    setup.agent.faults("1 79\n")
    assert (await setup.scheduler.event("RESCIND"))["offer_id"] == offer["id"]
    await setup.offer_with(1)
    assert setup.total == 1
    await setup.clear()
    await setup.offer_with(2)


async def test_a_held_gpu_that_falls_ill_is_not_offered_when_its_task_has_ended(setup: Setup) -> None:
    offer = await setup.offer_with(2)
    agent = type("AnAgent", (), {"id": offer["agent_id"]["value"]})
    task = task_info(agent, "t", "cpus:0.1;mem:32;gpus:1", command={"value": "exec sleep 600"})  # type: ignore[arg-type]
    await setup.scheduler.launch(offer, task, refuse_s=0.01)
    told: list[str] = []

    async def hear(state: str, count: int = 1) -> dict[str, Any]:
        while True:
            status = await setup.scheduler.status(("HEARTBEAT", "OFFERS", "RESCIND"))
            await setup.scheduler.acknowledge(status)
            told.append(status["state"])
            if told.count(state) == count:
                return status

    await hear("TASK_RUNNING")
    setup.agent.faults("0 48\n")
    assert "XID 48" in (await hear("TASK_RUNNING", 2))["message"]
    assert setup.total == 2
    await setup.scheduler.call("KILL", {"task_id": {"value": "t"}, "agent_id": offer["agent_id"]})
    await hear("TASK_KILLED")
    assert setup.total == 1, "the smaller total came before the end"
    setup.scheduler.events = asyncio.Queue()
    (known,) = setup.master.engine.state.agents.values()
    await until(lambda: not known.used_total)
    assert known.free.gpus <= 1
    await setup.clear()
    await setup.offer_with(2)


def test_an_app_whose_gpu_falls_ill_is_moved_to_another(new_box: LiveBox, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    new_box.env |= {"MESOS_SIMULATED_GPU_FAULTS": str(faults), "MESOS_GPU_UNHEALTHY_ACTION": "kill"}
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=2")
    cmd = "ls /dev | grep -E '^nvidia[0-9]+$'; exec sleep 1000"
    new_box.add({"id": "moves", "cmd": cmd, "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1})
    (first,) = new_box.tasks("moves")
    faults.write_text("0 79\n")
    new_box.until(
        "another task runs",
        lambda: [t["state"] for t in new_box.tasks("moves") if t["id"] != first["id"]] == ["TASK_RUNNING"],
    )
    failure = new_box.marathon("/v2/apps/moves")["app"]["lastTaskFailure"]
    assert failure["state"] == "TASK_FAILED"
    assert "XID 79" in failure["message"]
    new_box.until("it has the other GPU", lambda: new_box.log_of("moves") == "nvidia1\n")
    assert new_box.status()["agents"][0]["gpus"] == 1


def test_an_app_that_is_told_of_its_gpu_runs_on(new_box: LiveBox, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    new_box.env |= {"MESOS_SIMULATED_GPU_FAULTS": str(faults)}
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    new_box.add({"id": "stays", "cmd": "exec sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1})
    before = new_box.tasks("stays")
    faults.write_text("0 79\n")

    def acknowledged() -> bool:
        (log,) = (new_box.work_dir / "agent1").glob("meta/**/task.updates")
        return log.read_text().count('"ACK"') == 3  # STARTING, RUNNING, and RUNNING with the message

    new_box.until("Marathon has heard of it", acknowledged)
    assert new_box.tasks("stays") == before
    new_box.ok("app", "remove", "stays")
    new_box.until("the GPU is offered no more", lambda: new_box.status()["agents"][0]["gpus"] == 0)
