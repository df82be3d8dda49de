"""A real agent program for tests: real containers, simulated GPUs, and a scripted master in the test's own loop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from mesos_gpu.mesos.messages import devolve
from mesos_gpu.mesos.tasks import is_terminal
from tests.fakes.master import ScriptedMaster
from tests.support import forked
from tests.support.agent.documents import AGENT_ID, ALL_CAPABILITIES, framework, task
from tests.support.box.live import PLAYER, PLAYS_ON_S
from tests.support.patience import TIMES

PATIENCE_S = 60.0 * TIMES
FRAMEWORK = devolve("mesos.FrameworkInfo", framework(*ALL_CAPABILITIES))


class LiveAgent:
    """One work_dir with the agent processes that come and go on it."""

    def __init__(self, folder: Path, master: ScriptedMaster) -> None:
        self.folder, self.master = folder, master
        self.cgroups_root = f"mesos-test-{uuid.uuid4().hex[:12]}"
        self.ready = folder / "ready.json"
        self.log = folder / "agent.log"
        self.process: forked.Service | None = None
        self.port = 0

    def command(self, *flags: str) -> list[str]:
        """Return the command line of the program that `start` forks."""
        return [sys.executable, "-m", "mesos_gpu.agent.service", *self.flags(*flags)]

    def flags(self, *flags: str) -> list[str]:
        return [
            f"--master={self.master.pid.ip}:{self.master.pid.port}",
            f"--port={self.port}",
            f"--work_dir={self.folder / 'work'}",
            "--gpu_driver=simulated",
            "--simulated_gpus=4",
            "--resources=mem:4096;disk:1024",
            f"--cgroups_root={self.cgroups_root}",
            "--registration_backoff_factor=50ms",
            f"--ready_file={self.ready}",
            "--check_invariants",
            *flags,
        ]

    def launch(self, log: int, *flags: str) -> forked.Service:
        return forked.start("mesos_gpu.agent.service", self.flags(*flags), log)

    async def start(self, *flags: str) -> None:
        """Start the agent and wait until the master knows it; a later start keeps the port of the first."""
        self.ready.unlink(missing_ok=True)
        registrations = self._registrations()
        with self.log.open("ab") as log:
            self.process = self.launch(log.fileno(), *flags)
        ended = asyncio.ensure_future(self.process.ended())
        known = asyncio.ensure_future(self.master.until(lambda: self._registrations() > registrations, PATIENCE_S))
        await asyncio.wait([ended, known], return_when=asyncio.FIRST_COMPLETED)
        assert not ended.done(), self.log.read_text()
        ended.cancel()
        await known
        await self.until(self.ready.exists)
        assert self.master.agent is not None
        self.port = self.master.agent.port

    async def signal(self, number: signal.Signals) -> int:
        """Send a signal to the agent and return its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.ended(), PATIENCE_S)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    async def end(self) -> None:
        """Kill whatever runs; a dead agent is started once more for that."""
        self.master.acknowledges = True
        if self.process is not None:
            if not self.alive:
                await self.start()
            assert await self.signal(signal.SIGUSR1) == 0, self.log.read_text()

    def run(self, task_id: str, line: str, **more: Any) -> None:
        self.master.run(FRAMEWORK, devolve("mesos.TaskInfo", task(task_id, line, **more)))

    def kill(self, task_id: str) -> None:
        document = {"framework_id": FRAMEWORK["id"], "task_id": {"value": task_id}}
        self.master.send("KillTaskMessage", document)

    async def reaches(self, task_id: str, state: str) -> dict[str, Any]:
        try:
            update = await self.master.reaches(task_id, state)
        except (asyncio.TimeoutError, TimeoutError):
            raise AssertionError(f"{self.master.updates(task_id)}\n{self.log.read_text()}") from None
        return dict(update["status"])

    async def ends(self, task_id: str) -> str:
        """Wait until a task was reported in any terminal state; return that state."""
        await self.master.until(lambda: any(is_terminal(state) for state in self.master.states(task_id)))
        return next(state for state in self.master.states(task_id) if is_terminal(state))

    async def get(self, endpoint: str, /, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}{endpoint}"
        async with aiohttp.ClientSession() as session, session.get(url, params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def said(self, task_id: str, file: str = "stdout") -> str:
        """Return what a task wrote, as the command line gets it: over /state and /files/read."""
        state = await self.get("/state")
        frameworks = [*state["frameworks"], *state["completed_frameworks"]]
        executors = [e for f in frameworks for e in (*f["executors"], *f["completed_executors"])]
        (directory,) = [e["directory"] for e in executors if e["id"] == task_id]
        return str((await self.get("/files/read", path=f"{directory}/{file}", offset="0"))["data"])

    async def until(self, true: Any) -> None:
        """Wait for something that nobody tells of, such as a file of another process."""

        async def wait() -> None:
            while not true():  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), PATIENCE_S)

    async def until_async(self, ask: Callable[[], Awaitable[str]], text: str) -> str:
        """Wait until an answer has this text in it; an endpoint that does not know yet is asked again."""

        async def wait() -> str:
            while True:
                try:
                    if text in (answer := await ask()):
                        return answer
                except AssertionError:
                    pass
                await asyncio.sleep(0.02)

        return await asyncio.wait_for(wait(), PATIENCE_S)

    async def until_said(self, task_id: str, text: str) -> str:
        async def wait() -> str:
            while text not in (said := await self.said(task_id)):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            return said

        return await asyncio.wait_for(wait(), PATIENCE_S)

    def leftovers(self) -> list[str]:
        """Return what still exists of it: processes, mounts, cgroups.

        The program that plays its GPUs ends by itself a few seconds after it, and is waited for.
        """
        end = time.monotonic() + PLAYS_ON_S
        left = self._leftovers()
        while any(PLAYER in line for line in left) and time.monotonic() < end:
            time.sleep(0.1)
            left = self._leftovers()
        return left

    def _leftovers(self) -> list[str]:
        mark = os.fsencode(str(self.folder))
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        found = [
            f"process {p.name}: {_command(p)!r}"
            for p in processes
            if p.name != str(os.getpid()) and mark in _command(p)
        ]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [f"mount {line}" for line in mounts if str(self.folder) in line]
        for pattern in (self.cgroups_root, f"*/{self.cgroups_root}"):
            found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(pattern)]
        return found

    def _registrations(self) -> int:
        return len(self.master.messages("RegisterSlaveMessage")) + len(self.master.messages("ReregisterSlaveMessage"))


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


async def new_master() -> ScriptedMaster:
    """Return a started master that calls the agent AGENT_ID."""
    master = await ScriptedMaster(AGENT_ID).start()
    master.observe(1)
    return master


@asynccontextmanager
async def unstarted_agent(folder: Path) -> AsyncIterator[LiveAgent]:
    """Yield an agent to start under a scripted master; afterwards both are gone, and nothing of the agent is left."""
    master = await new_master()
    live = LiveAgent(folder, master)
    try:
        yield live
    finally:
        try:
            await live.end()
        finally:
            await master.stop()
    left = live.leftovers()
    assert left == [], left
    log = live.log.read_text() if live.log.exists() else ""
    assert "GPU ledger: " not in log, log


@asynccontextmanager
async def live_agent(folder: Path, *flags: str) -> AsyncIterator[LiveAgent]:
    """Run the agent program with these flags, as unstarted_agent does."""
    async with unstarted_agent(folder) as live:
        await live.start(*flags)
        yield live
