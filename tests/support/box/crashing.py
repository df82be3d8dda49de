"""What the crash test works with: a scripted framework, an agent program that is killed, and what is left of both."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mesos_gpu.mesos.tasks import is_terminal
from mesos_gpu.testing.client import ForkServerClient
from mesos_gpu.testing.plan import Program, cgroups_prefix
from tests.support.box.live import PLAYER, PLAYS_ON_S
from tests.support.master.build import framework_info, task_info
from tests.support.master.live import Scheduler

PATIENCE_S = 60.0
RUNS_ON = "exec sleep 600"
GPU_MAJOR = 195


@dataclass
class Story:
    """One task as its framework knows it: what it will do, and every status it was told."""

    task_id: str
    exit_status: int | None
    """None: it runs until it is killed."""
    killed: bool = False
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By uuid: a status that is sent twice is one status."""
    deliveries: int = 0

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [status for status in self.statuses.values() if is_terminal(status["state"])]

    @property
    def over(self) -> bool:
        return bool(self.ends)

    @property
    def running(self) -> bool:
        return not self.over and any(status["state"] == "TASK_RUNNING" for status in self.statuses.values())


class Framework:
    """Takes every GPU it is offered for a task of its own; ends some of its tasks, acknowledges every status."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self.stories: dict[str, Story] = {}
        self.launches = True
        self.news = asyncio.Event()
        self._chance = chance
        self._scheduler = Scheduler(url)
        self._playing: asyncio.Task[None] | None = None
        self._agents: dict[str, dict[str, Any]] = {}

    async def start(self) -> None:
        capabilities = "GPU_RESOURCES PARTITION_AWARE"
        await self._scheduler.subscribe(framework_info("crashes", capabilities=capabilities, failover_timeout=3600.0))
        self._playing = asyncio.create_task(self._play())

    async def close(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)
        await self._scheduler.close()

    async def kill_one(self) -> None:
        """Kill a task that runs, if there is one."""
        running = [story for story in self.stories.values() if story.running and not story.killed]
        if running:
            await self.kill(self._chance.choice(running))

    async def kill(self, story: Story) -> None:
        story.killed = True
        await self._scheduler.call("KILL", {"task_id": {"value": story.task_id}, "agent_id": self._agents["any"]})

    async def until(self, what: str, holds: Any, patience_s: float = PATIENCE_S) -> None:
        async def wait() -> None:
            while not holds():
                self.news.clear()
                await self.news.wait()

        if self._playing is not None and self._playing.done():
            self._playing.result()
        try:
            await asyncio.wait_for(wait(), patience_s)
        except (TimeoutError, asyncio.TimeoutError):
            raise AssertionError(f"{what}: not within {patience_s:g} s") from None

    async def _play(self) -> None:
        while (event := await self._scheduler.events.get()) is not None:
            if event["type"] == "OFFERS":
                for offer in event["offers"]["offers"]:
                    await self._use(offer)
            elif event["type"] == "UPDATE":
                await self._note(event["update"]["status"])
            elif event["type"] == "ERROR":
                raise AssertionError(event)
            self.news.set()

    async def _use(self, offer: dict[str, Any]) -> None:
        self._agents["any"] = offer["agent_id"]
        gpus = sum(int(r["scalar"]["value"]) for r in offer["resources"] if r["name"] == "gpus")
        if not self.launches:
            await self._scheduler.call("DECLINE", {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0.2}})
            return
        tasks = [self._new_task(offer) for _ in range(gpus)]
        await self._scheduler.launch(offer, *tasks, refuse_s=0.05)

    def _new_task(self, offer: dict[str, Any]) -> dict[str, Any]:
        task_id = f"t{len(self.stories):04d}"
        status = self._chance.choice([None, 0, 0, *range(1, 6)])
        self.stories[task_id] = Story(task_id, status)
        life_s = self._chance.uniform(0.0, 2.0)
        line = RUNS_ON if status is None else f"sleep {life_s:.3f}; exit {status}"
        agent = type("AnAgent", (), {"id": offer["agent_id"]["value"]})
        return task_info(agent, task_id, "cpus:0.01;mem:32;gpus:1", command={"value": line})  # type: ignore[arg-type]

    async def _note(self, status: dict[str, Any]) -> None:
        story = self.stories[status["task_id"]["value"]]
        story.deliveries += 1
        story.statuses[status.get("uuid", f"unsigned {story.deliveries}")] = status
        if "uuid" in status:
            await self._scheduler.acknowledge(status)


class Victim:
    """The agent program on one work_dir, killed and started again as often as asked.

    It is forked from a process that has read Python's modules already, which takes longer than all that it then does:
    so a kill soon after a start meets it at its work.
    """

    def __init__(self, folder: Path, master: str, gpus: int, *flags: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.work_dir, self.runtime_dir = folder / "work", folder / "run"
        self.ready, self.log = folder / "ready.json", folder / "agent.log"
        self.cgroups_root = f"{cgroups_prefix(folder)}1"
        self.port = self.pid = 0
        self.status: int | None = None
        """How it ended; None while it runs."""
        self._flags = (
            *(f"--master={master.removeprefix('http://')}", f"--work_dir={self.work_dir}"),
            *(f"--runtime_dir={self.runtime_dir}", f"--cgroups_root={self.cgroups_root}"),
            *("--gpu_driver=simulated", f"--simulated_gpus={gpus}", "--resources=cpus:16;mem:8192;disk:1024"),
            *("--registration_backoff_factor=10ms", f"--simulated_gpu_faults={folder / 'faults'}"),
            *flags,
        )
        self._fork_server = ForkServerClient(folder / "fork-server.log")

    def faults(self, text: str) -> None:
        """Say what is wrong with its simulated GPUs from now on: lines of `GPU XID`."""
        written = self.folder / "faults.new"
        written.write_text(text)
        written.replace(self.folder / "faults")

    async def spawn(self) -> None:
        self.status = None
        files = (str(self.ready), str(self.log))
        program = Program("agent", "mesos_gpu.agent.service", "port", self._flags, *files, self.port)
        self.pid = await asyncio.to_thread(self._fork_server.start, self.folder, program)

    async def until_ready(self) -> None:
        """Wait until the master knows it; it must not end by itself."""

        async def wait() -> None:
            while not self.ready.exists():
                self.status = await asyncio.to_thread(self._fork_server.wait, self.folder, "agent", 0.01)
                assert self.status is None, self.last_words()

        await asyncio.wait_for(wait(), PATIENCE_S)

    async def end(self, number: signal.Signals) -> int:
        self._fork_server.signal(self.folder, "agent", number)
        self.status = await asyncio.to_thread(self._fork_server.wait, self.folder, "agent", PATIENCE_S)
        assert self.status is not None, f"not within {PATIENCE_S:g} s:\n{self.last_words()}"
        return self.status

    async def close(self) -> None:
        """End the process that it was forked from, which ends what is left."""
        await asyncio.to_thread(self._fork_server.close)

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    # --- what is there ------------------------------------------------------------------------------------------

    def cgroups(self) -> list[Path]:
        """Return the cgroups of its containers, in the hierarchy that shows processes."""
        found = []
        for parent in ("/sys/fs/cgroup", "/sys/fs/cgroup/devices"):
            root = Path(parent, self.cgroups_root)
            if root.is_dir():
                found += [entry for entry in root.iterdir() if entry.is_dir()]
        return found

    def gpus_seen(self) -> dict[str, set[int]]:
        """Return, by container, the GPU nodes in the /dev of its processes; all of them were there at one moment."""
        looks = []
        for cgroup in self.cgroups():
            for pid in _pids(cgroup):
                nodes = _gpu_nodes(pid)
                if nodes:
                    looks.append((cgroup.name, pid, _start_time(pid), nodes))
        # Whoever is alive now was alive when the last of them was looked at.
        seen: dict[str, set[int]] = {}
        for name, pid, start_time, nodes in looks:
            if start_time is not None and _start_time(pid) == start_time:
                seen.setdefault(name, set()).update(nodes)
        return seen

    def leftovers(self, *, agent_gone: bool) -> list[str]:
        """Return what is left of containers, and of the agent too when it is `agent_gone`.

        The program that plays its GPUs is the agent's, and ends by itself a few seconds after it.
        """
        left = self._leftovers(agent_gone=agent_gone)
        if not agent_gone:
            return [line for line in left if PLAYER not in line]
        end = time.monotonic() + PLAYS_ON_S
        while any(PLAYER in line for line in left) and time.monotonic() < end:
            time.sleep(0.1)
            left = self._leftovers(agent_gone=True)
        return left

    def _leftovers(self, *, agent_gone: bool) -> list[str]:
        found = [f"cgroup {path}" for path in self.cgroups()]
        found += [f"GPU record {path.name}" for path in (self.runtime_dir / "gpus").rglob("*.json")]
        found += [f"bundle {path}" for path in self.runtime_dir.rglob("config.json")]
        mark = os.fsencode(str(self.folder))
        agent = None if agent_gone else self.pid
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
            # Mounts of ours are in the namespaces of the agent and of containers, so every process is asked.
            found += [
                f"mount of process {pid}: {line!r}" for line in _read(pid, "mountinfo").splitlines() if mark in line
            ]
            if pid not in (os.getpid(), agent) and mark in _read(pid, "cmdline"):
                found.append(f"process {pid}: {_read(pid, 'cmdline')!r}")
        if agent_gone:
            for pattern in (self.cgroups_root, f"*/{self.cgroups_root}"):
                found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(pattern)]
        return found


def double_held(seen: dict[str, set[int]]) -> list[int]:
    """Return the GPUs that more than one container has."""
    counted = Counter(minor for minors in seen.values() for minor in minors)
    return sorted(minor for minor, times in counted.items() if times > 1)


def figures(stories: Iterable[Story]) -> str:
    """Return how the tasks fared, in one line."""
    states = Counter(story.ends[0]["state"] if story.over else "still running" for story in stories)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def _pids(cgroup: Path) -> list[int]:
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _gpu_nodes(pid: int) -> set[int]:
    nodes = set()
    try:
        with os.scandir(f"/proc/{pid}/root/dev") as entries:
            for entry in entries:
                if entry.name.startswith("nvidia") and entry.name[6:].isdecimal():
                    number = entry.stat(follow_symlinks=False).st_rdev
                    assert os.major(number) == GPU_MAJOR
                    nodes.add(os.minor(number))
    except OSError:
        return set()  # it ended while we looked
    return nodes


def _start_time(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
