"""Marathon under load: one app of 500 instances, 500 apps of 4, and what its stores write.

    ./run bench marathon [--agents 189] [--instances 500] [--apps 500] [--per-app 4] [--writes 500]

A real mesos-gpu-marathon and a real mesos-gpu-master, each a process; the agents are simulated over libprocess, and
say TASK_RUNNING at once. The baseline for the app is the published figure of Marathon 0.15.2 on Mesos 0.27 with 189
agents, 20 tasks per offer: 50 instances 6.15 s, 500 instances 14.2 s (OpenStack performance-docs, mesos-marathon). The
baseline for the stores is a loop that inserts the same bytes with sqlite3 alone, as durably.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.kept import figure
from benchmarks.master import MasterProcess, rss_kib
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.marathon.store.store import Store
from mesos_gpu.marathon.store.zookeeper import ZooKeeperStore
from mesos_gpu.mesos.leader import parse_zk_url
from mesos_gpu.process.zookeeper import ZkSession
from mesos_gpu.process.zookeeper_tree import ZkTree
from tests.support.master.live import ScriptedAgent
from tests.support.zookeeper import JAR, RealZooKeeper

PUBLISHED_S = {50: 6.15, 500: 14.2}
ONE_APP_AIM_S = {500: 3.0}
MANY_APPS_AIM_S = {(500, 4): 12.0}
AGENT = "cpus:32;mem:131072;disk:1000000;ports:[31000-32000]"


class QuickAgent(ScriptedAgent):
    """Runs whatever it is sent, at once."""

    async def play(self) -> None:
        while True:
            name, document = await self.messages.get()
            if name == "RunTaskMessage":
                self.update(document, "TASK_RUNNING")


class MarathonProcess:
    """A Marathon as a process of its own, on a free port."""

    def __init__(self, master: str, *flags: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._flags = [f"--master={master.removeprefix('http://')}", "--http_port=0", *flags]
        self.process: asyncio.subprocess.Process | None = None
        self.url = ""

    async def __aenter__(self) -> MarathonProcess:
        ready = Path(self._folder.name) / "ready"
        words = [f"--store_path={self._folder.name}/marathon.db", f"--ready_file={ready}", *self._flags]
        program = [sys.executable, "-m", "mesos_gpu.marathon.service", *words]
        self.process = await asyncio.create_subprocess_exec(*program, stderr=asyncio.subprocess.DEVNULL)
        while not ready.exists():
            assert self.process.returncode is None, "Marathon did not start"
            await asyncio.sleep(0.01)
        self.url = json.loads(ready.read_text())["url"]
        self.http = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()
        if self.process is not None:
            self.process.terminate()
            await self.process.wait()
        self._folder.cleanup()

    async def call(self, method: str, path: str, document: Any = None) -> Any:
        async with self.http.request(method, self.url + path, json=document) as answer:
            body = await answer.json()
            assert answer.status < 300, body
            return body

    async def subscribed(self) -> bool:
        return (await self.call("GET", "/v2/info"))["frameworkId"] is not None

    async def idle(self) -> bool:
        return not await self.call("GET", "/v2/deployments")

    async def timed(self, method: str, path: str) -> float:
        """Return milliseconds until the whole answer is there, unread."""
        began = time.perf_counter()
        async with self.http.request(method, self.url + path) as answer:
            await answer.read()
        return (time.perf_counter() - began) * 1e3


@asynccontextmanager
async def cluster(agents: int, *flags: str) -> AsyncIterator[MarathonProcess]:
    """A master, agents and a Marathon, all together."""
    async with MasterProcess() as master:
        machines = [QuickAgent(master.url) for _ in range(agents)]
        for machine in machines:
            await machine.start()
        # Not all at once: each is a connection in both directions.
        for machine in machines:
            await machine.register(AGENT)
        playing = [asyncio.ensure_future(machine.play()) for machine in machines]
        try:
            async with MarathonProcess(master.url, *flags) as marathon:
                await until(marathon.subscribed)
                yield marathon
        finally:
            for each in playing:
                each.cancel()
            for machine in machines:
                await machine.stop()


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, gently."""
    while not await done():  # noqa: ASYNC110 - it is another process that we wait for
        await asyncio.sleep(0.05)


async def one_app(agents: int, instances: int, *flags: str) -> float:
    """Return seconds from the call until all instances run."""
    async with cluster(agents, *flags) as marathon:
        began = time.perf_counter()
        app = {"id": "/load", "cmd": "sleep 1000", "cpus": 0.1, "mem": 16, "instances": instances}
        await marathon.call("POST", "/v2/apps", app)
        await until(marathon.idle)
        took = time.perf_counter() - began
        shown = (await marathon.call("GET", "/v2/apps/load"))["app"]
        assert shown["tasksRunning"] == instances, shown["tasksRunning"]
        return took


async def many_apps(agents: int, apps: int, each: int) -> None:
    """Create many apps in one call, ask for one of them all the while, then measure what the big answers take."""
    flags = ("--max_running_deployments=1000", "--max_instances_per_offer=20")
    async with cluster(agents, *flags) as marathon:
        documents = [
            {"id": f"/g{n % 10}/a{n}", "cmd": "sleep 1000", "cpus": 0.1, "mem": 16, "instances": each}
            for n in range(apps)
        ]
        began = time.perf_counter()
        await marathon.call("PUT", "/v2/apps", documents)
        accepted = time.perf_counter() - began
        meanwhile = []
        while await marathon.call("GET", "/v2/deployments"):
            meanwhile.append(await marathon.timed("GET", "/v2/apps/g0/a0"))
            await asyncio.sleep(0.02)
        took = time.perf_counter() - began
        shown = (await marathon.call("GET", "/v2/apps"))["apps"]
        running = sum(app["tasksRunning"] for app in shown)
        assert running == apps * each, running
        print(
            f"{apps} apps of {each} instances, {agents} agents: "
            f"accepted in {accepted:.2f} s, all run after {took:.1f} s"
        )
        what = f"{apps} apps of {each} instances on {agents} agents, in one call: all run after"
        aim = MANY_APPS_AIM_S.get((apps, each))
        figure("many apps", what, took, "s", aim=aim, note=f"accepted after {accepted:.2f} s")
        _answers("GET /v2/apps/ID meanwhile", meanwhile)
        for path in ("/v2/apps", "/v2/apps?embed=apps.tasks", "/v2/groups", "/v2/tasks", "/v2/queue", "/v2/apps/g0/a0"):
            _answers(f"GET {path}", [await marathon.timed("GET", path) for _ in range(20)])
        one: list[float] = []
        for n in range(10):
            began = time.perf_counter()
            await marathon.call("PUT", "/v2/apps/g0/a0?force=true", {"instances": each + n % 2})
            one.append((time.perf_counter() - began) * 1e3)
        _answers("PUT /v2/apps/ID", one)
        assert marathon.process is not None
        resident_mib = rss_kib(marathon.process.pid) / 1024
        print(f"  {resident_mib:.0f} MiB resident", flush=True)
        figure("resident", "memory of Marathon then", resident_mib, "MiB")


def _answers(request: str, took_ms: Sequence[float]) -> None:
    """Print and keep how long answers to a request took."""
    median, slowest = statistics.median(took_ms), f"slowest of {len(took_ms)}: {max(took_ms):.1f}"
    print(f"  {request}: {median:.1f} ms ({slowest})", flush=True)
    figure(request, f"{request}, median", median, "ms", note=slowest)


def instance(number: int) -> Instance:
    task = Task(f"t{number}", "S0", "host", (31000,), "2024-01-01T00:00:00.000Z", 1.5, state="TASK_RUNNING")
    return Instance(f"a.instance-{number}", "/a", task.version, "*", 1.0, phase=Phase.RUNNING, incarnation=1, task=task)


def rate(count: int, write: Callable[[int], None]) -> float:
    began = time.perf_counter()
    for number in range(count):
        write(number)
    return count / (time.perf_counter() - began)


def saving(store: Store, together: int) -> Callable[[int], None]:
    def write(number: int) -> None:
        store.save(
            [Save({}, {f"i{n}": instance(n)}, {}, {}) for n in range(number * together, (number + 1) * together)]
        )

    return write


def bare(path: Path) -> Callable[[int], None]:
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        database.execute(f"PRAGMA {pragma}")
    database.execute("CREATE TABLE t (id TEXT PRIMARY KEY, document BLOB NOT NULL)")
    documents = msgspec.json.encode(instance(1))

    def write(number: int) -> None:
        database.execute("INSERT INTO t VALUES (?, ?)", (f"i{number}", documents))

    return write


async def stores(writes: int) -> None:
    """Print writes a second, each durable before the next begins, and of a hundred at a time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = rate(writes, bare(folder / "bare.db"))
        print(f"writes a second of one instance each: bare sqlite3 {alone:,.0f}", end="")
        sqlite = SqliteStore(folder / "m.db")
        single = {"SQLite": rate(writes, saving(sqlite, 1))}
        print(f", SQLite {single['SQLite']:,.0f}", end="", flush=True)
        together = {"SQLite": 100 * rate(20, saving(sqlite, 100))}
        sqlite.close()
        if Path(JAR).exists():
            with RealZooKeeper(folder / "zookeeper", tick_ms=2000) as server:
                session = ZkSession(parse_zk_url("zk", server.url(uuid.uuid4().hex)), 20.0)
                connected = asyncio.Event()
                session.start(lambda: session.call_in_loop(connected.set), lambda: None)
                await connected.wait()
                zookeeper = ZooKeeperStore(ZkTree(session, session.url.path, patience_s=20))
                await asyncio.to_thread(zookeeper.load)
                single["ZooKeeper"] = rate(writes, saving(zookeeper, 1))
                print(f", ZooKeeper {single['ZooKeeper']:,.0f}", end="")
                together["ZooKeeper"] = 100 * rate(20, saving(zookeeper, 100))
                await session.close()
        print("\n  a hundred at a time: " + ", ".join(f"{name} {value:,.0f}" for name, value in together.items()))
        for name, value in single.items():
            beside = ("bare sqlite3, the same bytes, as durable", alone)
            figure(
                f"{name}, one", f"instances written a second, one by one, {name}", value, beside=beside, better="more"
            )
        for name, value in together.items():
            figure(f"{name}, hundred", f"the same, a hundred at a time, {name}", value, better="more")


async def run(asked: argparse.Namespace) -> None:
    await stores(asked.writes)
    for flags in ((), ("--max_instances_per_offer=20",)):
        took = await one_app(asked.agents, asked.instances, *flags)
        published = PUBLISHED_S.get(asked.instances)
        beside = "" if published is None else f"; published: {published} s, {published / took:.1f} times as long"
        print(
            f"{asked.instances} instances of one app, {asked.agents} agents {flags or ''}: {took:.2f} s{beside}",
            flush=True,
        )
        what = (
            f"one app of {asked.instances} instances on {asked.agents} agents{''.join(f', `{flag}`' for flag in flags)}"
        )
        aim = None if flags else ONE_APP_AIM_S.get(asked.instances)
        baseline = None if published is None else ("published, Marathon 0.15.2", published)
        figure(" ".join(("one app", *flags)), what, took, "s", beside=baseline, aim=aim, aim_of="value")
    await many_apps(asked.agents, asked.apps, asked.per_app)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=189)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--apps", type=int, default=500)
    parser.add_argument("--per-app", type=int, default=4)
    parser.add_argument("--writes", type=int, default=500)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
