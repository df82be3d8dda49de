"""Load with limits: what many, hasty or deaf clients do to master, agent and Marathon, and to who else asks them.

    sudo ./run bench load [--seconds 10] [--frameworks 500] [--apps 5000] [--starts 200] [--declines 10000] [--deaf 100]

Each part runs on services of its own, processes on the loopback, and ends by itself. Somebody else asks the service
for its /health or /ping ten times a second all the while. What holds: that he is answered within --patience seconds,
that the service's memory stays below --memory MiB, and that it does afterwards what it is there for. The exit status
is 1 when one of these does not. How fast everything goes is shown, and promised by nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks.kept import figure
from benchmarks.marathon import MarathonProcess, QuickAgent, until
from benchmarks.master import MasterProcess
from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing.factory import BoxFactory, Home
from tests.support.master.build import framework_info
from tests.support.master.live import Scheduler

AGENT = "cpus:1000;mem:1000000;disk:1000000;ports:[31000-32000]"
COUNTS = {"frameworks": 500, "apps": 5000, "starts": 200, "declines": 10000, "deaf": 100, "deaf-apps": 50}
"""How many there are of each by default: docs/why/security.md says so, too."""
ASK_EACH_S = 0.1
PART_S = 300.0
"""After so long a part is given up."""


@dataclass
class Watch:
    """Somebody else who asks a service, and looks at its memory."""

    url: str
    pid: int
    slowest_s: float = 0.0
    asked: int = 0
    failed: list[str] = field(default_factory=list)

    @property
    def memory_mib(self) -> float:
        """The most memory that it ever had resident."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

    async def ask(self) -> None:
        """Ask until cancelled, each time as a new client does."""
        while True:
            began = time.monotonic()
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as http,
                    http.get(self.url) as answer,
                ):
                    await answer.read()
                    if answer.status != 200:
                        self.failed.append(f"{answer.status}")
            except (aiohttp.ClientError, asyncio.TimeoutError) as error:
                self.failed.append(type(error).__name__)
            self.asked += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            await asyncio.sleep(ASK_EACH_S)


@dataclass
class Limits:
    """What must hold, and what did not."""

    patience_s: float
    memory_mib: float
    broken: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def hold(self, what: str, url: str, pid: int) -> AsyncIterator[list[str]]:
        """While this lasts the service is watched; gives a list for what else is to be said of it."""
        watch, said = Watch(url, pid), list[str]()
        before = watch.memory_mib
        asking = asyncio.create_task(watch.ask())
        try:
            async with asyncio.timeout(PART_S) if hasattr(asyncio, "timeout") else contextlib.nullcontext():
                yield said
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        after = watch.memory_mib
        print(
            f"{what}: {'; '.join(said)}\n  others: {watch.asked} asked, {len(watch.failed)} failed, "
            f"slowest answer {watch.slowest_s:.2f} s; memory at most {after:.0f} MiB ({before:.0f} before)",
            flush=True,
        )
        resident = f"{'; '.join(said)}; memory at most {after:.0f} MiB, {before:.0f} before"
        asked = f"{what}: the slowest of {watch.asked} answers to others"
        figure(what, asked, watch.slowest_s, "s", aim=self.patience_s, note=resident)
        self.expect(not watch.failed, f"{what}: others were not served: {watch.failed[:3]}")
        self.expect(watch.slowest_s <= self.patience_s, f"{what}: somebody waited for {watch.slowest_s:.1f} s")
        self.expect(after <= self.memory_mib, f"{what}: {after:.0f} MiB")

    def expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.broken.append(problem)


@asynccontextmanager
async def master_with_agent() -> AsyncIterator[tuple[MasterProcess, QuickAgent]]:
    async with MasterProcess() as master:
        agent = QuickAgent(master.url)
        await agent.start()
        playing = None
        try:
            await agent.register(AGENT)
            playing = asyncio.create_task(agent.play())
            yield master, agent
        finally:
            if playing is not None:
                playing.cancel()
            await agent.stop()


def pid_of(process: asyncio.subprocess.Process | None) -> int:
    assert process is not None
    return process.pid


async def runs_a_task(url: str) -> bool:
    """Return whether a framework that comes now gets an offer, and its task runs."""
    scheduler = Scheduler(url)
    try:
        await scheduler.subscribe(framework_info("afterwards", failover_timeout=0.0))
        offer = await scheduler.offer()
        resources = [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}}]
        task = {"name": "t", "task_id": {"value": "t"}, "agent_id": offer["agent_id"], "resources": resources}
        await scheduler.launch(offer, {**task, "command": {"value": "true"}})
        running = (await scheduler.status())["state"] == "TASK_RUNNING"
        await scheduler.call("TEARDOWN")
        return running
    finally:
        await scheduler.close()


async def many_frameworks(count: int, seconds: float, limits: Limits) -> None:
    """Subscribed frameworks that decline what they are offered, for a moment each time."""
    async with master_with_agent() as (master, _):
        what = f"{count} frameworks"
        async with limits.hold(what, f"{master.url}/health", pid_of(master.process)) as said:
            schedulers = [Scheduler(master.url) for _ in range(count)]
            began, declined = time.monotonic(), 0
            try:
                for scheduler in schedulers:
                    await scheduler.subscribe(framework_info("one of many", failover_timeout=0.0))
                said.append(f"subscribed in {time.monotonic() - began:.1f} s")

                async def answer(scheduler: Scheduler) -> None:
                    nonlocal declined
                    while True:
                        event = await scheduler.events.get()
                        for offer in event["offers"]["offers"] if event and event["type"] == "OFFERS" else ():
                            body = {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 1}}
                            await scheduler.call("DECLINE", body)
                            declined += 1

                answering = [asyncio.create_task(answer(scheduler)) for scheduler in schedulers]
                await asyncio.sleep(seconds)
                for each in answering:
                    each.cancel()
                await asyncio.gather(*answering, return_exceptions=True)
                said.append(f"{declined} offers declined in {seconds:.0f} s")
            finally:
                for scheduler in schedulers:
                    await scheduler.close()
            limits.expect(await runs_a_task(master.url), f"{what}: no task runs afterwards")


async def many_declines(rate: int, seconds: float, limits: Limits) -> None:
    """One framework that sends this many declines a second, whether they are answered or not, over ten connections."""
    async with master_with_agent() as (master, _):
        what = f"{rate} declines a second"
        scheduler = Scheduler(master.url)
        await scheduler.subscribe(framework_info("hasty", failover_timeout=0.0))
        async with limits.hold(what, f"{master.url}/health", pid_of(master.process)) as said:
            host, port = master.url.removeprefix("http://").split(":")
            body = json.dumps(
                {
                    "type": "DECLINE",
                    "framework_id": {"value": scheduler.framework_id},
                    "decline": {"offer_ids": [{"value": "an offer of yesterday"}]},
                }
            )
            request = (
                f"POST /api/v1/scheduler HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
                f"Mesos-Stream-Id: {scheduler.stream_id}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
            answered = await asyncio.gather(*(flood(host, int(port), request, rate / 10, seconds) for _ in range(10)))
            said.append(f"{sum(sent for sent, _ in answered)} sent, {sum(count for _, count in answered)} answered")
        await scheduler.close()
        limits.expect(await runs_a_task(master.url), f"{what}: no task runs afterwards")


async def flood(host: str, port: int, request: bytes, rate: float, seconds: float) -> tuple[int, int]:
    """Send requests without waiting for answers, as far as the connection takes them; return how many, and answers."""
    reader, writer = await asyncio.open_connection(host, port)
    answered = 0

    async def read() -> None:
        nonlocal answered
        while data := await reader.read(1 << 16):
            answered += data.count(b"HTTP/1.1 ")

    reading, sent, began = asyncio.create_task(read()), 0, time.monotonic()
    with contextlib.suppress(ConnectionError):
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * rate) - sent
            writer.write(request * due)
            sent += due
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(writer.drain(), max(0.01, seconds - passed))
            await asyncio.sleep(0.02)
    reading.cancel()
    writer.close()
    return sent, answered


async def deaf_readers(count: int, apps: int, limits: Limits) -> None:
    """Clients that subscribe to events and never read: of the master as frameworks and operators, of Marathon."""
    async with master_with_agent() as (master, _), MarathonProcess(master.url) as marathon:
        await until(marathon.subscribed)
        operator = json.dumps({"type": "SUBSCRIBE"})
        # They want no offers: those would wait for their answer, as in Mesos.
        info = {"framework_info": framework_info("deaf", failover_timeout=0.0), "suppressed_roles": ["*"]}
        framework = json.dumps({"type": "SUBSCRIBE", "subscribe": info})
        sockets = []
        for n in range(count):
            url = marathon.url if n % 3 == 0 else master.url
            host, port = url.removeprefix("http://").split(":")
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, int(port)))
            path = ("POST /api/v1/scheduler", "POST /api/v1")[n % 3 - 1] if n % 3 else "GET /v2/events"
            body = (framework, operator)[n % 3 - 1] if n % 3 else ""
            kind = "text/event-stream" if n % 3 == 0 else "application/json"
            head = f"Host: {host}\r\nContent-Type: application/json\r\nAccept: {kind}\r\nContent-Length: {len(body)}"
            deaf.sendall(f"{path} HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
            sockets.append(deaf)
        what = f"{count} readers that never read"
        try:
            async with (
                limits.hold(f"{what}, master", f"{master.url}/health", pid_of(master.process)) as said,
                limits.hold(f"{what}, Marathon", f"{marathon.url}/ping", pid_of(marathon.process)) as said_too,
            ):
                began = time.monotonic()
                for n in range(apps):
                    app = {"id": f"/a{n}", "cmd": "true", "cpus": 0.1, "mem": 32, "labels": {"long": "x" * 20_000}}
                    await marathon.call("POST", "/v2/apps", app)
                await until(marathon.idle)
                for line in (said, said_too):
                    line.append(f"{apps} apps of 20 kB deployed beside them in {time.monotonic() - began:.1f} s")
        finally:
            for deaf in sockets:
                deaf.close()


async def many_apps(count: int, limits: Limits) -> None:
    """Apps that nobody has room for, and then one that somebody has."""
    async with master_with_agent() as (master, _), MarathonProcess(master.url) as marathon:
        await until(marathon.subscribed)
        what = f"{count} apps that wait"
        async with limits.hold(what, f"{marathon.url}/ping", pid_of(marathon.process)) as said:
            began = time.monotonic()
            for first in range(0, count, 500):
                some = range(first, min(count, first + 500))
                apps = [{"id": f"/g{n % 50}/a{n}", "cmd": "true", "cpus": 0.1, "mem": 32, "gpus": 8} for n in some]
                await marathon.call("PUT", "/v2/apps?force=true", apps)
            said.append(f"accepted in {time.monotonic() - began:.1f} s")
            began = time.monotonic()
            await marathon.call("POST", "/v2/apps", {"id": "/fits", "cmd": "true", "cpus": 0.1, "mem": 32})

            async def runs() -> bool:
                return bool((await marathon.call("GET", "/v2/apps/fits"))["app"]["tasksRunning"] == 1)

            await until(runs)
            said.append(f"one that fits runs after {time.monotonic() - began:.1f} s")


async def many_starts(count: int, limits: Limits) -> None:
    """Containers that one agent is to start at once."""
    if os.geteuid() != 0:
        print(f"{count} starts at once: not run: containers need root")
        return
    with tempfile.TemporaryDirectory(prefix="mesos-gpu-load-") as folder:
        factory = BoxFactory(Home(Path(folder)))
        box = await asyncio.to_thread(factory, gpus=0, resources="cpus:1000;mem:1000000;disk:1000000")
        try:
            agent = box.agents[0]
            async with limits.hold(f"{count} starts at once", f"{agent.url}/health", agent.pid) as said:
                scheduler = Scheduler(box.url)
                await scheduler.subscribe(framework_info("starter", failover_timeout=0.0))
                offer = await scheduler.offer()
                began = time.monotonic()
                await scheduler.launch(offer, *(sleeper(offer, n) for n in range(count)))
                states: dict[str, str] = {}
                while list(states.values()) != ["TASK_RUNNING"] * count:
                    status = await scheduler.status()
                    states[status["task_id"]["value"]] = status["state"]
                    assert status["state"] in ("TASK_STARTING", "TASK_RUNNING"), status
                    await scheduler.acknowledge(status)
                said.append(f"all run after {time.monotonic() - began:.1f} s")
                await scheduler.call("TEARDOWN")
                await scheduler.close()
                await asyncio.to_thread(box.until, "all have ended", lambda: not agent.state()["frameworks"])
                said.append(f"all ended after {time.monotonic() - began:.1f} s")
        finally:
            await asyncio.to_thread(box.down)


def sleeper(offer: Document, n: int) -> Document:
    needs = {"cpus": 0.1, "mem": 32.0}
    resources = [{"name": name, "type": "SCALAR", "scalar": {"value": value}} for name, value in needs.items()]
    named = {"name": "s", "task_id": {"value": f"s{n}"}, "agent_id": offer["agent_id"]}
    return {**named, "resources": resources, "command": {"value": "exec sleep 1000"}}


async def run(asked: argparse.Namespace) -> list[str]:
    limits = Limits(asked.patience, asked.memory)
    await many_frameworks(asked.frameworks, asked.seconds, limits)
    await many_declines(asked.declines, asked.seconds, limits)
    await deaf_readers(asked.deaf, asked.deaf_apps, limits)
    await many_apps(asked.apps, limits)
    await many_starts(asked.starts, limits)
    return limits.broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, amount in {"seconds": 10.0, "patience": 10.0, "memory": 1024.0}.items():
        parser.add_argument(f"--{name}", type=float, default=amount)
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    broken = asyncio.run(run(asked))
    print("\n".join(broken) or "all limits held")
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
