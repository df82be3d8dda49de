"""Looks at who has how much of shared cards' memory, and says who has too much. What is done then others decide."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from mesos_gpu.agent.gpus.driver_thread import DriverThread
from mesos_gpu.base.linux.cgroups import container_of_process
from mesos_gpu.base.linux.sockets import LineConnection, connect
from mesos_gpu.errors import DeviceError, MesosGpuError
from mesos_gpu.gpu.device import CardMemory, Gpu
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.shares.gpu_shares import level_of
from mesos_gpu.mesos.shares.levels import Level
from mesos_gpu.sharing.memory import Excess, Holding, MemoryWatch, Place

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""How often memory is read: a driver that is asked ten times a second has better things to do."""
ANSWER_S = 0.5
WATCHED = (Level.WATCHER, Level.MPS)
"""MPS limits each process; a container of several is watched beside."""


class MemoryReader(Protocol):
    """Reads one card. It may block."""

    def read(self, card: int) -> Mapping[str, int] | None:
        """Return MiB by container; None when the card does not tell now. Raises DeviceError."""


class SimulatedReader:
    """Asks simulated cards, at their sockets."""

    def __init__(self, sockets: Mapping[int, Path]) -> None:
        self._sockets = sockets

    def read(self, card: int) -> Mapping[str, int] | None:
        """Return the card's own word."""
        if card not in self._sockets:
            return None
        try:
            with LineConnection(connect(self._sockets[card], timeout_s=ANSWER_S)) as asking:
                answer = asking.ask(b"M")
        except OSError:
            return None
        return {str(one): int(mib) for one, mib in json.loads(answer).items()}


class DriverReader:
    """Asks the driver for processes, and the kernel for the container of each, by its cgroup below `root`."""

    def __init__(self, memory: CardMemory, gpus: Mapping[int, Gpu], root: str) -> None:
        self._memory, self._gpus, self._root = memory, gpus, root

    def read(self, card: int) -> Mapping[str, int] | None:
        """Return the sum over the processes of each container."""
        processes = self._memory.by_process(self._gpus[card])
        if processes is None:
            return None
        found: dict[str, int] = {}
        for pid, mib in processes.items():
            owner = container_of_process(pid, self._root)
            if owner:
                found[owner] = found.get(owner, 0) + mib
        return found


class MemoryWatcher:
    """Looks once a second while a container shares a card. Lives in one event loop; `on_excess` is called in it."""

    def __init__(self, isolator: SharingIsolator, reader: MemoryReader, grace_s: float) -> None:
        self._isolator, self._reader, self._watch = isolator, reader, MemoryWatch(grace_s)
        self.on_excess: Callable[[Excess], None] = lambda excess: None
        self.on_used: Callable[[Mapping[Place, int]], None] = lambda used: None
        """Told MiB that each container has of each of its cards, whenever it was looked."""
        self._thread: DriverThread | None = None
        self._task: asyncio.Task[None] | None = None
        self._silent: set[int] = set()

    def start(self) -> None:
        """Begin to look."""
        if self._isolator.cards:
            self._thread = DriverThread()
            self._task = asyncio.ensure_future(self._run(self._thread))

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._thread is not None:
            self._thread.close()

    async def _run(self, thread: DriverThread) -> None:
        shared = False
        while True:
            await asyncio.sleep(EVERY_S)
            before, shared = shared, bool(self._isolator.shares)
            if not before and not shared:
                continue
            try:
                await self._look(thread)
            except MesosGpuError as error:
                log.warning("the memory of shared GPUs is not watched now: %s", error)

    async def _look(self, thread: DriverThread) -> None:
        shares = self._isolator.shares
        cards = sorted({part.card for share in shares.values() for part in share.parts} & set(self._isolator.cards))
        read: dict[int, Mapping[str, int] | None] = {}
        for card in cards:
            read[card] = await thread.ask(lambda card=card: self._read(card))  # type: ignore[misc]
        used: dict[Place, int] = {}
        holdings: dict[Place, Holding] = {}
        for one, share in shares.items():
            watched = level_of(share.parts, self._isolator.cards) in WATCHED
            for part in share.parts:
                told = read.get(part.card)
                if told is None:
                    continue
                place = (str(one), part.card)
                used[place] = told.get(one, 0)
                if watched:
                    holdings[place] = Holding(used[place], self._isolator.cards[part.card].memory_of(part.mem_units))
        self.on_used(used)
        for excess in self._watch.look(asyncio.get_running_loop().time(), holdings):
            log.warning("container %s: %s", excess.container_id, excess.message)
            self.on_excess(excess)

    def _read(self, card: int) -> Mapping[str, int] | None:
        try:
            told = self._reader.read(card)
        except DeviceError as error:
            if card not in self._silent:
                self._silent.add(card)
                log.warning("the memory of GPU %d is not watched now: %s", card, error)
            return None
        self._silent.discard(card)
        return told
