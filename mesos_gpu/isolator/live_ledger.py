"""The ledger of a running isolator. It is told each change, and can be compared with the holdings after each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator import ledger as led
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share, SharedCard

log = logging.getLogger(__name__)
T = TypeVar("T")


class LedgerDifferenceError(Exception):
    """The ledger and the owners of GPUs differ."""


class LiveLedger:
    """Holds a ledger. With `compares` it is checked and compared with its sources after each event.

    Each difference is logged as an error, and only once: it would be found again after each event.
    """

    def __init__(self, gpus: Iterable[Gpu], *, compares: bool = True) -> None:
        self.ledger = led.Ledger(gpus=frozenset(gpus))
        self.compares = compares
        self._reported: set[str] = set()

    def share(self, gpus: Mapping[int, Gpu], cards: Mapping[int, SharedCard]) -> None:
        """Take note of the GPUs that containers share."""
        self.ledger = replace(self.ledger, shared=gpus, cards=cards)

    def apply(self, event: led.Event) -> None:
        """Apply what the owners have done; they have not refused it."""
        try:
            self.ledger, _ = led.handle(self.ledger, event)
        except MesosGpuError as error:
            self.report(f"the ledger refuses {event}: {error}")
        for problem in led.violations(self.ledger) if self.compares else ():
            self.report(f"after {event}: {problem}")

    def decided(self, what: str, owner: Callable[[], T], ledger: Callable[[], T]) -> T:
        """Return what the owner decides, or raise what it raises; the ledger must decide the same."""
        if not self.compares:
            return owner()
        expected: object
        try:
            expected = ledger()
        except MesosGpuError as error:
            expected = type(error)
        try:
            decided = owner()
        except MesosGpuError as error:
            self.equal(what, expected, type(error))
            raise
        self.equal(what, expected, decided)
        return decided

    def equal(self, what: str, ledger: object, owner: object) -> None:
        """Compare one value."""
        if ledger != owner:
            self.report(f"{what}: the ledger has {ledger}, the owner {owner}")

    def compare_gpus(
        self,
        *,
        total: Collection[Gpu],
        free: Collection[Gpu],
        available: Collection[Gpu],
        blocked: Collection[str],
        held: Mapping[ContainerId, frozenset[Gpu]],
        leased: Mapping[str, frozenset[Gpu]],
        lost: Mapping[str, frozenset[HeldGpu]],
    ) -> None:
        """Compare who holds what of the GPUs that are allocated exclusively; `lost` by holder."""
        book = self.ledger
        owners = {led.container(one): gpus for one, gpus in held.items() if gpus}
        owners |= {led.lease(one): gpus for one, gpus in leased.items() if gpus}
        self.equal("holders", {one: has.gpus for one, has in book.holdings.items() if has.gpus}, owners)
        self.equal("lost GPUs", {one.id: has.lost for one, has in book.holdings.items() if has.lost}, dict(lost))
        self.equal("total", book.total, total)
        self.equal("free", book.free, free)
        self.equal("available", book.available, available)
        self.equal("reachable", book.blocked, blocked)

    def compare_shares(self, shares: Mapping[ContainerId, Share]) -> None:
        """Compare who shares which GPUs."""
        if self.compares:
            self.equal("shares", {ContainerId(one.id): has for one, has in self.ledger.shares.items()}, dict(shares))

    def report(self, problem: str) -> None:
        """Log a difference."""
        if problem not in self._reported:
            self._reported.add(problem)
            log.error("GPU ledger: %s", problem, exc_info=LedgerDifferenceError(problem))
