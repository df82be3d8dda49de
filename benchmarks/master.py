"""The master with many agents: what an allocation costs, tasks per second, memory.

    ./run bench master [--agents 100 1000 10000] [--frameworks 50] [--rounds 20]

Agents are simulated: 8 GPUs each, registered in the state machine without a wire. All are full, of tasks of all
frameworks. Then tasks end on k agents and one allocation follows, again and again. The baseline is
`benchmarks/full_scan.py`, which decides the same by looking at everything; both must agree. The same once more with
quota: of the ten roles four have a guarantee, one of them more than it has, four a limit, one of them what it has. (The
full scan adds up all that is held for each agent and framework then, so that few agents are held to it.) Then the same
state machine launches, updates and acknowledges tasks as fast as it can; a real master process does it over HTTP and
libprocess with one agent; and a real master process holds idle frameworks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from benchmarks.full_scan import decided
from benchmarks.kept import figure
from mesos_gpu.master.decisions.agents import admit
from mesos_gpu.master.decisions.handle import handle
from mesos_gpu.master.decisions.offering import held_by_role
from mesos_gpu.master.events.agents import StatusUpdate
from mesos_gpu.master.events.operators import UpdateQuota
from mesos_gpu.master.events.schedulers import Accept, Acknowledge, Subscribe
from mesos_gpu.master.events.timers import Allocate
from mesos_gpu.master.model.model import Agent, Framework, Offer
from mesos_gpu.master.model.report import Report
from mesos_gpu.master.state.actions import SendEvent, Store
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import NOW, RULES, UUID, framework_info, new_state, resources_of, status
from tests.support.master.live import Scheduler, ScriptedAgent, soon

CHANGED = (1, 10, 100)
ALLOCATION_AIM_MS = 20.0
"""100 of 10 000 agents changed."""
QUOTA_SCANNED = 100
"""With so many agents at most the full scan is tried where roles have quota."""
AGENT = Resources.parse("cpus:16;mem:65536;disk:100000;gpus:8;ports:[31000-32000]").to_json()
A_TASK = resources_of("cpus:2;mem:8192;gpus:1")
CAPABILITIES = ("MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT")
ROLES = 10
LONG_S = 1e6


class Cluster:
    """A state machine with many agents and frameworks, and the hand that plays them."""

    def __init__(self, agents: int, frameworks: int) -> None:
        self.state = MasterState(new_state().master_info, Settings(RULES), NOW)
        self.made = 0
        for number in range(agents):
            ip = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
            info = {"hostname": f"agent-{number}", "port": 5051, "resources": AGENT}
            report = Report(f"slave(1)@{ip}:5051", info, "1.12.0", CAPABILITIES, True, UUID)
            admit(self.state, report, self.state.ids.agent(), NOW)
        for number in range(frameworks):
            info = framework_info(f"f{number}", role=f"role{number % ROLES}/team{number % 3}")
            handle(self.state, Subscribe(f"stream-{number}", {"framework_info": info}), NOW)

    def set_quota(self) -> None:
        """Give roles guarantees and limits, by what they hold: most are within, one is short and one at its limit."""
        held = {role: resources.gpus for role, resources in held_by_top(self.state).items()}
        roles = sorted(held)
        configs = [
            {"role": role, "guarantees": {"gpus": {"value": held[role] + (100 if at == 0 else -1)}}}
            for at, role in enumerate(roles[:4])
        ]
        configs += [
            {"role": role, "limits": {"gpus": {"value": held[role] + (0 if at == 0 else 1000)}}}
            for at, role in enumerate(roles[4:8])
        ]
        for action in handle(self.state, UpdateQuota({"force": True, "quota_configs": configs}), NOW):
            if isinstance(action, Store):
                handle(self.state, action.then, NOW)
        assert len(self.state.policy.quotas) == 8

    def allocate(self) -> list[Offer]:
        """Return the offers that were made."""
        actions = handle(self.state, Allocate(), NOW)
        return [
            self.state.frameworks[document["framework_id"]["value"]].offers[document["id"]["value"]]
            for action in actions
            if isinstance(action, SendEvent) and action.event["type"] == "OFFERS"
            for document in action.event["offers"]["offers"]
        ]

    def accept(self, offer: Offer, tasks: int) -> list[Document]:
        """Launch tasks of one GPU each, and an eighth of all else."""
        infos = []
        for _ in range(tasks):
            self.made += 1
            infos.append(
                {
                    "name": "t",
                    "task_id": {"value": f"t{self.made}"},
                    "agent_id": {"value": offer.agent_id},
                    "resources": A_TASK,
                    "command": {"value": "true"},
                }
            )
        operation = {"type": "LAUNCH", "launch": {"task_infos": infos}}
        filters = {"refuse_seconds": LONG_S}
        body = {"offer_ids": [{"value": offer.id}], "operations": [operation], "filters": filters}
        handle(self.state, Accept(offer.framework_id, body), NOW)
        return infos

    def fill(self) -> None:
        """Accept all of what is offered until nothing is."""
        while True:
            self.allocate()
            out = [offer for framework in self.state.frameworks.values() for offer in framework.offers.values()]
            if not out:
                return
            for offer in out:
                self.accept(offer, offer.resources.gpus)

    def end(self, agent: Agent, framework: Framework, task_id: str) -> None:
        """A task ends, and its framework acknowledges that."""
        end = status(agent, task_id, "TASK_FINISHED")
        handle(self.state, StatusUpdate(agent.id, framework.id, end, "TASK_FINISHED"), NOW)
        body = {"agent_id": {"value": agent.id}, "task_id": {"value": task_id}, "uuid": UUID}
        handle(self.state, Acknowledge(framework.id, body), NOW)

    def change(self, count: int, turn: int) -> None:
        """One task ends on each of `count` agents."""
        agents = list(self.state.agents.values())
        step = max(1, len(agents) // count)
        for number in range(min(count, len(agents))):
            agent = agents[(turn + number * step) % len(agents)]
            if agent.tasks:
                framework_id, task_id = next(iter(agent.tasks))
                self.end(agent, self.state.frameworks[framework_id], task_id)


def held_by_top(state: MasterState) -> dict[str, Resources]:
    """Return what each role and those below it hold."""
    found: dict[str, Resources] = {}
    for role, resources in held_by_role(state).items():
        top = role.partition("/")[0]
        found[top] = found.get(top, Resources()) + resources.unallocated()
    return found


def timed(call: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    answer = call()
    return (time.perf_counter() - began) * 1e3, answer


def cycles(cluster: Cluster, count: int, rounds: int, scratch_rounds: int) -> tuple[float, float | None, int]:
    """Return the medians, in ms, of our allocation and of that from scratch, and how much was given."""
    ours, theirs, given = [], [], 0
    for turn in range(rounds):
        cluster.change(count, turn)
        expected = None
        if turn < scratch_rounds:
            duration, expected = timed(lambda: decided(cluster.state))
            theirs.append(duration)
        ours.append(timed(cluster.allocate)[0])
        offers = [o for f in cluster.state.frameworks.values() for o in f.offers.values()]
        given += len(offers)
        if isinstance(expected, list):
            found = {(o.agent_id, o.role, o.framework_id): o.resources.unallocated() for o in offers}
            assert found == {(a.agent_id, *a.client.key): a.resources for a in expected}, "the two disagree"
        for offer in offers:
            cluster.accept(offer, 1)
        cluster.allocate()
    return statistics.median(ours), statistics.median(theirs) if theirs else None, given // rounds


def with_quota(cluster: Cluster, agents: int, rounds: int) -> None:
    """Print what one allocation takes where roles have quota."""
    cluster.set_quota()
    for count in [count for count in CHANGED if count <= agents]:
        ours, theirs, given = cycles(cluster, count, rounds, 1 if agents <= QUOTA_SCANNED else 0)
        beside = None if theirs is None else ("full scan", theirs)
        what = f"one allocation with quota, {agents} agents, {count} of them changed"
        aim = ALLOCATION_AIM_MS if (agents, count) == (10_000, 100) else None
        figure(f"{agents} agents, {count}, quota", what, ours, "ms", beside=beside, aim=aim, aim_of="value")
        scanned = "" if theirs is None else f" {theirs:9.1f} ms {theirs / ours:8.0f}"
        print(f"{agents:7} {count:8} {given:7} {ours:8.2f} ms{scanned} (quota)", flush=True)


def throughput(cluster: Cluster, seconds: float) -> float:
    """Return tasks a second through the state machine: launched, updated twice, acknowledged twice."""
    cluster.state.filters = type(cluster.state.filters)(1.0)
    cluster.state.allocation_due = True
    for framework in cluster.state.frameworks.values():
        for task in list(framework.tasks.values()):
            cluster.end(cluster.state.agents[task.agent_id], framework, task.id)
    out = deque(cluster.allocate())
    done, began = 0, time.perf_counter()
    while out and time.perf_counter() - began < seconds:
        for _ in range(min(50, len(out))):
            offer = out.popleft()
            agent, framework = cluster.state.agents[offer.agent_id], cluster.state.frameworks[offer.framework_id]
            for info in cluster.accept(offer, 8):
                task_id = info["task_id"]["value"]
                running = status(agent, task_id, "TASK_RUNNING")
                handle(cluster.state, StatusUpdate(agent.id, framework.id, running, "TASK_RUNNING"), NOW)
                body = {"agent_id": {"value": agent.id}, "task_id": {"value": task_id}, "uuid": UUID}
                handle(cluster.state, Acknowledge(framework.id, body), NOW)
                cluster.end(agent, framework, task_id)
                done += 1
        cluster.state.filters.expire(2 * LONG_S)
        out.extend(cluster.allocate())
    return done / (time.perf_counter() - began)


def rss_kib(pid: int) -> int:
    """Return a process' resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class MasterProcess:
    """A master as a process of its own, on a free port."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.process: asyncio.subprocess.Process | None = None
        self.url = ""

    async def __aenter__(self) -> MasterProcess:
        ready = Path(self._folder.name) / "ready"
        words = [f"--work_dir={self._folder.name}", "--port=0", f"--ready_file={ready}"]
        program = [sys.executable, "-m", "mesos_gpu.master.service", *words]
        self.process = await asyncio.create_subprocess_exec(*program, stderr=asyncio.subprocess.DEVNULL)
        for _ in range(1000):
            if ready.exists() and ready.read_text():
                break
            await asyncio.sleep(0.01)
        self.url = json.loads(ready.read_text())["url"]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.terminate()
            await self.process.wait()
        self._folder.cleanup()

    @property
    def rss_kib(self) -> int:
        assert self.process is not None
        return rss_kib(self.process.pid)


async def over_the_wire(tasks: int) -> tuple[float, int, int]:
    """Return tasks a second through a real master, its memory before, and after."""
    async with MasterProcess() as master:
        before = master.rss_kib
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        await agent.start()
        try:
            await agent.register("cpus:10000;mem:100000000;gpus:10000")
            await scheduler.subscribe()
            offer = await scheduler.offer()
            infos = [
                {
                    "name": "t",
                    "task_id": {"value": f"t{number}"},
                    "agent_id": offer["agent_id"],
                    "resources": A_TASK,
                    "command": {"value": "true"},
                }
                for number in range(tasks)
            ]
            began = time.perf_counter()
            await scheduler.launch(offer, *infos)  # type: ignore[arg-type]
            for _ in range(tasks):
                run = await agent.message("RunTaskMessage", ("StatusUpdateAcknowledgementMessage",))
                agent.update(run, "TASK_RUNNING")
            acknowledged = []
            for number in range(2 * tasks):
                told = await scheduler.status()
                acknowledged.append(asyncio.create_task(scheduler.acknowledge(told)))
                if number < tasks:
                    run = {"task": {"task_id": told["task_id"]}, "framework": {"id": {"value": scheduler.framework_id}}}
                    agent.update(run, "TASK_FINISHED", uuid="v0G8fQ3UQTWlVmX1PbUoWA==")
            await asyncio.gather(*acknowledged)
            took = time.perf_counter() - began
            return tasks / took, before, master.rss_kib
        finally:
            await scheduler.close()
            await agent.stop()


async def idle_frameworks(count: int) -> float:
    """Return KiB of a master process per idle framework with an open stream."""
    async with MasterProcess() as master:
        schedulers = [Scheduler(master.url) for _ in range(count + 10)]
        try:
            for scheduler in schedulers[:10]:
                await soon(scheduler.subscribe())
            before = master.rss_kib
            for scheduler in schedulers[10:]:
                await soon(scheduler.subscribe())
            return (master.rss_kib - before) / count
        finally:
            for scheduler in schedulers:
                await scheduler.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--frameworks", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=500, help="over the wire")
    parser.add_argument("--idle", type=int, default=200, help="idle frameworks")
    asked = parser.parse_args()
    print(f"one allocation, {asked.frameworks} frameworks, medians of {asked.rounds} (full scan: of fewer)")
    print(f"{'agents':>7} {'changed':>8} {'offers':>7} {'ours':>11} {'full scan':>12} {'ratio':>8}")
    for agents in asked.agents:
        cluster = Cluster(agents, asked.frameworks)
        filled = timed(cluster.fill)[0]
        gc.collect()
        gc.freeze()
        for count in [count for count in CHANGED if count <= agents]:
            ours, theirs, given = cycles(cluster, count, asked.rounds, 1 if agents > 1000 else 3)
            assert theirs is not None
            what = f"one allocation, {agents} agents, {count} of them changed"
            figure(
                f"{agents} agents, {count}",
                what,
                ours,
                "ms",
                beside=("full scan", theirs),
                aim=ALLOCATION_AIM_MS if (agents, count) == (10_000, 100) else None,
                aim_of="value",
            )
            print(f"{agents:7} {count:8} {given:7} {ours:8.2f} ms {theirs:9.1f} ms {theirs / ours:8.0f}", flush=True)
        with_quota(cluster, agents, asked.rounds)
        cluster = Cluster(agents, asked.frameworks)
        cluster.fill()
        rate = throughput(cluster, 3.0)
        print(f"{agents:7} agents: {rate:,.0f} tasks/s launched, run, ended, each status acknowledged (no wire)")
        what = f"tasks a second through the state machine alone, {agents} agents"
        figure(f"state machine, {agents} agents", what, rate, better="more")
        print(
            f"{agents:7} agents: filled in {filled / 1e3:.1f} s; {rss_kib(os.getpid()) / 1024:.0f} MiB resident",
            flush=True,
        )
        del cluster
        gc.unfreeze()
    rate, before, after = asyncio.run(over_the_wire(asked.tasks))
    figure("wire", f"tasks a second over HTTP and libprocess, {asked.tasks} tasks", rate, better="more")
    print(
        f"over HTTP and libprocess: {rate:,.0f} tasks/s; master {before / 1024:.0f} -> {after / 1024:.0f} MiB resident"
    )
    print(f"{asyncio.run(idle_frameworks(asked.idle)):.1f} KiB per idle framework with an open stream")


if __name__ == "__main__":
    main()
