"""Frameworks that connect, die and fail over at random, against a live master with simulated agents.

    ./run bench soak [--seconds 60] [--frameworks 200] [--agents 10] [--seed 1]

The master runs in this process with `--check_invariants`, so that it stops at the first event after which its books do
not add up. Frameworks and agents speak HTTP and libprocess to it over real sockets. At the end everybody hangs up, the
failover timeouts run out, and on every agent what is free must be all there is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp

from mesos_gpu.master.decisions.invariants import broken
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import OTHER_UUID, framework_info, resources_of
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, until

AGENT = "cpus:8;mem:8192;gpus:8;disk:1000;ports:[31000-31999]"
ROLES = ("*", "ml", "ml/train", "ml/serve", "web")
FAILOVER_S = 0.5
ENDS = ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED")


@dataclass
class Report:
    """What happened."""

    did: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    problem: str | None = None


class SoakAgent(ScriptedAgent):
    """Runs what it is sent for a moment; breaks off and comes back now and then."""

    def __init__(self, master: str, dice: Random, did: Counter[str]) -> None:
        super().__init__(master)
        self.dice, self.did = dice, did
        self.running: dict[str, tuple[Document, Document]] = {}

    async def play(self) -> None:
        while True:
            name, document = await self.messages.get()
            if name == "RunTaskMessage":
                task_id = document["task"]["task_id"]["value"]
                self.running[task_id] = (document, self.task_of(document, "TASK_RUNNING"))
                self.update(document, "TASK_RUNNING")
                asyncio.get_running_loop().call_later(self.dice.random() * 0.3, self._end, task_id)
            elif name == "ShutdownFrameworkMessage":
                framework_id = document["framework_id"]["value"]
                for task_id, (run, _) in list(self.running.items()):
                    if run["framework"]["id"]["value"] == framework_id:
                        del self.running[task_id]

    def come_back(self) -> None:
        """Register again, with the tasks that run."""
        runs = list(self.running.values())
        frameworks = {run["framework"]["id"]["value"]: run["framework"] for run, _ in runs}
        tasks = [task for _, task in runs]
        self.introduce("ReregisterSlaveMessage", AGENT, tasks=tasks, frameworks=list(frameworks.values()))
        self.did["agent came back"] += 1

    def _end(self, task_id: str) -> None:
        run = self.running.pop(task_id, None)
        if run is not None:
            self.did["task ended"] += 1
            self.update(run[0], self.dice.choice(ENDS), uuid=OTHER_UUID)


async def framework(url: str, name: str, dice: Random, did: Counter[str], ends_s: float) -> None:
    """One framework's lives: each begins with a subscription and ends in one of the ways that lives end."""
    framework_id: str | None = None
    loop = asyncio.get_running_loop()
    while loop.time() < ends_s:
        scheduler = Scheduler(url)
        try:
            capabilities = "MULTI_ROLE PARTITION_AWARE" + (" GPU_RESOURCES" if dice.random() < 0.7 else "")
            roles = dice.sample(ROLES, dice.randint(1, 2))
            info = framework_info(name, capabilities=capabilities, roles=roles, failover_timeout=FAILOVER_S)
            await scheduler.open(info, framework_id)
            framework_id = await live(scheduler, dice, did, min(ends_s, loop.time() + dice.random() * 2))
            way = dice.random()
            if way < 0.2 and framework_id is not None:
                await scheduler.call("TEARDOWN")
                did["torn down"] += 1
                framework_id = None
            elif way < 0.5:
                await asyncio.sleep(dice.random() * 2 * FAILOVER_S)  # may be too late
            elif way < 0.7:
                framework_id = None  # nobody comes back for this one
            did["hung up"] += 1
        except (aiohttp.ClientError, asyncio.TimeoutError, AssertionError):
            framework_id = None
            did["cut off"] += 1
        finally:
            await scheduler.close()


async def live(scheduler: Scheduler, dice: Random, did: Counter[str], until_s: float) -> str | None:
    """Answer what comes; return the framework's id, None when it was refused."""
    loop = asyncio.get_running_loop()
    while (left := until_s - loop.time()) > 0:
        try:
            event = await asyncio.wait_for(scheduler.events.get(), left)
        except asyncio.TimeoutError:
            break
        if event is None or event["type"] in ("ERROR", "REFUSED"):
            did["refused"] += 1
            return None
        if event["type"] == "SUBSCRIBED":
            scheduler.framework_id = event["subscribed"]["framework_id"]["value"]
            did["subscribed"] += 1
        elif event["type"] == "UPDATE" and "uuid" in event["update"]["status"]:
            if dice.random() < 0.9:
                await scheduler.acknowledge(event["update"]["status"])
        elif event["type"] == "OFFERS":
            for offer in event["offers"]["offers"]:
                await answer(scheduler, offer, dice, did)
        if dice.random() < 0.05:
            await scheduler.call(dice.choice(["REVIVE", "SUPPRESS", "REVIVE"]))
    return scheduler.framework_id or None


async def answer(scheduler: Scheduler, offer: Document, dice: Random, did: Counter[str]) -> None:
    filters = {"refuse_seconds": dice.choice([0.0, 0.1, 0.5])}
    if dice.random() < 0.4:
        await scheduler.call("DECLINE", {"offer_ids": [offer["id"]], "filters": filters})
        did["declined"] += 1
        return
    gpus = sum(r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus")
    asked = "cpus:0.5;mem:64" + (";gpus:1" if gpus >= 1 and dice.random() < 0.8 else "")
    tasks = [
        {
            "name": "t",
            "task_id": {"value": f"{offer['id']['value']}-{number}"},
            "agent_id": offer["agent_id"],
            "resources": resources_of("gpus:0.5" if dice.random() < 0.02 else asked),
            "command": {"value": "true"},
        }
        for number in range(dice.randint(1, 3))
    ]
    operations = [{"type": "LAUNCH", "launch": {"task_infos": tasks}}]
    await scheduler.call("ACCEPT", {"offer_ids": [offer["id"]], "operations": operations, "filters": filters})
    did["accepted"] += 1


async def soak(seconds: float, frameworks: int, agents: int, seed: int) -> Report:
    """Run it; `problem` of the report says what does not add up."""
    dice, report = Random(seed), Report()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with live_master(Path(folder), "--check_invariants", "--allocation_interval=50ms") as master:
            machines = [SoakAgent(master.url, Random(dice.random()), report.did) for _ in range(agents)]
            playing: list[asyncio.Task[None]] = []
            try:
                for machine in machines:
                    await machine.start()
                    await machine.register(AGENT)
                    playing.append(asyncio.create_task(machine.play()))
                playing.append(asyncio.create_task(_unrest(machines, dice)))
                ends_s = asyncio.get_running_loop().time() + seconds
                names = [f"f{number}" for number in range(frameworks)]
                lives = (framework(master.url, n, Random(dice.random()), report.did, ends_s) for n in names)
                await asyncio.gather(*lives)
                playing.pop().cancel()
                for machine in machines:
                    machine.come_back()
                state = master.engine.state
                if not master.engine.failed.done():
                    with contextlib.suppress(asyncio.TimeoutError):
                        await until(lambda: master.engine.failed.done() or _quiet(state, agents))
                report.problem = _verdict(state, agents, master.engine.failed)
            finally:
                for task in playing:
                    task.cancel()
                await asyncio.gather(*playing, return_exceptions=True)
                for machine in machines:
                    await machine.stop()
    report.seconds = time.monotonic() - began
    return report


async def _unrest(machines: list[SoakAgent], dice: Random) -> None:
    while True:
        await asyncio.sleep(dice.random() * 0.3)
        dice.choice(machines).come_back()


def _quiet(state: MasterState, agents: int) -> bool:
    return not state.frameworks and len(state.agents) == agents


def _verdict(state: MasterState, agents: int, failed: asyncio.Future[None]) -> str | None:
    if failed.done():
        return str(failed.exception())
    if not _quiet(state, agents):
        return f"{len(state.frameworks)} frameworks are still there, and {len(state.agents)} of {agents} agents"
    for agent in state.agents.values():
        if agent.free != agent.total or agent.total != Resources.parse(AGENT):
            return f"agent {agent.id}: of {agent.total} only {agent.free} is free"
    return broken(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--frameworks", type=int, default=200)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    report = asyncio.run(soak(asked.seconds, asked.frameworks, asked.agents, asked.seed))
    for what, count in sorted(report.did.items()):
        print(f"{count:8,} {what}")
    print(f"{report.seconds:.0f} s; {report.problem or 'used + free = total for every resource of every agent'}")
    if report.problem is not None:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
