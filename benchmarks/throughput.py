"""Tasks a second: one-GPU tasks of `true` through the v1 API on a whole box, beside Slurm's one-GPU jobs of `true`.

    ./run bench throughput [--tasks 100] [--gpus 4 16] [--rounds 3]

A framework over plain HTTP has so many tasks. It takes every offer it gets with as many of them as the offer has GPUs,
and acknowledges what it is told; the clock stops when the last TASK_FINISHED is read. Each task is a container: an OCI
runtime, cgroups, namespaces, a filter of system calls, checkpoints, a sandbox.

Slurm is Debian's (slurmctld, slurmd, slurm-client, munge; left out where it is not installed), a cluster of its own on
loopback with a node of 4 GPUs, see slurm.py: once as it comes, once told to start jobs at once (batch_sched_delay=0).
They take turns with ours, so that a busy machine slows both. Processor seconds are the whole machine's over the run, so
they mean something on a quiet machine only; on ours they include this program's own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.kept import figure
from benchmarks.launch import FRAMEWORK, NEEDS, Framework
from benchmarks.slurm import Slurm, missing, slurm
from mesos_gpu.local import UpOptions, down, status, up

AIMS = {4: 40.0, 16: 60.0}
SLURM_GPUS, SLURM_AIM = 4, 8.0


@dataclass
class Rates:
    """What was measured of one kind of run: tasks a second, and processor seconds of each."""

    name: str
    run: Callable[[int], float]
    per_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def measure(self, tasks: int) -> None:
        """Run so many tasks once."""
        before = busy_s()
        took = self.run(tasks)
        self.per_s.append(tasks / took)
        self.cpu_s.append((busy_s() - before) / tasks)

    def show(self) -> None:
        """Print the medians."""
        per_s, cpu_ms = statistics.median(self.per_s), statistics.median(self.cpu_s) * 1e3
        print(f"{self.name:40} {per_s:7.1f} a second   {cpu_ms:6.1f} ms of processors each   of {len(self.per_s)}")


def busy_s() -> float:
    """Return how long this machine's processors have been busy, all together."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")  # all but idle and iowait


class Stream(Framework):
    """A scheduler that runs tasks until none is left."""

    async def run_all(self, tasks: int) -> float:
        """Run so many; return the seconds from the first ACCEPT to the last TASK_FINISHED that was read."""
        waiting, running, began = tasks, set[str](), None
        calls: set[asyncio.Task[None]] = set()
        while waiting or running:
            kind, event = await self._any("OFFERS", "UPDATE")
            if kind == "UPDATE":
                state = event["status"]
                known = {key: state[key] for key in ("agent_id", "task_id", "uuid")}
                calls.add(asyncio.ensure_future(self._call("ACKNOWLEDGE", acknowledge=known)))
                if state["state"] == "TASK_FINISHED":
                    running.discard(state["task_id"]["value"])
                elif state["state"] not in ("TASK_STARTING", "TASK_RUNNING"):
                    raise SystemExit(f"a task ended: {state}")
                continue
            for offer in event["offers"]:
                gpus = sum(int(r["scalar"]["value"]) for r in offer["resources"] if r["name"] == "gpus")
                ids = [str(uuid.uuid4()) for _ in range(min(gpus, waiting))]
                waiting -= len(ids)
                running.update(ids)
                began = began or time.perf_counter()
                calls.add(asyncio.ensure_future(self._take(offer, ids)))
        took = time.perf_counter() - (began or 0.0)
        await asyncio.gather(*calls)
        return took

    async def _take(self, offer: dict[str, Any], ids: list[str]) -> None:
        refuse = {"filters": {"refuse_seconds": 0}}
        if not ids:
            await self._call("DECLINE", decline={"offer_ids": [offer["id"]], **refuse})
            return
        role = {"allocation_info": {"role": "benchmark"}}
        tasks = [
            {
                "name": "benchmark",
                "task_id": {"value": one},
                "agent_id": offer["agent_id"],
                "command": {"value": "true"},
                "resources": [{"name": n, "type": "SCALAR", "scalar": {"value": v}, **role} for n, v in NEEDS.items()],
            }
            for one in ids
        ]
        launch = {"type": "LAUNCH", "launch": {"task_infos": tasks}}
        await self._call("ACCEPT", accept={"offer_ids": [offer["id"]], "operations": [launch], **refuse})


async def _ours(master: str, tasks: int) -> float:
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        framework = Stream(session, master)
        await framework.subscribe()
        try:
            return await framework.run_all(tasks)
        finally:
            await framework.teardown()


@contextmanager
def box(folder: Path, gpus: int) -> Iterator[Callable[[int], float]]:
    """Run a box with so many simulated GPUs; yield what runs so many tasks on it."""
    options = UpOptions(
        work_dir=folder, master_port=0, agent_port=0, marathon_port=0, simulated_gpus=gpus, detach=True, open=True
    )
    up(options)
    try:
        master = status(folder)["master"]["url"]
        yield lambda tasks: asyncio.run(_ours(master, tasks))
    finally:
        down(folder, keep_tasks=False)


def measure(folder: Path, gpus: int, tasks: int, rounds: int) -> float:
    """Measure a box with so many GPUs and, where it is the size of its node, Slurm; return the ratio to Slurm."""
    with ExitStack() as closing:
        ours = Rates(f"mesos-gpu, {gpus} GPUs", closing.enter_context(box(folder / "box", gpus)))
        kinds, slurms = [ours], []
        if gpus == SLURM_GPUS and not missing():
            for name, at_once in (("Slurm as it comes", False), ("Slurm, jobs at once", True)):
                one: Slurm = closing.enter_context(slurm(folder / f"slurm-{at_once}", gpus, at_once=at_once))
                slurms.append(Rates(f"{name}, {gpus} GPUs", one.run))
        for kind in (*kinds, *slurms):
            kind.run(2 * gpus)  # what is done once, is done
        for _ in range(rounds):
            for kind in (*kinds, *slurms):
                kind.measure(tasks)
        for kind in (*kinds, *slurms):
            kind.show()
        aim = AIMS.get(gpus)
        if aim is not None:
            note = f"{statistics.median(ours.cpu_s) * 1e3:.0f} ms of processors each"
            what = f"1-GPU tasks of `true` a second on {gpus} GPUs, median of {rounds} times {tasks}"
            figure(f"{gpus} GPUs", what, statistics.median(ours.per_s), better="more", aim=aim, note=note)
            print(f"  aim: {aim:g} a second: {'reached' if statistics.median(ours.per_s) >= aim else 'NOT reached'}")
        for other in slurms:
            ratio = statistics.median(ours.per_s) / statistics.median(other.per_s)
            cpu = statistics.median(ours.cpu_s) / statistics.median(other.cpu_s)
            figure(
                f"to {other.name}",
                "the same",
                statistics.median(ours.per_s),
                beside=(f"{other.name}, {statistics.median(other.cpu_s) * 1e3:.0f} ms", statistics.median(other.per_s)),
                better="more",
                aim=SLURM_AIM,
            )
            print(f"  ratio to {other.name}: {ratio:.1f} (aim: {SLURM_AIM:g}); of processor time each: {cpu:.2f}")
        if gpus == SLURM_GPUS and missing():
            print(f"  no Slurm: {', '.join(missing())} missing; apt-get install slurmctld slurmd slurm-client munge")
    return statistics.median(ours.per_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--gpus", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    FRAMEWORK["name"] = "throughput"
    for gpus in options.gpus:
        with tempfile.TemporaryDirectory(prefix="mesos-gpu-benchmark-") as name:
            measure(Path(name), gpus, options.tasks, options.rounds)
    print(f"load now: {Path('/proc/loadavg').read_text().split()[0]}")


if __name__ == "__main__":
    main()
