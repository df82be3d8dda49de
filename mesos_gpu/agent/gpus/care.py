"""The GPUs of an agent: how they are, who holds them, what they do. Decisions are gpu/health.py's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from mesos_gpu.agent.gpus.driver_thread import DriverThread
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.errors import MesosGpuError, NotFound
from mesos_gpu.gpu.device import Gpu, GpuDriver, GpuUsage, HealthEvent
from mesos_gpu.gpu.health import WITHDRAWN, Change, Condition, Health, Illness
from mesos_gpu.isolator.ledger import Ledger, MasterAccount, container
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share

log = logging.getLogger(__name__)

PATIENCE_S = 3.0
"""How long an answer of the driver is waited for, where people wait for ours."""
KEPT_CHANGES = 20
"""How many changes of a GPU's condition are remembered."""
FRESH_S = 1.0
"""A reading is not older than this, however often it is asked for."""


class Holders(Protocol):
    """What is asked of the isolator; `mesos_gpu.isolator.isolator.NvidiaGpuIsolator` is the real one."""

    @property
    def total(self) -> frozenset[Gpu]:
        """Return every GPU it manages."""

    @property
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """Return what each container holds."""

    @property
    def ledger(self) -> Ledger:
        """Return the ledger: who has which GPU, and what is offered."""

    def tell(self, event: MasterAccount, /) -> None:
        """Tell the ledger what the master counts."""

    def withdraw(self, uuids: Collection[str], /) -> None:
        """Give these to no container from now on."""

    def restore(self, uuids: Collection[str], /) -> None:
        """Give these again."""


class Sharers(Protocol):
    """What is asked of who shares cards; `mesos_gpu.isolator.sharing.SharingIsolator` is the real one."""

    @property
    def gpus(self) -> Collection[Gpu]:
        """Return the cards that containers share."""

    @property
    def shares(self) -> Mapping[ContainerId, Share]:
        """Return what each container shares."""


class Trouble(Struct, frozen=True):
    """What is wrong with the GPUs of a container, as its owner is told; `broken`: one of them cannot be trusted."""

    message: str
    broken: bool


class AgentGpus:
    """Watches the GPUs that the isolator manages and withdraws those that are unhealthy. Lives in one event loop.

    The driver is asked in a thread of its own, and its events come from another. `on_change` is called in the loop
    whenever the ledger or `trouble` may have changed. With `retest_interval_s`, a withdrawn GPU that no container
    holds is tested that often, and is back when it passes; without, an operator's word brings it back (`clear`).
    Cards of `sharers` are watched like them. `container_of` tells whose container a process of this machine is in.
    """

    def __init__(
        self,
        driver: GpuDriver,
        isolator: Holders,
        record: HealthRecord,
        *,
        retest_interval_s: float | None = None,
        wall: Callable[[], float] = time.time,
        sharers: Sharers | None = None,
        container_of: Callable[[int], str] = lambda pid: "",
    ) -> None:
        self._driver, self._isolator, self._record = driver, isolator, record
        self._retest_interval_s, self._wall = retest_interval_s, wall
        self.on_change: Callable[[], None] = lambda: None
        recorded = record.load()
        self._sharers = sharers
        self._shared = {gpu.uuid: gpu for gpu in ([] if sharers is None else sharers.gpus)}
        here = {**{gpu.uuid: gpu for gpu in isolator.total}, **self._shared}
        self._health = Health(here, {uuid: ill for uuid, ill in recorded.items() if uuid in here})
        self._absent = {uuid: ill for uuid, ill in recorded.items() if uuid not in here}
        self._isolator.withdraw(self._health.withdrawn)
        for uuid, illness in self._health.ill.items():
            log.warning("GPU %s is still withdrawn: %s", uuid, illness.reason)
        self._thread = DriverThread()
        self._stop_watching: Callable[[], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._testing: set[str] = set()
        self.container_of = container_of
        self._usage: dict[str, GpuUsage] = {}
        self._past: dict[str, deque[Illness]] = {}
        self._read_s = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._silent = self._watched = False

    async def start(self) -> None:
        """Begin to watch. A driver that cannot be watched is an ordinary case; the log says so."""
        self._watched = True
        await self._watch()
        if self._health.gpus and self._retest_interval_s is not None:
            self._begin(self._test_now_and_then(self._retest_interval_s))

    async def _watch(self) -> None:
        """Listen to the driver's events of the GPUs that there are now, and to no others."""
        loop = asyncio.get_running_loop()

        def from_thread(event: HealthEvent) -> None:
            try:
                loop.call_soon_threadsafe(self._on_event, event)
            except RuntimeError:
                pass  # the loop has ended

        if self._stop_watching is not None:
            await self._within(self._thread.ask(self._stop_watching))
            self._stop_watching = None
        if not self._health.gpus:
            return
        try:
            self._stop_watching = await self._thread.ask(lambda: self._driver.watch_health(from_thread))
        except MesosGpuError as error:
            log.warning("the health of the GPUs is not watched: %s", error)

    async def manage(self) -> None:
        """Watch the GPUs that the isolator has now: MIG instances come and go."""
        here = {**{gpu.uuid: gpu for gpu in self._isolator.total}, **self._shared}
        ill = {**self._absent, **self._health.ill}
        self._health = Health(here, {uuid: illness for uuid, illness in ill.items() if uuid in here})
        self._absent = {uuid: illness for uuid, illness in ill.items() if uuid not in here}
        self._isolator.withdraw(self._health.withdrawn)
        if self._watched:
            await self._watch()

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stop_watching is not None:
            await self._within(self._thread.ask(self._stop_watching))
        self._thread.close()

    # --- what is so ---------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """Return the ledger: who has which GPU, and what is offered."""
        return self._isolator.ledger

    def counted(self, account: MasterAccount) -> Ledger:
        """Tell the ledger what the master counts at this moment, and return it."""
        self._isolator.tell(account)
        return self._isolator.ledger

    @property
    def closed_cards(self) -> frozenset[int]:
        """Return the indices of shared cards that are withdrawn."""
        return frozenset(gpu.index for uuid, gpu in self._shared.items() if uuid in self._health.withdrawn)

    @property
    def shared(self) -> Sequence[Gpu]:
        """Return the cards that containers share, by index."""
        return sorted(self._shared.values(), key=lambda gpu: gpu.index)

    def trouble(self, container_id: ContainerId) -> Trouble | None:
        """Return what is wrong with the GPUs of a container, None when nothing is."""
        held = [*sorted(self._isolator.held.get(container_id, ())), *self._parts_of(container_id)]
        ill = [(gpu, self._health.ill[gpu.uuid]) for gpu in held if gpu.uuid in self._health.withdrawn]
        gone = [f"GPU {card}, of which it has a part, is not here any more" for card in self._gone(container_id)]
        lost = sorted(self._isolator.ledger.missing(container(container_id)))
        gone += [f"GPU {uuid}, which it was given, does not exist any more; start the task again" for uuid in lost]
        if not ill and not gone:
            return None
        message = "; ".join([*(_words(gpu, illness) for gpu, illness in ill), *gone])
        broken = bool(gone) or any(illness.condition is Condition.UNHEALTHY for _, illness in ill)
        return Trouble(message, broken)

    @property
    def sharers(self) -> Collection[ContainerId]:
        """Return the containers that have a part of a card."""
        return frozenset() if self._sharers is None else self._sharers.shares.keys()

    @property
    def shares(self) -> Mapping[ContainerId, Share]:
        """Return what each container has of shared cards."""
        return {} if self._sharers is None else self._sharers.shares

    def users(self, gpu: Gpu) -> Sequence[ContainerId]:
        """Return the containers that have a part of a shared card."""
        shares = {} if self._sharers is None else self._sharers.shares
        return sorted(one for one, share in shares.items() if any(part.card == gpu.index for part in share.parts))

    def share(self, container_id: ContainerId) -> Share:
        """Return what a container has of shared cards."""
        shares = {} if self._sharers is None else self._sharers.shares
        return shares.get(container_id, Share(()))

    def _gone(self, container_id: ContainerId) -> Sequence[int]:
        """Return the cards of which a container has a part, and that have vanished."""
        here = {gpu.index for gpu in self._shared.values()}
        return [part.card for part in self.share(container_id).parts if part.card not in here]

    def _parts_of(self, container_id: ContainerId) -> Sequence[Gpu]:
        cards = {part.card for part in self.share(container_id).parts}
        return [gpu for gpu in self.shared if gpu.index in cards]

    def holder(self, uuid: str) -> ContainerId | None:
        """Return the container that holds a GPU."""
        held = self._isolator.held.items()
        return next((name for name, gpus in held if any(gpu.uuid == uuid for gpu in gpus)), None)

    @property
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """Return what each container holds."""
        return self._isolator.held

    def whole_of(self, container_id: ContainerId) -> tuple[int, ...]:
        """Return the whole GPUs that a container holds, by index; MIG instances are none."""
        return tuple(sorted(gpu.index for gpu in self._isolator.held.get(container_id, ()) if gpu.mig is None))

    def all(self) -> Sequence[Gpu]:
        """Return every GPU, in Mesos' order."""
        return sorted(self._isolator.total)

    def of(self, container_id: ContainerId) -> Sequence[Gpu]:
        """Return what a container holds."""
        return sorted(self._isolator.held.get(container_id, ()))

    def illness(self, uuid: str) -> Illness | None:
        """Return what is wrong with a GPU, None when it is healthy."""
        return self._health.ill.get(uuid)

    def past(self, uuid: str) -> Sequence[Illness]:
        """Return how a GPU's condition has changed since this agent was started, the latest last: each with when."""
        return tuple(self._past.get(uuid, ()))

    async def usage(self) -> Mapping[str, GpuUsage]:
        """Return what the GPUs do, by uuid, read within the last second; one that does not answer is left out."""
        if time.monotonic() - self._read_s > FRESH_S:
            if self._reading is None or self._reading.done():
                self._reading = self._begin(self._read())
            if not self._silent:
                await self._within(asyncio.shield(self._reading))
        return self._usage

    # --- what changes it ----------------------------------------------------------------------------------------

    def clear(self, uuid: str) -> None:
        """Take an operator's word that a GPU is healthy. Raises NotFound for a GPU that is not here."""
        if uuid not in self._health.gpus:
            raise NotFound(f"There is no GPU {uuid} on this agent")
        self._take(*self._health.on_cleared(uuid, self._wall()))

    def _on_event(self, event: HealthEvent) -> None:
        self._take(*self._health.on_event(event, self._wall()))
        suspect = self._health.to_retest(withdrawn_too=False)
        if suspect:
            self._begin(self._test(suspect))

    def _take(self, health: Health, changes: Sequence[Change]) -> None:
        """Make a decision so: on disk, then in the pool, then known."""
        if not changes:
            return
        self._health = health
        if any(change.before in WITHDRAWN or change.after in WITHDRAWN for change in changes):
            self._record.save({**self._absent, **health.ill})
        self._isolator.withdraw(self._health.withdrawn)
        self._isolator.restore(set(health.gpus) - health.withdrawn)
        for change in changes:
            past = self._past.setdefault(change.gpu.uuid, deque(maxlen=KEPT_CHANGES))
            past.append(Illness(change.after, change.reason, self._wall(), change.xid))
            level = logging.INFO if change.after is Condition.HEALTHY else logging.WARNING
            words = f"GPU {change.gpu.index} ({change.gpu.uuid})"
            log.log(level, "%s is %s, was %s: %s", words, change.after.value, change.before.value, change.reason)
        self.on_change()

    # --- tests --------------------------------------------------------------------------------------------------

    async def _test_now_and_then(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            ill = self._health.to_retest(withdrawn_too=True)
            held = self._isolator.ledger.allocated
            await self._test([gpu for gpu in ill if gpu not in held and not self.users(gpu)])

    async def _test(self, gpus: Sequence[Gpu]) -> None:
        for gpu in gpus:
            if gpu.uuid in self._testing:
                continue
            self._testing.add(gpu.uuid)
            try:
                why_not = await self._thread.ask(lambda gpu=gpu: self._driver.retest(gpu))  # type: ignore[misc]
            except MesosGpuError as error:
                why_not = str(error)
            finally:
                self._testing.discard(gpu.uuid)
            self._take(*self._health.on_retest(gpu.uuid, why_not, self._wall()))

    async def _read(self) -> None:
        gpus = [*self.all(), *self.shared]

        def read() -> dict[str, GpuUsage]:
            found = {}
            for gpu in gpus:
                try:
                    found[gpu.uuid] = self._driver.usage(gpu)
                except MesosGpuError as error:
                    log.debug("GPU %s does not say what it does: %s", gpu.uuid, error)
            return found

        self._usage = await self._thread.ask(read)
        self._read_s, self._silent = time.monotonic(), False

    async def _within(self, work: Awaitable[None]) -> None:
        """Wait for the driver, but not forever."""
        try:
            await asyncio.wait_for(work, PATIENCE_S)
        except (TimeoutError, asyncio.TimeoutError):
            log.warning("the GPU driver has not answered for %g s", PATIENCE_S)
            self._usage, self._silent = {}, True

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("watching the GPUs failed", exc_info=task.exception())


def _words(gpu: Gpu, illness: Illness) -> str:
    xid = "" if illness.xid is None or f"XID {illness.xid}" in illness.reason else f"XID {illness.xid}: "
    return f"GPU {gpu.index} ({gpu.uuid}) is {illness.condition.value}: {xid}{illness.reason}"
