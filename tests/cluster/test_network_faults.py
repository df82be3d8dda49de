"""Agent and master in two network namespaces, the link between them cut and healed at random while tasks come and go.

The suite has ten seconds of it; MESOS_GPU_FAULT_SECONDS=60 makes it a minute. What fails says its seed and all that
happened; MESOS_GPU_FAULT_SEED plays its cuts and kills again.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.mesos.resource import Document
from tests.cluster.network import Cable, Place
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler

SECONDS = float(os.environ.get("MESOS_GPU_FAULT_SECONDS", "10"))
SEED = int(os.environ.get("MESOS_GPU_FAULT_SEED", "0")) or random.randrange(1, 10**6)
PATIENCE_S = 100.0
FINAL = {"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_GONE", "TASK_DROPPED"}


class Books:
    """A scheduler that keeps 3 one-GPU tasks going, acknowledges all, and remembers what it was told."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.told: dict[str, list[str]] = {}
        self.launched: list[str] = []
        self.launching = True
        self.agent_id = ""
        self.news = asyncio.Event()
        self.dice = random.Random(SEED)
        # All that happened, with the seconds since the start.
        self.history: list[str] = []
        self._began_s = asyncio.get_running_loop().time()

    def note(self, what: str) -> None:
        self.history.append(f"{asyncio.get_running_loop().time() - self._began_s:7.3f} {what}")

    def story(self, log: Path) -> str:
        """What to read when something is wrong, and how to see it again."""
        again = f"MESOS_GPU_FAULT_SEED={SEED} MESOS_GPU_FAULT_SECONDS={SECONDS:g}"
        happened = "\n".join(self.history)
        logs = "\n".join(f"{path.name}:\n{path.read_text()[-8000:]}" for path in (log, log.with_name("master.log")))
        return f"again with {again}\n{happened}\n{logs}"

    @property
    def alive(self) -> set[str]:
        return {task for task in self.launched if not FINAL & set(self.told.get(task, [])[-1:])}

    def runs(self, tasks: list[str]) -> bool:
        return any("TASK_RUNNING" in self.told.get(task, []) for task in tasks)

    async def run(self) -> None:
        while (event := await self.scheduler.events.get()) is not None:
            if event["type"] == "OFFERS":
                for offer in event["offers"]["offers"]:
                    await self._answer(offer)
            elif event["type"] == "UPDATE":
                status = event["update"]["status"]
                self.told.setdefault(status["task_id"]["value"], []).append(status["state"])
                words = [status[key] for key in ("state", "source", "reason", "uuid") if key in status]
                self.note(f"{status['task_id']['value']} {' '.join(words)}")
                if status.get("uuid"):
                    await self.scheduler.acknowledge(status)
            self.news.set()

    async def _answer(self, offer: Document) -> None:
        gpus = sum(r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus")
        count = min(int(gpus), 3 - len(self.alive)) if self.launching else 0
        self.agent_id = offer["agent_id"]["value"]
        tasks = [self._task(offer, len(self.launched) + number) for number in range(count)]
        if tasks:
            self.launched += [task["task_id"]["value"] for task in tasks]
            self.note(f"launched {', '.join(self.launched[-len(tasks) :])}")
            await self.scheduler.launch(offer, *tasks, refuse_s=0.2)
        else:
            body = {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0.2}}
            await self.scheduler.call("DECLINE", body)

    def _task(self, offer: Document, number: int) -> Document:
        name = f"t{number}"
        needs = {"cpus": 0.1, "mem": 32.0, "gpus": 1.0}
        return {
            "name": name,
            "task_id": {"value": name},
            "agent_id": offer["agent_id"],
            "command": {"value": f"sleep {random.Random(SEED + number).choice(['0.3', '2', '1000'])}"},
            "resources": [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in needs.items()],
        }

    async def ask(self) -> None:
        """Reconcile what was lost with its agent: if that came back without it, only who asks hears of it.

        Of a KILL, which names no agent, the master then knows nothing to say but TASK_UNKNOWN.
        """
        lost = [task for task in self.alive if self.told.get(task, [""])[-1] in ("TASK_UNREACHABLE", "TASK_UNKNOWN")]
        if lost:
            named = [{"task_id": {"value": task}, "agent_id": {"value": self.agent_id}} for task in lost]
            await self.scheduler.call("RECONCILE", {"tasks": named})

    async def kill_one(self) -> None:
        one = self.dice.random()
        alive = sorted(self.alive, key=self.launched.index)
        if alive:
            task = alive[int(one * len(alive))]
            self.note(f"killing {task}")
            await self.scheduler.call("KILL", {"task_id": {"value": task}})


@asynccontextmanager
async def program(place: Place, module: str, log: Path, end: signal.Signals, *flags: str) -> AsyncIterator[None]:
    """One of our programs in a network namespace, serving on all of its addresses, until left."""
    ready = log.with_suffix(".ready")
    words = [sys.executable, "-m", module, "--ip=0.0.0.0", "--insecure", f"--ready_file={ready}", *flags]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*place.command(*words), stdout=file, stderr=file)
    try:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not ready.exists():
            assert process.returncode is None, log.read_text()
            assert asyncio.get_running_loop().time() < deadline, log.read_text()
            await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(end)
            try:
                await asyncio.wait_for(process.wait(), PATIENCE_S)
            except (asyncio.TimeoutError, TimeoutError):
                process.kill()
                await process.wait()


@pytest.mark.root
@pytest.mark.timeout(SECONDS + 2 * PATIENCE_S)
async def test_both_sides_agree_about_every_task_and_gpu_when_the_link_is_whole_again(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    master_flags = (
        "--port=5050",
        f"--work_dir={tmp_path / 'master'}",
        "--agent_ping_timeout=1secs",
        "--max_agent_ping_timeouts=3",
        "--check_invariants",
    )
    agent_flags = (
        "--port=5051",
        f"--work_dir={tmp_path / 'work'}",
        "--gpu_driver=simulated",
        "--resources=cpus:4;mem:4096;disk:1024",
        f"--cgroups_root=mesos-test-{uuid.uuid4().hex[:12]}",
        "--registration_backoff_factor=200ms",
    )
    with Cable() as cable:
        master_flags += (f"--advertise_ip={cable.master_ip}",)
        agent_flags += (f"--advertise_ip={cable.agent_ip}", f"--master={cable.master_ip}:5050")
        master = f"http://{cable.master.watched}:5050"
        async with AsyncExitStack() as stack:
            one = program(
                cable.master, "mesos_gpu.master.service", tmp_path / "master.log", signal.SIGTERM, *master_flags
            )
            await stack.enter_async_context(one)
            other = program(cable.agent, "mesos_gpu.agent.service", log, signal.SIGUSR1, *agent_flags)
            await stack.enter_async_context(other)
            stack.callback(cable.heal)
            scheduler = Scheduler(master)
            stack.push_async_callback(scheduler.close)
            books = Books(scheduler)
            await scheduler.subscribe(framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE"))
            running = asyncio.create_task(books.run())
            stack.callback(running.cancel)
            await _until(lambda: books.runs(books.launched), books, log)
            await _shake(cable, books)
            books.launching = False
            await _agreed(cable, master, books, log)
            await _still_works(books, log)


async def _shake(cable: Cable, books: Books) -> None:
    """Cut and heal for SECONDS, with kills in between; whole at the end."""
    end = asyncio.get_running_loop().time() + SECONDS
    while asyncio.get_running_loop().time() < end:
        books.note("cut")
        cable.cut()
        await asyncio.sleep(books.dice.choice([0.1, 0.5, 1.5, 4.5]))
        books.note("healed")
        cable.heal()
        await asyncio.sleep(books.dice.choice([0.1, 0.5, 1.5]))
        await books.kill_one()


async def _until(true: Any, books: Books, log: Path) -> None:
    async def wait() -> None:
        while not true():
            books.news.clear()
            await books.news.wait()

    try:
        await asyncio.wait_for(wait(), PATIENCE_S)
    except (asyncio.TimeoutError, TimeoutError):
        raise AssertionError(f"it does not happen; {books.story(log)}") from None


async def _agreed(cable: Cable, master: str, books: Books, log: Path) -> None:
    """Wait until scheduler, master and agent say the same of every task, and of every GPU."""
    seen: Any = None
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < deadline:
            try:
                here = await _json(http, f"{master}/state")
                there = await _json(http, f"http://{cable.agent.watched}:5051/state")
                gpus = await _json(http, f"http://{cable.agent.watched}:5051/gpus")
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                seen = error
                continue
            seen = _views(here, there, gpus, books)
            if all(view == seen[0] for view in seen) and here["slaves"][0]["active"]:
                return
            await books.ask()
            await asyncio.sleep(0.2)  # nobody tells when two programs have come to agree
    raise AssertionError(f"they do not agree: {seen}; {books.story(log)}")


def _views(here: Any, there: Any, gpus: Any, books: Books) -> list[tuple[list[str], int]]:
    """What runs and how many GPUs it holds: by the scheduler, the master and the agent."""
    masters = [t["id"] for f in here["frameworks"] for t in f["tasks"] + f["unreachable_tasks"]]
    executors = [e for f in there["frameworks"] for e in f["executors"]]
    agents = [t["id"] for e in executors for t in (*e["tasks"], *e["queued_tasks"])]
    used = [int(agent["used_resources"]["gpus"]) for agent in here["slaves"]]
    held = sum("container_id" in gpu for gpu in gpus)
    return [
        (sorted(books.alive), len(books.alive)),
        (sorted(masters), sum(used)),
        (sorted(agents), held),
    ]


async def _still_works(books: Books, log: Path) -> None:
    """After all that, all four GPUs can be had: nothing leaked."""
    for task in sorted(books.alive):
        await books.scheduler.call("KILL", {"task_id": {"value": task}})
    await _until(lambda: not books.alive, books, log)
    before = len(books.launched)
    books.launching = True
    await _until(
        lambda: "TASK_RUNNING" in [s for t in books.launched[before:] for s in books.told.get(t, [])], books, log
    )


async def _json(http: aiohttp.ClientSession, url: str) -> Any:
    async with http.get(url) as response:
        return await response.json()
