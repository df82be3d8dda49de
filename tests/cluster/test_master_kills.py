"""Two masters over ZooKeeper; the leading one is killed with signal 9 again and again, under agents of two kinds.

No task is lost, and nothing is forgotten that an operator was told is so. The suite has one kill;
MESOS_GPU_FAULT_KILLS=20 makes it twenty, MESOS_GPU_FAULT_SEED kills after the same times again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import signal
import sys
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from mesos_gpu.process.detector import open_detector
from tests.support.cluster import cluster_agent
from tests.support.master.build import framework_info
from tests.support.master.live import JSON, Scheduler, ScriptedAgent
from tests.support.zookeeper import RealZooKeeper

KILLS = int(os.environ.get("MESOS_GPU_FAULT_KILLS", "1"))
SEED = int(os.environ.get("MESOS_GPU_FAULT_SEED", "0")) or random.randrange(1, 10**6)
PATIENCE_S = 60.0
TASKS = 4


class Master:
    """A master program that is started again whenever it ends, as a service manager does it."""

    def __init__(self, folder: Path, zk: str) -> None:
        self.folder, self._zk = folder, zk
        self.url = ""
        self._process: asyncio.subprocess.Process | None = None

    async def keep_running(self) -> None:
        """Start it again and again, until cancelled."""
        self.folder.mkdir(exist_ok=True)
        ready = self.folder / "ready"
        words = [f"--zk={self._zk}", "--zk_session_timeout=2secs", f"--work_dir={self.folder}", "--port=0"]
        words += [f"--ready_file={ready}", "--agent_ping_timeout=5secs", "--check_invariants"]
        while True:
            ready.unlink(missing_ok=True)
            with (self.folder / "log").open("ab") as log:
                process = self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "mesos_gpu.master.service", *words, stdout=log, stderr=log
                )
            try:
                await until(lambda p=process: ready.exists() or p.returncode is not None, self.log)  # type: ignore[misc]
                if ready.exists():
                    self.url = str(json.loads(ready.read_text())["url"])
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    def kill(self) -> None:
        """End it as nothing else does; it is started again."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    def log(self) -> str:
        return (self.folder / "log").read_text()[-5000:]


class OldAgent(ScriptedAgent):
    """An agent of Mesos 1.0: it has no capabilities, follows the leader, and runs what it is told to."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.runs: dict[str, Document] = {}
        self.states: dict[str, str] = {}
        self.unacknowledged: dict[str, str] = {}
        self.registered = self.leader_known = False

    def follow(self, leader: Pid | None) -> None:
        self.registered, self.leader_known = False, leader is not None
        self.master = leader or self.master

    def introduce_itself(self) -> None:
        """Register, or come back; said again until it is answered."""
        document: Document = {"slave": self.info(), "version": "1.0.0"}
        self.endpoint.link("slave(1)", self.master)
        if not self.id:
            self.say("RegisterSlaveMessage", document)
            return
        listed = [self._bare(self.task_of(run, self.states[name])) for name, run in self.runs.items()]
        frameworks = {run["framework"]["id"]["value"]: run["framework"] for run in self.runs.values()}
        self.say("ReregisterSlaveMessage", {**document, "tasks": listed, "frameworks": list(frameworks.values())})

    async def live(self) -> None:
        """Do what an agent does, forever."""
        while True:
            if not self.registered and self.leader_known:
                self.introduce_itself()
            elif self.registered:
                for name, run in self.runs.items():
                    if name in self.unacknowledged:
                        self.update(run, self.states[name], self.unacknowledged[name])
            with suppress(asyncio.TimeoutError):
                self._take(*await asyncio.wait_for(self.messages.get(), 0.3))

    def _take(self, name: str, document: Document) -> None:
        if name in ("SlaveRegisteredMessage", "SlaveReregisteredMessage"):
            self.id, self.registered = document["slave_id"]["value"], True
        elif name == "RunTaskMessage":
            self._become(document, "TASK_RUNNING")
        elif name == "KillTaskMessage" and document["task_id"]["value"] in self.runs:
            self._become(self.runs[document["task_id"]["value"]], "TASK_KILLED")
        elif name == "StatusUpdateAcknowledgementMessage":
            task_id = document["task_id"]["value"]
            if self.unacknowledged.get(task_id) == document["uuid"]:
                del self.unacknowledged[task_id]
                if self.states[task_id] == "TASK_KILLED":
                    del self.runs[task_id], self.states[task_id]

    def _become(self, run: Document, state: str) -> None:
        task_id = run["task"]["task_id"]["value"]
        self.runs[task_id], self.states[task_id] = run, state
        self.unacknowledged[task_id] = base64.b64encode(uuid.uuid4().bytes).decode()
        self.update(run, state, self.unacknowledged[task_id])

    @staticmethod
    def _bare(task: Document) -> Document:
        resources = [{key: r[key] for key in r if key != "allocation_info"} for r in task["resources"]]
        return {**task, "resources": resources}


class World:
    """A scheduler that keeps tasks on each agent going, and an operator; both go to whoever leads."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.leader: str | None = None
        self.framework_id: str | None = None
        self.launched = 0
        self.told: dict[str, list[str]] = {}
        self.where: dict[str, str] = {}
        self.weight = self.acknowledged = 1.0
        self.history: list[str] = []

    def follow(self, leader: Pid | None) -> None:
        self.leader = None if leader is None else f"http://{leader.ip}:{leader.port}"
        self.history.append(f"{self.leader} leads")

    async def schedule(self) -> None:
        """Be subscribed with the leader, forever."""
        while True:
            leader = self.leader
            if leader is not None:
                scheduler = Scheduler(leader)
                try:
                    with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                        await self._subscribed(scheduler)
                finally:
                    await scheduler.close()
            await asyncio.sleep(0.05)  # somebody else leads, or will

    async def _subscribed(self, scheduler: Scheduler) -> None:
        info = framework_info(capabilities="GPU_RESOURCES PARTITION_AWARE", failover_timeout=1000.0)
        if await scheduler.open(info, self.framework_id) != 200:
            return
        while (event := await scheduler.events.get()) is not None:
            if event["type"] == "SUBSCRIBED":
                scheduler.framework_id = self.framework_id = event["subscribed"]["framework_id"]["value"]
                # What a master was told to launch as it ended may never have reached an agent.
                self.where = {task: agent_id for task, agent_id in self.where.items() if task in self.told}
            elif event["type"] == "OFFERS":
                for offer in event["offers"]["offers"]:
                    await self._answer(scheduler, offer)
            elif event["type"] == "UPDATE":
                status = event["update"]["status"]
                self.history.append(f"{status['task_id']['value']} {status['state']} {status.get('reason', '')}")
                self.told.setdefault(status["task_id"]["value"], []).append(status["state"])
                self.where[status["task_id"]["value"]] = status["agent_id"]["value"]
                if status.get("uuid"):
                    await scheduler.acknowledge(status)

    async def _answer(self, scheduler: Scheduler, offer: Document) -> None:
        if self.count(offer["agent_id"]["value"]) >= TASKS:
            await scheduler.call("DECLINE", {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 1000}})
            return
        name = f"t{self.launched}"
        self.launched += 1
        self.where[name] = offer["agent_id"]["value"]
        needs = {"cpus": 0.1, "mem": 32.0, "gpus": 1.0}
        task = {
            "name": name,
            "task_id": {"value": name},
            "agent_id": offer["agent_id"],
            "command": {"value": "sleep 1000"},
            "resources": [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in needs.items()],
        }
        await scheduler.launch(offer, task, refuse_s=0)

    async def operate(self) -> None:
        """Set a weight that grows, and remember which ones were answered for."""
        while True:
            self.weight += 1
            infos = [{"role": "w", "weight": self.weight}]
            with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                if await self.call("UPDATE_WEIGHTS", {"weight_infos": infos}) is not None:
                    self.acknowledged = self.weight
            await asyncio.sleep(0.01)

    async def call(self, kind: str, body: Document | None = None) -> Any:
        """The answer of the leader, {} for an empty one; None unless it was 200."""
        if self.leader is None:
            return None
        document = {"type": kind} | ({} if body is None else {kind.lower(): body})
        async with self.http.post(f"{self.leader}/api/v1", data=json.dumps(document), headers=JSON) as response:
            text = await response.text()
            return (json.loads(text) if text else {}) if response.status == 200 else None

    async def remembers(self, weight: float) -> bool:
        """Whether the leader knows the weight that one before it had answered for, or a later one."""
        with suppress(aiohttp.ClientError, asyncio.TimeoutError):
            found = await self.call("GET_WEIGHTS")
            infos = [] if found is None else found.get("get_weights", {}).get("weight_infos", [])
            return [info["weight"] >= weight for info in infos] == [True]
        return False

    def count(self, agent_id: str) -> int:
        return list(self.where.values()).count(agent_id)

    def wanted(self, agents: int) -> bool:
        there = set(self.where.values())
        return len(there) == agents and all(self.count(agent_id) >= TASKS for agent_id in there)

    async def is_whole(self) -> bool:
        """Whether the leader says that all tasks run where they were started."""
        with suppress(aiohttp.ClientError, asyncio.TimeoutError):
            found = await self.call("GET_TASKS")
            tasks = [] if found is None else found["get_tasks"].get("tasks", [])
            shown = {t["task_id"]["value"]: t["agent_id"]["value"] for t in tasks if t["state"] == "TASK_RUNNING"}
            return shown == self.where
        return False


async def until(true: Callable[[], Any], say: Callable[[], str]) -> None:
    """Wait for what nobody tells of: what another process says when it is asked."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        is_so = true()
        if asyncio.iscoroutine(is_so):
            is_so = await is_so
        if is_so:
            return
        assert asyncio.get_running_loop().time() < deadline, say()
        await asyncio.sleep(0.05)


@pytest.mark.timeout(120 + 30 * KILLS)
async def test_leaders_die_and_no_task_and_no_word_to_an_operator_is_lost(
    tmp_path: Path, zookeeper: RealZooKeeper
) -> None:
    dice = random.Random(SEED)
    url = zookeeper.url(f"kills-{uuid.uuid4().hex[:8]}")
    async with AsyncExitStack() as stack:
        masters = [Master(tmp_path / name, url) for name in ("m1", "m2")]
        for master in masters:
            stack.push_async_callback(_end, asyncio.create_task(master.keep_running()))
        world = World(await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))))
        ours = await stack.enter_async_context(cluster_agent(tmp_path / "agent", url))
        old = OldAgent()
        await old.start()
        stack.push_async_callback(old.stop)

        def follow(leader: Pid | None) -> None:
            world.follow(leader)
            old.follow(leader)

        detector = open_detector("master", url, session_timeout_s=2.0)
        await detector.start(follow)
        stack.push_async_callback(detector.close)
        for living in (old.live(), world.schedule(), world.operate()):
            stack.push_async_callback(_end, asyncio.create_task(living))

        def story() -> str:
            logs = "\n".join(f"{master.folder.name}:\n{master.log()}" for master in masters)
            return f"seed {SEED}\n" + "\n".join(world.history) + f"\n{logs}"

        await until(lambda: world.wanted(agents=2), story)
        await until(lambda: world.acknowledged > 1.0, story)
        await until(world.is_whole, story)
        for _ in range(KILLS):
            await asyncio.sleep(dice.uniform(0.0, 0.7))
            await until(lambda: world.leader in [master.url for master in masters], story)
            leader = next(master for master in masters if master.url == world.leader)
            dead, answered_for = leader.url, world.acknowledged
            leader.kill()
            world.history.append(f"killed {dead}, which had answered for weight {answered_for:g}")
            await until(lambda dead=dead: world.leader not in (None, dead), story)  # type: ignore[misc]
            await until(world.is_whole, story)
            await until(lambda weight=answered_for: world.remembers(weight), story)  # type: ignore[misc]
            await until(ours.agent.registered.is_set, story)
        lost = {task: states for task, states in world.told.items() if set(states) - {"TASK_STARTING", "TASK_RUNNING"}}
        assert not lost, f"{lost} {story()}"


async def _end(task: asyncio.Task[None]) -> None:
    while not task.done():  # before Python 3.12 wait_for may swallow that it was cancelled
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
    with suppress(asyncio.CancelledError):
        task.result()
