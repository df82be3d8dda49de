"""A large cluster: a real master and a real Marathon, 5 000 simulated agents of 8 GPUs, 40 000 one-GPU tasks.

    ./run bench scale [--agents 5000] [--tasks 40000] [--apps 400] [--seconds 300] [--listeners 0] [--slow 10]
                      [--master_alone]

Three processes: mesos-gpu-master, mesos-gpu-marathon, and this one, which plays all agents over libprocess
(simulated_agents.py) and says TASK_RUNNING at once. All apps come in one PUT /v2/apps. A task counts as placed when its
agent has the acknowledgement of TASK_RUNNING: then the master knows, and Marathon has it on disk. It ends by itself
after --seconds, whatever was reached. Fewer --agents and --tasks are a quick look. With --listeners 100 a fourth
process listens a hundred times to /v2/events and a hundred times to the master's SUBSCRIBE; --slow of each never read.
Then all is done twice, without and with them, so that what they cost stands beside it. In both the definitions are
large enough (audience.py) for who never reads to be cut off, whatever --tasks is; it fails where one is not.
With --master_alone a scheduler that costs next to nothing (simulated_scheduler.py) is in Marathon's place, in the
process of the agents: what a task costs the master, whatever else the machine does.

Figures to hold it to: Kubernetes' CI asks 180 pods a second with extended resources at 5 000 nodes
(kubernetes/perf-tests), Slurm documents 500 jobs a second (high_throughput.html).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.audience import Outcome, compared, label_for, listening, peak_kib, talk
from benchmarks.kept.figures import figure
from benchmarks.marathon import MarathonProcess, until
from benchmarks.master import MasterProcess, rss_kib
from benchmarks.simulated_agents import Fleet
from benchmarks.simulated_scheduler import SimulatedScheduler

FLAGS = ("--max_instances_per_offer=20", "--max_running_deployments=1000", "--launch_tokens=1000")
FILES_PER_AGENT = 2
TICKS = os.sysconf("SC_CLK_TCK")
RATE_AIM, DECISION_AIM_MS = 500.0, 50.0


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has had."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def quantile(values: list[float], part: float) -> float:
    """Return the value below which this part of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else math.nan


@dataclass
class Course:
    """How a run went: acknowledged tasks over time, and what was measured beside."""

    began_s: float = field(default_factory=time.monotonic)
    marks: list[tuple[float, int]] = field(default_factory=list)
    meanwhile_ms: dict[str, list[float]] = field(default_factory=dict)
    decisions_ms: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The worst p99 and the longest of each kind of decision."""

    def mark(self, count: int) -> None:
        self.marks.append((time.monotonic() - self.began_s, count))

    def rate(self, first: float, last: float) -> float:
        """Return tasks a second between two parts of what was reached."""
        most = self.marks[-1][1]
        low = next(mark for mark in self.marks if mark[1] >= first * most)
        high = next(mark for mark in self.marks if mark[1] >= last * most)
        return (high[1] - low[1]) / (high[0] - low[0]) if high[0] > low[0] else math.nan

    def decided(self, name: str, p99_ms: float, longest_ms: float) -> None:
        known = self.decisions_ms.get(name, (0.0, 0.0))
        self.decisions_ms[name] = max(known[0], p99_ms), max(known[1], longest_ms)

    def note_allocation(self, metrics: dict[str, float]) -> None:
        """Take note of what a master says of its latest allocations."""
        run = "allocator/mesos/allocation_run_ms"
        if f"{run}/p99" in metrics:
            self.decided("master, one allocation", metrics[f"{run}/p99"], metrics[f"{run}/max"])


class Watch:
    """Looks at the run while it goes: progress, how long others wait for an answer, how long decisions take."""

    def __init__(self, fleet: Fleet, marathon: MarathonProcess, master_url: str) -> None:
        self._fleet, self._marathon, self._master_url = fleet, marathon, master_url
        self.course = Course()

    async def run(self) -> None:
        """Look until cancelled."""
        await asyncio.gather(self._progress(), self._answers(), self._decisions())

    async def _progress(self) -> None:
        while True:
            self.course.mark(self._fleet.acknowledged)
            await asyncio.sleep(0.1)

    async def _answers(self) -> None:
        asked = {
            "Marathon, GET /v2/info": f"{self._marathon.url}/v2/info",
            "master, GET /health": f"{self._master_url}/health",
        }
        while True:
            for name, url in asked.items():
                began = time.perf_counter()
                async with self._marathon.http.get(url) as answer:
                    await answer.read()
                self.course.meanwhile_ms.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
            await asyncio.sleep(0.1)

    async def _decisions(self) -> None:
        while True:
            await asyncio.sleep(10.0)
            await self.look()

    async def look(self) -> None:
        """Take note of what both programs say of their latest decisions."""
        async with self._marathon.http.get(f"{self._master_url}/metrics/snapshot") as answer:
            self.course.note_allocation(await answer.json())
        timers = (await self._marathon.call("GET", "/metrics"))["timers"]
        took = timers["marathon.decisions.duration.timer.seconds"]
        self.course.decided("Marathon, one event", took["p99"] * 1e3, took["max"] * 1e3)


async def run(asked: argparse.Namespace) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    need = FILES_PER_AGENT * asked.agents + 1000
    if limit != resource.RLIM_INFINITY and limit < need:
        sys.exit(f"{asked.agents} agents need {need} open files, and `ulimit -Hn` says {limit}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, limit))  # the master's, too
    without = await one_run(asked, 0)
    if asked.listeners and without is not None:
        print(f"The same, while {asked.listeners} listen to each:", flush=True)
        with_them = await one_run(asked, asked.listeners)
        assert with_them is not None
        sys.exit(compared(asked.listeners, without, with_them))


async def one_run(asked: argparse.Namespace, count: int) -> Outcome | None:
    """Have a cluster of its own do all of it while so many listen; return what came of it, of Marathon's."""
    async with MasterProcess() as master:
        assert master.process is not None
        empty_kib, began = master.rss_kib, time.monotonic()
        async with Fleet(master.url, asked.agents) as fleet:
            took, each_kib = time.monotonic() - began, (master.rss_kib - empty_kib) / asked.agents
            print(
                f"{asked.agents} agents registered in {took:.1f} s; the master has {each_kib:.1f} KiB for each",
                flush=True,
            )
            if not count:
                figure("KiB an agent", "memory of the master for an agent", each_kib, "KiB")
            if asked.master_alone:
                await alone(asked, fleet, master)
                return None
            async with MarathonProcess(master.url, *FLAGS) as marathon:
                assert marathon.process is not None
                await until(marathon.subscribed)
                served = {"master": master.process.pid, "Marathon": marathon.process.pid}
                async with listening(count, asked.slow, marathon.url, master.url) as listeners:
                    pids = {**served, "agents (all)": os.getpid(), **listeners.pids}
                    before = {name: (cpu_s(pid), rss_kib(pid)) for name, pid in pids.items()}
                    course = await place(asked, fleet, marathon, master.url)
                    processes = {name: used(pid, *before[name]) for name, pid in pids.items()}
                    report(asked, course, processes, (lambda *_, **__: None) if count else figure)
                    outcome = Outcome(
                        course.marks[-1][1],
                        {name: processes[name][0] for name in served},
                        {name: peak_kib(pid) for name, pid in served.items()},
                        course.meanwhile_ms,
                        await listeners.told(),
                    )
                await check(fleet, marathon)
                return outcome


async def alone(asked: argparse.Namespace, fleet: Fleet, master: MasterProcess) -> None:
    """Have all tasks placed by a scheduler that costs next to nothing, and print what each fifth cost the master."""
    assert master.process is not None
    pids = {"master": master.process.pid, "agents and scheduler": os.getpid()}
    before = {name: (cpu_s(pid), rss_kib(pid)) for name, pid in pids.items()}
    course, last = Course(), (0, before["master"][0])
    async with SimulatedScheduler(master.url, asked.tasks, asked.apps) as scheduler:
        for part in range(1, 6):
            wanted = asked.tasks * part // 5
            left_s = asked.seconds - (time.monotonic() - course.began_s)
            await fleet.until(lambda wanted=wanted: scheduler.lost.done() or fleet.acknowledged >= wanted, left_s)
            course.mark(fleet.acknowledged)
            now = fleet.acknowledged, cpu_s(master.process.pid)
            if now[0] > last[0]:
                each_ms = (now[1] - last[1]) / (now[0] - last[0]) * 1e3
                print(
                    f"  {last[0]:6} to {now[0]:6} acknowledged: {each_ms:.2f} ms of the master's processor time a task"
                )
            last = now
        async with aiohttp.ClientSession() as http, http.get(f"{master.url}/metrics/snapshot") as answer:
            course.note_allocation(await answer.json())
        report(asked, course, {name: used(pid, *before[name]) for name, pid in pids.items()})


def used(pid: int, cpu_before_s: float, kib_before: int) -> tuple[float, int, int]:
    """Return the processor seconds and KiB that a process has taken since, and the KiB that it has."""
    now_kib = rss_kib(pid)
    return cpu_s(pid) - cpu_before_s, now_kib - kib_before, now_kib


async def place(asked: argparse.Namespace, fleet: Fleet, marathon: MarathonProcess, master_url: str) -> Course:
    """Have all tasks placed, or as many as there is time for."""
    each = asked.tasks // asked.apps
    app: dict[str, Any] = {"cmd": "sleep 100000", "cpus": 0.5, "mem": 64, "gpus": 1, "instances": each}
    if asked.listeners:
        app["labels"] = label_for(each * asked.apps)
    documents = [{"id": f"/g{n % 20}/a{n}", **app} for n in range(asked.apps)]
    watch = Watch(fleet, marathon, master_url)
    watching = asyncio.ensure_future(watch.run())
    try:
        watch.course.began_s = time.monotonic()
        await marathon.call("PUT", "/v2/apps", documents)
        took_s = time.monotonic() - watch.course.began_s
        print(f"{asked.apps} apps of {each} instances accepted in {took_s:.2f} s", flush=True)
        if asked.listeners:
            await talk(marathon)
        await fleet.until(lambda: watching.done() or fleet.acknowledged >= each * asked.apps, asked.seconds)
        watch.course.mark(fleet.acknowledged)
        if watching.done():
            watching.result()
        await watch.look()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return watch.course


def report(
    asked: argparse.Namespace,
    course: Course,
    processes: dict[str, tuple[float, int, int]],
    keep: Callable[..., object] = figure,
) -> None:
    """Print what came of it, and have `keep` keep the figures."""
    took_s, placed = course.marks[-1]
    if not placed:
        sys.exit(f"nothing was placed in {took_s:.0f} s")
    rate = course.rate(0.1, 0.9)
    print(
        f"{placed} of {asked.tasks} tasks placed and RUNNING in {took_s:.1f} s: {placed / took_s:.0f}/s; "
        f"between a tenth and nine tenths of them {rate:.0f}/s (aim {RATE_AIM:.0f})"
    )
    what = f"tasks a second, {placed} one-GPU tasks on {asked.agents} agents"
    keep("tasks a second", what, rate, better="more", aim=RATE_AIM, aim_of="value")
    for name, (cpu, grown_kib, kib) in processes.items():
        each_ms, each_kib = cpu / placed * 1e3, grown_kib / placed
        print(
            f"  {name:16} {each_ms:6.2f} ms of processor a task ({cpu / took_s:.2f} cores), {each_kib:5.1f} KiB "
            f"a task, {kib / 1024:.0f} MiB resident"
        )
        keep(f"{name}, ms a task", f"processor time of the {name} for a task", each_ms, "ms")
        keep(f"{name}, KiB a task", f"memory of the {name} for a task", each_kib, "KiB")
    for name, (p99_ms, longest_ms) in course.decisions_ms.items():
        print(f"  {name}: p99 {p99_ms:.1f} ms (aim {DECISION_AIM_MS:.0f}), longest {longest_ms:.1f} ms")
        keep(f"{name}, p99", f"{name}, 99th of a hundred", p99_ms, "ms", aim=DECISION_AIM_MS, aim_of="value")
    for name, values in course.meanwhile_ms.items():
        print(
            f"  {name} meanwhile: median {quantile(values, 0.5):.1f} ms, p99 {quantile(values, 0.99):.1f}, "
            f"longest {max(values):.1f}"
        )


async def check(fleet: Fleet, marathon: MarathonProcess) -> None:
    """Hold what was counted here to what Marathon says."""
    shown = (await marathon.call("GET", "/v2/apps"))["apps"]
    running = sum(app["tasksRunning"] for app in shown)
    assert running >= fleet.acknowledged, (running, fleet.acknowledged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=5000)
    parser.add_argument("--tasks", type=int, default=40_000)
    parser.add_argument("--apps", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--listeners", type=int, default=0)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--master_alone", action="store_true")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
