"""Lends GPUs to holders outside Mesos, and takes them back when these are gone. Decisions are elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from mesos_gpu.agent.decisions.lending import Standing, choose
from mesos_gpu.agent.gpus.lease_records import LeaseRecord, LeaseRecords
from mesos_gpu.agent.model.leases import (
    EngineContainer,
    HolderProcess,
    Lease,
    LeaseRequest,
    Seen,
    Watch,
    WatchRequest,
    more,
    still_held,
)
from mesos_gpu.errors import BadInput, MesosGpuError, NotFound, Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.ledger import Choice, Ledger
from mesos_gpu.isolator.reach import HeldGpu, lost, settle
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often cgroups and engines' containers are looked at; the end of a process is told at once."""


class Pool(Protocol):
    """What is asked of the isolator."""

    @property
    def total(self) -> frozenset[Gpu]:
        """Return every GPU."""

    @property
    def ledger(self) -> Ledger:
        """Return the ledger, which knows what can be leased."""

    def lend(self, name: str, gpus: Collection[Gpu], lost: Collection[HeldGpu] = (), /) -> None:
        """Give free GPUs to this holder, which can still open the nodes of the `lost` ones."""

    def take_back(self, name: str, /) -> None:
        """Free what it has."""


class Holders(Protocol):
    """What is asked of the machine; `mesos_gpu.agent.gpus.holders.Host` is the real one."""

    def process(self, pid: int, started: int = 0, /) -> HolderProcess:
        """Return the process as it can be known again. Raises BadInput when there is none."""

    def see(self, watch: Watch, /) -> Seen:
        """Look at everything of a watch."""

    async def wait(self, watch: Watch, changed: asyncio.Event, timeout_s: float, /) -> None:
        """Return when a process of it has ended, `changed` is set, or the time is up."""


class Lender:
    """The book of leases. Lives in one event loop; what it is told is on disk before it is so.

    `on_change` is called whenever what may be offered has changed. `folder` is where engines are to write which
    container is theirs. Raises Unavailable when the record cannot be read, Conflict when it has one GPU twice.
    """

    def __init__(
        self,
        pool: Pool,
        records: LeaseRecords,
        folder: Path,
        holders: Holders,
        *,
        choice: Choice,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._pool, self._records, self._folder, self._holders = pool, records, folder, holders
        self._choice, self._wall = choice, wall
        self.on_change: Callable[[], None] = lambda: None
        self._leases: dict[str, Lease] = {}
        self._following: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._open = False
        found = records.load()
        held = settle({ContainerId(record.id): record.gpus for record in found}, pool.total)
        for record in found:
            gpus = tuple(sorted(held[ContainerId(record.id)]))
            gone = tuple(lost(record.gpus, gpus))
            if gone:
                log.warning("lease %s (%s) had GPUs that are no longer here", record.id, record.door)
            lease = Lease(
                record.id, record.door, record.holder, record.container, gpus, record.since, record.watch, gone
            )
            pool.lend(lease.id, gpus, gone)
            self._leases[lease.id] = lease

    def start(self) -> None:
        """Begin to lend, and to look after what is lent."""
        self._open = True
        for lease_id in list(self._leases):
            self.look(lease_id)
            if lease_id in self._leases:
                self._follow(lease_id)

    async def close(self) -> None:
        """Look after nothing any longer; what is lent stays lent."""
        self._open = False
        tasks = [task for task, _ in self._following.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- what is so ---------------------------------------------------------------------------------------------

    @property
    def leases(self) -> Sequence[Lease]:
        """Return every lease, oldest first."""
        return sorted(self._leases.values(), key=lambda lease: (lease.since, lease.id))

    def get(self, lease_id: str) -> Lease:
        """Return a lease. Raises NotFound."""
        try:
            return self._leases[lease_id]
        except KeyError:
            raise NotFound(f"there is no lease {lease_id}; its holder may be gone") from None

    def by_gpu(self) -> Mapping[str, Lease]:
        """Return who was lent each GPU, by its uuid."""
        return {gpu.uuid: lease for lease in self._leases.values() for gpu in lease.gpus}

    # --- what changes it ----------------------------------------------------------------------------------------

    def lend(
        self,
        request: LeaseRequest,
        wanted: WatchRequest,
        standings: Sequence[Standing],
    ) -> Lease:
        """Lend what is asked for.

        Raises GpusTaken, NotFound, BadInput; Unavailable before `start`, or when it cannot be written down.
        """
        if not self._open:
            raise Unavailable("the agent has not finished recovery")
        lease_id = uuid.uuid4().hex
        watch = self._watch(lease_id, wanted)
        gpus = choose(request, standings, self._choice, self._pool.ledger)
        lease = Lease(
            lease_id, request.door, request.holder, request.container, tuple(sorted(gpus)), self._wall(), watch
        )
        self._save({**self._leases, lease_id: lease})
        self._pool.lend(lease_id, gpus)
        self._leases[lease_id] = lease
        log.info("lent %s to %s as lease %s", _names(lease), lease.words, lease_id)
        self._follow(lease_id)
        self.on_change()
        return lease

    def watch_too(self, lease_id: str, wanted: WatchRequest) -> Lease:
        """Watch this of the holder, too. Raises NotFound, BadInput, Unavailable."""
        lease = self.get(lease_id)
        changed = replace(lease, watch=more(lease.watch, self._watch(lease_id, wanted)))
        if changed != lease:
            self._save({**self._leases, lease_id: changed})
            self._leases[lease_id] = changed
            self._wake(lease_id)
        return changed

    def end(self, lease_id: str, why: str) -> None:
        """Take back what was lent. Raises NotFound; Unavailable when that cannot be written, and it stays lent."""
        lease = self.get(lease_id)
        self._save({name: each for name, each in self._leases.items() if name != lease_id})
        self._pool.take_back(lease_id)
        del self._leases[lease_id]
        log.info("took back %s from %s, lease %s: %s", _names(lease), lease.words, lease_id, why)
        engine = lease.watch.engine
        if engine is not None and engine.ours:
            Path(engine.cidfile).unlink(missing_ok=True)
        self._wake(lease_id)
        self.on_change()

    def look(self, lease_id: str) -> None:
        """Look whether a holder is still there, and take back what it had if not."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return
        try:
            watch = still_held(lease.watch, self._holders.see(lease.watch))
            if watch is None:
                self.end(lease_id, "its holder is gone")
            elif watch != lease.watch:
                container = lease.container or ("" if watch.engine is None else watch.engine.container)
                changed = replace(lease, watch=watch, container=container)
                self._save({**self._leases, lease_id: changed})
                self._leases[lease_id] = changed
        except (MesosGpuError, OSError) as error:
            log.error("lease %s of %s stays as it is: %s", lease_id, lease.words, error)

    def _watch(self, lease_id: str, wanted: WatchRequest) -> Watch:
        processes = () if wanted.pid is None else (self._holders.process(wanted.pid, wanted.started),)
        engine = None
        if wanted.folder:
            if not Path(wanted.folder).is_dir():
                raise BadInput(f"'containers' must be a folder, which {wanted.folder} is not")
            ours = not wanted.cidfile
            self._folder.mkdir(parents=True, exist_ok=True)
            cidfile = wanted.cidfile or str(self._folder / f"{lease_id}.cid")
            engine = EngineContainer(cidfile, wanted.folder.rstrip("/"), ours=ours)
        return Watch(processes, (wanted.cgroup,) if wanted.cgroup else (), engine)

    def _save(self, leases: Mapping[str, Lease]) -> None:
        self._records.save(
            LeaseRecord(
                lease.id,
                lease.door,
                lease.holder,
                lease.container,
                [*map(HeldGpu.of, lease.gpus), *lease.lost],
                lease.since,
                lease.watch,
            )
            for lease in leases.values()
        )

    # --- following ----------------------------------------------------------------------------------------------

    def _follow(self, lease_id: str) -> None:
        changed = asyncio.Event()
        task = asyncio.ensure_future(self._look_on(lease_id, changed))
        self._following[lease_id] = task, changed
        task.add_done_callback(lambda _: self._following.pop(lease_id, None))

    def _wake(self, lease_id: str) -> None:
        if lease_id in self._following:
            self._following[lease_id][1].set()

    async def _look_on(self, lease_id: str, changed: asyncio.Event) -> None:
        while lease_id in self._leases:
            try:
                await self._holders.wait(self._leases[lease_id].watch, changed, LOOK_S)
            except OSError as error:  # no descriptor left, say
                log.warning("lease %s is looked at in %g s: nothing can tell of its end: %s", lease_id, LOOK_S, error)
                await asyncio.sleep(LOOK_S)
            self.look(lease_id)


def _names(lease: Lease) -> str:
    return ", ".join(f"GPU {gpu.index} ({gpu.uuid})" for gpu in lease.gpus)
