"""What a book of leases is kept with, in memory: records that can fail and kill, and holders that live as told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mesos_gpu.agent.gpus.lease_records import LeaseRecord, LeaseRecords
from mesos_gpu.agent.model.leases import HolderProcess, Seen, Watch
from mesos_gpu.errors import BadInput, Unavailable

BOOT = "boot"


class Killed(BaseException):
    """The agent ends at this very moment."""


class MemoryRecords(LeaseRecords):
    """The records as bytes. `fails`: the next write is refused; `kills`: the agent ends `before` or `after` it."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.data = b"[]"
        self.fails = False
        self.kills = ""

    def load(self) -> list[LeaseRecord]:
        return msgspec.json.decode(self.data, type=list[LeaseRecord])

    def save(self, leases: Iterable[LeaseRecord]) -> None:
        fails, self.fails = self.fails, False
        kills, self.kills = self.kills, ""
        if fails:
            raise Unavailable("the disk is full")
        if kills == "before":
            raise Killed
        self.data = msgspec.json.encode(list(leases))
        if kills == "after":
            raise Killed


class Machine:
    """Who lives: processes by number, cgroups with somebody in them, engines' containers and what is in cidfiles."""

    def __init__(self) -> None:
        self.processes: set[int] = set()
        self.cgroups: set[str] = set()
        self.containers: set[str] = set()
        self.cids: dict[str, str] = {}

    def process(self, pid: int, started: int = 0) -> HolderProcess:
        if pid not in self.processes:
            raise BadInput(f"there is no process {pid}")
        return HolderProcess(pid, 1, BOOT)

    def see(self, watch: Watch) -> Seen:
        engine = watch.engine
        container = "" if engine is None else engine.container or self.cids.get(engine.cidfile, "")
        return Seen(
            frozenset(process for process in watch.processes if process.pid in self.processes),
            frozenset(cgroup for cgroup in watch.cgroups if cgroup in self.cgroups),
            container,
            container in self.containers,
        )

    async def wait(self, watch: Watch, changed: asyncio.Event, timeout_s: float) -> None:
        await changed.wait()
        changed.clear()
