"""The world of ledger_histories.py with real isolators: after each event their ledger is the same.

With `check_ledger` the isolators compare it with their holdings in addition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random

from mesos_gpu.errors import Conflict
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator, ShareRecords, SharingIsolator
from mesos_gpu.isolator import ledger as led
from mesos_gpu.isolator.ledger import Holder, HolderKind, Holding
from mesos_gpu.isolator.live_ledger import LiveLedger
from mesos_gpu.isolator.reach import HeldGpu, lost, settle
from mesos_gpu.isolator.share_records import Recorded
from mesos_gpu.isolator.suspension import Suspension
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share
from tests.isolator.ledger_histories import CARD, SHARED, World


class GpuRecords(Checkpoints):
    """Records in memory; they outlast isolators."""

    def __init__(self) -> None:
        self.records: dict[ContainerId, frozenset[HeldGpu]] = {}

    def claim(self, owner: object) -> None:
        pass

    def close(self) -> None:
        pass

    def save(self, container_id: str, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        self.records[ContainerId(container_id)] = frozenset([*map(HeldGpu.of, gpus), *lost])

    def remove(self, container_id: str) -> None:
        self.records.pop(ContainerId(container_id), None)

    def has(self, container_id: str) -> bool:
        return container_id in self.records

    def load(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        return dict(self.records)


class PartRecords(ShareRecords):
    """Records of shares in memory."""

    def __init__(self) -> None:
        self.records: dict[ContainerId, Recorded] = {}

    def claim(self, owner: object) -> None:
        pass

    def close(self) -> None:
        pass

    def save(self, container_id: str, share: Share, gpus: Iterable[HeldGpu] = ()) -> None:
        self.records[ContainerId(container_id)] = Recorded(share, tuple(gpus))

    def remove(self, container_id: str) -> None:
        self.records.pop(ContainerId(container_id), None)

    def load(self) -> Mapping[ContainerId, Recorded]:
        return dict(self.records)


class Access:
    """A container whose devices can be changed; some nodes stay open."""

    def __init__(self, world: IsolatorWorld) -> None:
        self._world = world

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        pass

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return self._world.in_use.intersection(nodes)


class IsolatorWorld(World):
    """Does with real isolators what the pure ledger says, and compares."""

    def __init__(self, dice: Random) -> None:
        self.gpu_records, self.part_records = GpuRecords(), PartRecords()
        self.leases: dict[str, tuple[HeldGpu, ...]] = {}
        self.away: dict[ContainerId, Suspension] = {}
        self.in_use: frozenset[DeviceNode] = frozenset()
        self.starting = True
        super().__init__(dice)

    def start(self) -> None:
        self.starting = True
        super().start()
        self.starting, listed = False, self.listed()
        self.whole = NvidiaGpuIsolator(
            listed,
            NullDriver(),
            None,
            self.gpu_records,
            live_access=lambda pid, **more: Access(self),
            check_ledger=True,
        )
        self.sharing = SharingIsolator(self.whole, [SHARED], [CARD], self.part_records)
        held = settle({ContainerId(name): was for name, was in self.leases.items()}, listed)
        for name, was in self.leases.items():
            self.whole.lend(name, held[ContainerId(name)], lost(was, held[ContainerId(name)]))
        live = [one.id for one in self.open if one.kind is HolderKind.CONTAINER]
        for orphan in self.sharing.recover(live):
            self.sharing.cleanup(orphan)
        for name in live:
            self.whole.isolate(name, 1)
        self.whole.tell(led.ReadSuspensions(self._away()))
        self.same("start")

    def _away(self) -> dict[ContainerId, Suspension]:
        """Return the suspensions that a suspender has on record."""
        found = ((one.id, has.suspension) for one, has in self.ledger.holdings.items())
        return {ContainerId(name): there for name, there in found if there is not None}

    def apply(self, event: led.Event, *, write: bool = True, before: Callable[[], None] = lambda: None) -> None:
        super().apply(event, write=write, before=before)
        if not self.starting:
            self._do(event)
            self.same(type(event).__name__)

    def _do(self, event: led.Event) -> None:
        match event:
            case led.Allocate(holder=Holder(kind=HolderKind.LEASE, id=name), gpus=gpus):
                self.whole.lend(name, gpus)
                self.leases[name] = tuple(map(HeldGpu.of, gpus))
            case led.Allocate(holder=Holder(id=name), gpus=gpus):
                known = ContainerId(name) in self.whole.held
                if known:
                    given = frozenset(self.sharing.update(name, len(self.ledger.of(event.holder).gpus)).added)
                else:
                    given = frozenset(self.sharing.prepare(name, len(gpus)).gpus)
                    self.whole.isolate(name, 1)
                assert given == gpus
            case led.Deallocate(holder=Holder(id=name), gpus=gpus):
                self.sharing.update(name, len(self.ledger.of(event.holder).gpus), gpus)
            case led.Release(holder=Holder(kind=HolderKind.LEASE, id=name)):
                self.whole.take_back(name)
                self.leases.pop(name, None)
            case led.Release(holder=Holder(id=name)):
                self.sharing.cleanup(name)
            case led.Revoke(holder=Holder(id=name), in_use=in_use):
                self.in_use = in_use
                try:
                    self.sharing.revoke(name)
                except Conflict:
                    assert in_use
                self.in_use = frozenset()
            case led.AllocateShare(holder=Holder(id=name), share=share):
                if ContainerId(name) in self.sharing.shares:
                    self.sharing.reshare(name, share.parts)
                else:
                    self.sharing.prepare(name, 0, share=share)
                    self.whole.isolate(name, 1)
            case led.DriverListing(gpus=gpus):
                self.whole.manage(gpus)
            case led.Withdraw(uuids=uuids):
                self.whole.withdraw(uuids)
            case led.Restore(uuids=uuids):
                self.whole.restore(uuids)
            case _:
                self.whole.tell(event)

    def reboot(self) -> None:
        self.gpu_records.records.clear()
        self.part_records.records.clear()
        super().reboot()

    def same(self, when: str) -> None:
        """Compare the ledgers; a container that has nothing is known only to an isolator that prepared it."""
        pure, real = self.ledger, self.whole.ledger
        has, had = ({one: has for one, has in book.holdings.items() if has != Holding()} for book in (pure, real))
        assert had == has, when
        assert (real.gpus, real.withdrawn, real.available) == (pure.gpus, pure.withdrawn, pure.available), when
        assert (real.offered, real.leasable) == (pure.offered, pure.leasable), when


def report_by_raising() -> None:
    """Have each difference that an isolator finds raise AssertionError, and log nothing. For good."""

    def report(ledger: LiveLedger, problem: str) -> None:
        raise AssertionError(problem)

    LiveLedger.report = report  # type: ignore[method-assign]
    logging.disable(logging.CRITICAL)
