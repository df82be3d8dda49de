"""Who holds which GPU, in Mesos or outside, and which GPUs they were given that do not exist any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import get_args

from mesos_gpu.errors import BadInput, Conflict, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import gpu_nodes
from mesos_gpu.isolator.arguments import container_id_of, gpus_of, lost_gpus_of, texts_of
from mesos_gpu.isolator.ledger import (
    Allocate,
    Choice,
    Deallocate,
    DriverListing,
    Event,
    HolderKind,
    Ledger,
    NoteLost,
    Release,
    Restore,
    Withdraw,
    choose,
    container,
    lease,
)
from mesos_gpu.isolator.live_ledger import LiveLedger
from mesos_gpu.isolator.pool import GpuPool
from mesos_gpu.isolator.reach import HeldGpu, blocked, numbers, own_numbers, remaining, stale
from mesos_gpu.isolator.serial import SerialAccess, serial
from mesos_gpu.mesos.ids import ContainerId

_LENT = "/"  # prefix of names in the pool of holders outside Mesos; no container id contains it


class LostGpus:
    """What containers, and holders outside Mesos, were given of the GPUs that the driver lists no longer."""

    def __init__(self) -> None:
        self._of: dict[ContainerId, frozenset[HeldGpu]] = {}
        self.ghosts = False
        """Whether some of the GPUs that are held or lent are not listed by the driver any more."""

    def of(self, holder: ContainerId) -> frozenset[HeldGpu]:
        """Return what a holder has lost."""
        return self._of.get(holder, frozenset())

    def all(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        """Return what each holder has lost; a copy."""
        return dict(self._of)

    def add(self, holder: ContainerId, gone: Collection[HeldGpu]) -> None:
        """Take note that a holder has lost these, too."""
        self.put(holder, self.of(holder).union(gone))

    def put(self, holder: ContainerId, gone: frozenset[HeldGpu]) -> None:
        """Take note that a holder has lost these, and no others."""
        self._of[holder] = gone
        if not gone:
            del self._of[holder]

    def drop(self, holder: ContainerId) -> None:
        """Forget a holder that has ended."""
        self._of.pop(holder, None)

    def stale(self, holder: ContainerId, pool: GpuPool, keeps: Collection[Gpu] = ()) -> frozenset[DeviceNode]:
        """Return the nodes that a holder can open and that belong to no GPU which it holds or `keeps`."""
        gone = self.of(holder)
        if not gone:
            return frozenset()
        majors = {node.major for gpu in pool.total if gpu.mig is not None for node in gpu.mig.nodes}
        return stale(gone, (pool.held_by(holder) or frozenset()).union(keeps), majors)

    def all_stale(
        self, pool: GpuPool, but: Collection[ContainerId] = ()
    ) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        """Return these nodes of each holder that has any, `but` these."""
        found = {one: self.stale(one, pool) for one in self._of if one not in but}
        return {one: nodes for one, nodes in found.items() if nodes}

    def reaches(self, gpu: Gpu, pool: GpuPool) -> bool:
        """Return whether a holder can open a GPU by the numbers of one that it has lost."""
        stale_nodes = (node for nodes in self.all_stale(pool).values() for node in nodes)
        return not own_numbers(gpu).isdisjoint(numbers(stale_nodes))

    def blocked(self, pool: GpuPool) -> frozenset[str]:
        """Return the UUIDs of the free GPUs that a holder can open which does not hold them."""
        if not self._of and not self.ghosts:
            return frozenset()  # the numbers of GPUs that the driver lists at one time differ from each other
        reach = numbers(node for nodes in self.all_stale(pool).values() for node in nodes)
        reach |= numbers(node for gpus in pool.held.values() for node in gpu_nodes(gpus))
        return blocked(pool.free, reach)


class Holdings:
    """The GPUs of one agent with their holders. Nothing here is on disk or in the kernel. Thread-safe."""

    def __init__(self, gpus: Iterable[Gpu], choice: Choice | None, *, check_ledger: bool = False) -> None:
        self.access = SerialAccess("this isolator")
        self._pool = GpuPool(gpus_of(gpus), choice=choice)
        self._listed = self._pool.total
        self.live_ledger = LiveLedger(self._listed, compares=check_ledger)
        self._lost = LostGpus()

    @property
    @serial
    def ledger(self) -> Ledger:
        """The ledger: who has which GPU, in Mesos, outside, and in parts."""
        return self.live_ledger.ledger

    @property
    @serial
    def total(self) -> frozenset[Gpu]:
        """The GPUs that this isolator manages, free or held."""
        return self._pool.total

    @property
    @serial
    def free(self) -> frozenset[Gpu]:
        """The GPUs that no container holds."""
        return self._pool.free

    @property
    @serial
    def withdrawn(self) -> frozenset[str]:
        """The uuids of GPUs that `prepare` and `update` do not give."""
        return self._pool.withdrawn

    @serial
    def withdraw(self, uuids: Iterable[str]) -> None:
        """Give these GPUs to no container from now on; one that is held stays with its holder."""
        names = texts_of(uuids, "UUIDs")
        self._pool.withdrawn = self._pool.withdrawn.union(names)
        self._changed(Withdraw(names))

    @serial
    def restore(self, uuids: Iterable[str]) -> None:
        """Give these GPUs again."""
        names = texts_of(uuids, "UUIDs")
        self._pool.withdrawn = self._pool.withdrawn.difference(names)
        self._changed(Restore(names))

    @property
    @serial
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """The GPUs of every container that was prepared or recovered and is not cleaned up; empty for one without."""
        return {name: gpus for name, gpus in self._pool.held.items() if not name.startswith(_LENT)}

    @property
    @serial
    def lent(self) -> Mapping[str, frozenset[Gpu]]:
        """The GPUs that holders outside Mesos have, by the name that they were lent under."""
        return {one.id: has.gpus for one, has in self.ledger.holdings.items() if one.kind is HolderKind.LEASE}

    @property
    @serial
    def blocked(self) -> frozenset[str]:
        """The UUIDs of free GPUs that are given to no container, because one that does not hold them can open them."""
        return self._pool.blocked

    @serial
    def stale(self) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        """Return the nodes that containers can open and that belong to no GPU which they hold: see `revoke`."""
        return self._lost.all_stale(self._pool, self._lent)

    @serial
    def reachable(self, gpu: Gpu) -> bool:
        """Return whether a container, or a holder outside Mesos, can open a GPU that has been taken from it."""
        (known,) = gpus_of([gpu])
        return self._lost.reaches(known, self._pool)

    @serial
    def manage(self, gpus: Iterable[Gpu]) -> None:
        """Have these GPUs from now on, for MIG instances come and go.

        A MIG instance that a container holds and that is not among them is `lost`; its holder can open its nodes until
        `revoke`, and until then no GPU with these nodes is given. A whole GPU, and what is lent, stays with its holder.
        """
        self._listed = gpus_of(gpus)
        self._list_again()
        self._changed(DriverListing(self._listed))

    @serial
    def note_lost(self, container_id: str, lost: Collection[HeldGpu]) -> None:
        """Take note of GPUs that a container, or the holder of a lease, was given and does not hold any more."""
        name, gone = container_id_of(container_id), lost_gpus_of(lost)
        self._lost.add(name, gone)
        self._changed(NoteLost(container(name), gone))

    @serial
    def lend(self, name: str, gpus: Collection[Gpu], lost: Collection[HeldGpu] = ()) -> None:
        """Give free GPUs to a holder outside Mesos; who it is, and the record of it, is the caller's affair.

        It was given the `lost` ones, too, and can still open their nodes: no GPU with these is given until its end.

        Also before `recover`, which keeps what is lent. Raises Conflict when one is not free, or the name is taken;
        BadInput if `name` is not a string, or an item of `gpus` or `lost` is of another type.
        """
        gpus, lost = gpus_of(gpus), lost_gpus_of(lost)
        self._check_name(name)
        self._lend(name, gpus, lost, Allocate(lease(name), gpus, lost))

    @serial
    def take_back(self, name: str) -> None:
        """Free what was lent under a name; an unknown one is not an error."""
        borrower = _borrower(name)
        if borrower in self._lent:
            self._release(borrower, Release(lease(name)))

    @serial
    def tell(self, event: Event) -> None:
        """Tell the ledger what changed outside of this isolator. Raises BadInput for what is no event."""
        if not isinstance(event, get_args(Event)):
            raise BadInput(f"the ledger must be told an event, not {event!r}")
        self.live_ledger.apply(event)

    @property
    def _lent(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """What leases have, by their names in the pool."""
        return {_borrower(name): gpus for name, gpus in self.lent.items()}

    def _holds(self, container_id: ContainerId) -> frozenset[Gpu]:
        holds = self._pool.held_by(container_id)
        if holds is None:
            raise NotFound(f"container {container_id} has not been prepared")
        return holds

    def _choose(self, count: int) -> frozenset[Gpu]:
        """Return `count` GPUs to allocate. Raises NotEnoughGpus."""
        return self.live_ledger.decided(
            f"{count} GPUs",
            lambda: self._pool.choose(count),
            lambda: choose(self.ledger, count, self._pool.choice),
        )

    def _take(self, name: ContainerId, gpus: Collection[Gpu]) -> None:
        """Allocate GPUs to a container. Raises Conflict."""
        self._pool.take(name, gpus)
        self._changed(Allocate(container(name), frozenset(gpus)))

    def _give_back(self, name: ContainerId, gpus: Collection[Gpu]) -> None:
        """Take GPUs from a container. Raises Conflict."""
        self._pool.give_back(name, gpus)
        if self._lost.ghosts:
            self._list_again()
        self._changed(Deallocate(container(name), frozenset(gpus)))

    def _release(self, holder: ContainerId, event: Release) -> None:
        """Forget a holder that has ended. A GPU that it had and that the driver does not list is not there any more."""
        self._pool.release(holder)
        self._lost.drop(holder)
        if self._lost.ghosts:
            self._list_again()
        self._changed(event)

    def _check_name(self, name: str) -> None:
        """Raise Conflict for the name of a lease, BadInput for what is no name."""
        if _borrower(name) in self._lent:
            raise Conflict(f"GPUs are lent under the name {name} already")

    def _lend(self, name: str, gpus: frozenset[Gpu], lost: frozenset[HeldGpu], event: Event) -> None:
        borrower = _borrower(name)
        self._pool.take(borrower, gpus)
        self._lost.add(borrower, lost)
        self._changed(event)

    def _list_again(self) -> None:
        """Have the GPUs that the driver lists; containers lose MIG instances that it does not list."""
        before = self._pool
        stays, new = remaining(before.held, self._listed, lent=self._lent)
        pool = GpuPool([*stays, *new], choice=before.choice, vanished=True)
        pool.withdrawn = before.withdrawn
        for holder, held in before.held.items():
            pool.take(holder, held & stays)
            self._lost.add(holder, list(map(HeldGpu.of, held - stays)))
        self._pool, self._lost.ghosts = pool, not stays <= self._listed

    def _changed(self, event: Event) -> None:
        """Take note of a change: see what containers can open, and tell the ledger."""
        self._block()
        self.live_ledger.apply(event)
        if self.live_ledger.compares:
            self._compare(self.live_ledger)

    def _block(self) -> None:
        """Keep free GPUs from being given that a container or borrower can open which does not hold them."""
        self._pool.blocked = self._lost.blocked(self._pool)

    def _compare(self, check: LiveLedger) -> None:
        pool = self._pool
        leased = {one.removeprefix(_LENT): gpus for one, gpus in pool.held.items() if one.startswith(_LENT)}
        check.compare_gpus(
            total=pool.total,
            free=pool.free,
            available=pool.available,
            blocked=pool.blocked,
            held=self.held,
            leased=leased,
            lost={one.removeprefix(_LENT): gone for one, gone in self._lost.all().items()},
        )


def _borrower(name: object) -> ContainerId:
    """Return the name in the pool of a holder outside Mesos. Raises BadInput."""
    if not isinstance(name, str):
        raise BadInput(f"the name under which GPUs are lent must be a string, not {name!r}")
    return ContainerId(_LENT + name)
