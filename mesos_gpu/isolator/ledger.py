"""The ledger: which GPU, MIG instance or GPU share each holder has, and what follows from each event. Pure.

A holder is a Mesos container, or a lease: a process or container outside of Mesos. A GPU or MIG instance has one state:

    FREE       no holder; it can be allocated
    HELD       a container has it
    LEASED     a lease has it
    WITHDRAWN  no holder; it is unhealthy or drained, and is not allocated
    REACHABLE  no holder; a container or lease that does not have it can still open its device numbers
    VANISHED   held or leased, but the driver does not list it any more

Two facts are amounts and do not name a particular GPU. A suspended container has released its GPUs and the Mesos master
still counts them for it. GPUs are promised to a container if the master counts them for it and it does not have them
yet, because it is starting or growing. `Ledger.offered` and `Ledger.leasable` follow from states and amounts.

| event | sent by | changes | source of the rule |
|---|---|---|---|
| DriverListing | start; MIG manager | which GPUs exist; containers lose instances that are gone | `reach.remaining` |
| ReadRecords | start | each container has what its record lets it open | `reach.settle`, `reach.lost` |
| ReadShares | start | each container has the share on record | share_records.py |
| ReadSuspensions | start | which containers are suspended | suspension.py |
| Allocate | isolator: prepare, update; lender | GPUs get a holder | Mesos isolators/gpu/allocator.cpp |
| Deallocate | isolator: update | GPUs lose their holder | Mesos isolators/gpu/allocator.cpp |
| Release | isolator: cleanup; lender | a holder has nothing any more | Mesos isolators/gpu/isolator.cpp |
| NoteLost | start, for shared GPUs | a holder can open numbers of GPUs that are gone | `reach.stale` |
| Revoke | isolator: device rules changed | a holder cannot open these numbers any more | `reach.revoked` |
| AllocateShare | sharing isolator: prepare, reshare | units of shared GPUs a container has | shares/gpu_shares.py |
| Withdraw, Restore | GPU health; an operator | whether a GPU without a holder can be allocated | gpu/health.py |
| StepSuspension | suspender | what the master counts for a container without GPUs | `suspension.NEXT` |
| MasterAccount | agent, before a decision that needs it | what tasks and roles have | Mesos slave.cpp, Slave::run |

`handle` returns the next ledger and the records to write or remove. A record that gives a holder more is written before
it can open that; one that gives it less is written, and the event applied, when it cannot open it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus, NotFound
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import gpu_names, gpu_nodes
from mesos_gpu.isolator.reach import (
    HeldGpu,
    Number,
    blocked,
    lost,
    numbers,
    own_numbers,
    remaining,
    revoked,
    settle,
    stale,
)
from mesos_gpu.isolator.suspension import Step, Suspension, next_suspension
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.displaced import free_of
from mesos_gpu.mesos.shares.gpu_shares import Share, SharedCard

Choice = Callable[[Collection[Gpu], int], frozenset[Gpu]]
"""Returns the given number of the GPUs that can be allocated. It is called only if there are enough."""


class HolderKind(str, Enum):
    """What a holder is."""

    CONTAINER = "container"
    LEASE = "lease"


class Holder(Struct, frozen=True, order=True):
    """Who has GPUs: a container by its id, or a lease by its name."""

    kind: HolderKind
    id: str


def container(container_id: str) -> Holder:
    """Return a container as a holder."""
    return Holder(HolderKind.CONTAINER, container_id)


def lease(name: str) -> Holder:
    """Return a lease as a holder."""
    return Holder(HolderKind.LEASE, name)


class State(Enum):
    """The state of one GPU or MIG instance; see this module's docstring."""

    FREE = "free"
    HELD = "held"
    LEASED = "leased"
    WITHDRAWN = "withdrawn"
    REACHABLE = "reachable"
    VANISHED = "vanished"


class Record(Struct, frozen=True):
    """What must be on disk about one holder."""

    gpus: tuple[HeldGpu, ...] = ()
    share: Share | None = None
    suspension: Suspension | None = None


class Holding(Struct, frozen=True):
    """What one holder has.

    `lost` are GPUs that it was given and that do not exist any more: it may still be able to open their numbers.
    """

    gpus: frozenset[Gpu] = frozenset()
    lost: frozenset[HeldGpu] = frozenset()
    share: Share | None = None
    suspension: Suspension | None = None

    @property
    def counted(self) -> int:
        """The number of GPUs that the master counts for it: held, released for a suspension, or vanished."""
        vanished = sum(not was.replaced for was in self.lost)
        released = 0
        if self.suspension is not None and self.share is None and not self.gpus:
            released = len(self.suspension.gpus)
        return len(self.gpus) + vanished + released

    @property
    def record(self) -> Record | None:
        """What must be on disk about it; None if it has nothing."""
        if not self.gpus and not self.lost and self.share is None and self.suspension is None:
            return None
        gone = sorted(self.lost, key=lambda was: (was.uuid, was.minor))
        return Record((*map(HeldGpu.of, sorted(self.gpus)), *gone), self.share, self.suspension)


class DriverListing(Struct, frozen=True):
    """The GPUs and MIG instances to allocate that exist now."""

    gpus: frozenset[Gpu]


class ReadShares(Struct, frozen=True):
    """The records of shares were read at start."""

    containers: Mapping[ContainerId, Share]


class ReadSuspensions(Struct, frozen=True):
    """The record of suspensions was read at start."""

    containers: Mapping[ContainerId, Suspension]


class Allocate(Struct, frozen=True):
    """Give a holder GPUs in addition to what it has; the holder of a new lease can open the `lost` ones, too."""

    holder: Holder
    gpus: frozenset[Gpu]
    lost: frozenset[HeldGpu] = frozenset()


class ReadRecords(Struct, frozen=True):
    """The records of containers were read at start. What leases have or claim is not theirs.

    `claims` are leases of an earlier process: they get GPUs that containers on record can open, too.
    """

    containers: Mapping[ContainerId, frozenset[HeldGpu]]
    claims: tuple[Allocate, ...] = ()


class Deallocate(Struct, frozen=True):
    """Take some GPUs from a holder."""

    holder: Holder
    gpus: frozenset[Gpu]


class Release(Struct, frozen=True):
    """A holder has ended and cannot open anything any more."""

    holder: Holder


class NoteLost(Struct, frozen=True):
    """A holder was given these GPUs, and they do not exist any more."""

    holder: Holder
    lost: frozenset[HeldGpu]


class Revoke(Struct, frozen=True):
    """A holder was denied the numbers of GPUs that it has lost; some process still has the nodes `in_use` open."""

    holder: Holder
    in_use: frozenset[DeviceNode] = frozenset()


class AllocateShare(Struct, frozen=True):
    """A container has this share in the place of the one that it has; without parts it is suspended."""

    holder: Holder
    share: Share


class Withdraw(Struct, frozen=True):
    """Do not allocate these GPUs any more."""

    uuids: frozenset[str]


class Restore(Struct, frozen=True):
    """Allocate these GPUs again."""

    uuids: frozenset[str]


class StepSuspension(Struct, frozen=True):
    """A step of the suspension of a container; with SUSPEND `gpus` are the UUIDs that it has."""

    holder: Holder
    step: Step
    gpus: tuple[str, ...] = ()


class MasterAccount(Struct, frozen=True):
    """What the master counts: the number of GPUs of each container with tasks, and how many are reserved for roles."""

    gpus: Mapping[Holder, int]
    reserved: int = 0


HolderEvent: TypeAlias = Allocate | Deallocate | Release | NoteLost | Revoke | AllocateShare | StepSuspension
"""Events about one holder; only these change records."""
Event: TypeAlias = (
    HolderEvent | DriverListing | ReadRecords | ReadShares | ReadSuspensions | Withdraw | Restore | MasterAccount
)


class WriteRecord(Struct, frozen=True):
    """Write the record of a holder."""

    holder: Holder
    record: Record


class RemoveRecord(Struct, frozen=True):
    """Remove the record of a holder."""

    holder: Holder


Action: TypeAlias = WriteRecord | RemoveRecord
_NOTHING = Holding()


class Ledger(Struct, frozen=True):
    """Every holder with what it has. `gpus` are those that the driver lists and that are allocated exclusively.

    `shared` are the GPUs that containers share, by index, and `cards` how they are offered.
    """

    gpus: frozenset[Gpu] = frozenset()
    shared: Mapping[int, Gpu] = field(default_factory=dict)
    cards: Mapping[int, SharedCard] = field(default_factory=dict)
    holdings: Mapping[Holder, Holding] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    account: MasterAccount = field(default_factory=lambda: MasterAccount({}))

    def of(self, holder: Holder) -> Holding:
        """Return what a holder has; nothing for one that is not known."""
        return self.holdings.get(holder, _NOTHING)

    @property
    def containers(self) -> Mapping[Holder, Holding]:
        """What each container has."""
        return {one: has for one, has in self.holdings.items() if one.kind is HolderKind.CONTAINER}

    @property
    def allocated(self) -> frozenset[Gpu]:
        """The GPUs that have a holder."""
        return frozenset[Gpu]().union(*(has.gpus for has in self.holdings.values()))

    @property
    def total(self) -> frozenset[Gpu]:
        """The GPUs that have a holder, and those that are listed and can have one."""
        allocated = self.allocated
        if allocated <= self.gpus:
            return self.gpus
        _, others = remaining(_held(self), self.gpus, lent=_held(self))
        return allocated | others

    @property
    def free(self) -> frozenset[Gpu]:
        """The GPUs that have no holder."""
        return self.total - self.allocated

    @property
    def blocked(self) -> frozenset[str]:
        """The UUIDs of GPUs without a holder that a container or lease can open."""
        if self.allocated <= self.gpus and not any(has.lost for has in self.holdings.values()):
            return frozenset()  # the numbers of GPUs that the driver lists at one time differ from each other
        reach = numbers(node for has in self.holdings.values() for node in gpu_nodes(has.gpus)) | self._stale_numbers
        return blocked(self.free, reach)

    @property
    def available(self) -> frozenset[Gpu]:
        """The GPUs that can be allocated."""
        closed = self.withdrawn | self.blocked
        if not closed:
            return self.free
        return frozenset(gpu for gpu in self.free if gpu.uuid not in closed)

    @property
    def present(self) -> int:
        """The number of GPUs that the master can offer or that containers here have."""
        return len(self.available) + sum(len(has.gpus) for has in self.containers.values())

    @property
    def absent(self) -> int:
        """The number of GPUs that the master counts for containers which do not have them: vanished or suspended."""
        return sum(has.counted - len(has.gpus) for has in self.containers.values())

    @property
    def offered(self) -> int:
        """The number of GPUs that the master is told: it counts those of containers, and offers the other ones."""
        return self.present + self.absent

    @property
    def promised(self) -> int:
        """The number of GPUs that the master counts for containers that do not have them yet."""
        return sum(max(0, count - self.of(one).counted) for one, count in self.account.gpus.items())

    @property
    def leasable(self) -> int:
        """The number of GPUs that can be leased now: not promised, and not needed for what is reserved."""
        return max(0, min(len(self.available) - self.promised, self.offered - self.account.reserved))

    @property
    def shares(self) -> Mapping[Holder, Share]:
        """The share of each container that has one."""
        return {one: has.share for one, has in self.holdings.items() if has.share is not None}

    def missing(self, holder: Holder) -> frozenset[str]:
        """Return the UUIDs of GPUs that a holder was given and that the driver does not list any more."""
        here, has = {gpu.uuid for gpu in self.gpus}, self.of(holder)
        return frozenset(was.uuid for was in has.lost) | {gpu.uuid for gpu in has.gpus if gpu.uuid not in here}

    def state(self, uuid: str) -> tuple[State, Holder | None]:
        """Return the state of a GPU, and its holder if it has one. Raises NotFound."""
        for one, has in self.holdings.items():
            if any(gpu.uuid == uuid for gpu in has.gpus):
                if all(gpu.uuid != uuid for gpu in self.gpus):
                    return State.VANISHED, one
                return (State.HELD if one.kind is HolderKind.CONTAINER else State.LEASED), one
        if all(gpu.uuid != uuid for gpu in self.free):
            raise NotFound(f"there is no GPU {uuid}")
        if uuid in self.withdrawn:
            return State.WITHDRAWN, None
        return (State.REACHABLE if uuid in self.blocked else State.FREE), None

    def stale(self, holder: Holder) -> frozenset[DeviceNode]:
        """Return the nodes that a holder can open and that belong to no GPU which it has: to be denied."""
        has = self.of(holder)
        if not has.lost:
            return frozenset()
        majors = {node.major for gpu in self.total if gpu.mig is not None for node in gpu.mig.nodes}
        return stale(has.lost, has.gpus.union(_shared_by(self, has)), majors)

    def reaches(self, gpu: Gpu) -> bool:
        """Return whether a holder can open a GPU by the numbers of one that it has lost."""
        return not own_numbers(gpu).isdisjoint(self._stale_numbers)

    @property
    def _stale_numbers(self) -> frozenset[Number]:
        return numbers(node for one in self.holdings for node in self.stale(one))


def choose(ledger: Ledger, count: int, choice: Choice | None = None) -> frozenset[Gpu]:
    """Return `count` GPUs that can be allocated: those of the lowest device numbers, or as `choice` says.

    Raises NotEnoughGpus, BadInput if `count` is negative, ValueError if `choice` returns others than it may.
    """
    if count < 0:
        raise BadInput(f"a container cannot be given {count} GPUs")
    available = ledger.available
    if count > len(available):
        raise NotEnoughGpus(asked=count, free=len(available))
    if choice is None:
        return frozenset(sorted(available)[:count])
    chosen = frozenset(choice(available, count))
    if len(chosen) != count or not chosen <= available:
        raise ValueError(f"`choice` must return {count} of the GPUs {gpu_names(available)}, and returned {chosen}")
    return chosen


def handle(ledger: Ledger, event: Event) -> tuple[Ledger, tuple[Action, ...]]:
    """Return the ledger after an event, and the records to write or remove.

    Refuses by raising NotEnoughGpus, Conflict, BadInput or NotFound.
    """
    match event:
        case DriverListing():
            return _on_listing(ledger, event.gpus), ()
        case ReadRecords():
            return _on_records(ledger, event), ()
        case ReadShares():
            found = {container(one): replace(ledger.of(container(one)), share=s) for one, s in event.containers.items()}
            return replace(ledger, holdings={**ledger.holdings, **found}), ()
        case ReadSuspensions():
            known = {container(one): there for one, there in event.containers.items()}
            now = {
                one: replace(has, suspension=known[one]) if one in known else has
                for one, has in ledger.holdings.items()
            }
            return replace(ledger, holdings=now), ()
        case Withdraw():
            return replace(ledger, withdrawn=ledger.withdrawn | event.uuids), ()
        case Restore():
            return replace(ledger, withdrawn=ledger.withdrawn - event.uuids), ()
        case MasterAccount():
            return replace(ledger, account=event), ()
        case _:
            return _on_holder(ledger, event)


def _on_holder(ledger: Ledger, event: HolderEvent) -> tuple[Ledger, tuple[Action, ...]]:
    before = ledger.of(event.holder)
    after = _next_holding(ledger, event, before)
    others = {one: has for one, has in ledger.holdings.items() if one != event.holder}
    changed = replace(ledger, holdings=others if after is None else {**others, event.holder: after})
    record = None if after is None else after.record
    if record == before.record:
        return changed, ()
    return changed, (RemoveRecord(event.holder) if record is None else WriteRecord(event.holder, record),)


def _next_holding(ledger: Ledger, event: HolderEvent, has: Holding) -> Holding | None:
    """Return what the holder of an event has afterwards, None if it is forgotten."""
    match event:
        case Allocate():
            _check_free(ledger, event)
            return replace(has, gpus=has.gpus | event.gpus, lost=has.lost | event.lost)
        case Deallocate():
            strange = event.gpus - has.gpus
            if strange:
                raise Conflict(f"GPUs {gpu_names(strange)} are not allocated to {event.holder.id}")
            return replace(has, gpus=has.gpus - event.gpus)
        case Release():
            return None
        case NoteLost():
            return replace(has, lost=has.lost | event.lost)
        case Revoke():
            return replace(has, lost=revoked(has.lost, event.in_use))
        case AllocateShare():
            _check_share(ledger, event, has)
            return replace(has, share=event.share)
        case StepSuspension():
            name = ContainerId(event.holder.id)
            if event.holder not in ledger.holdings:
                if event.step is not Step.SUSPEND:
                    return None  # it has ended in the meantime
                raise NotFound(f"container {name} has no GPUs here")
            return replace(has, suspension=next_suspension(has.suspension, name, event.step, event.gpus))


def _check_free(ledger: Ledger, event: Allocate) -> None:
    """Refuse GPUs that have a holder, do not exist, or can be opened by another. Raises Conflict, BadInput."""
    _check_lease(ledger, event)
    if event.gpus and ledger.of(event.holder).share is not None:
        raise BadInput(f"container {event.holder.id} shares GPUs and cannot be given whole ones")
    closed = ledger.blocked
    missing = (event.gpus - ledger.free).union(gpu for gpu in event.gpus if gpu.uuid in closed)
    if missing:
        raise Conflict(f"GPUs {gpu_names(missing)} are not available")


def _check_lease(ledger: Ledger, event: Allocate) -> None:
    if event.holder.kind is HolderKind.LEASE and event.holder in ledger.holdings:
        raise Conflict(f"GPUs are leased under the name {event.holder.id} already")


def _check_share(ledger: Ledger, event: AllocateShare, has: Holding) -> None:
    """Refuse units that are not free. A container keeps its part of a withdrawn GPU."""
    if has.gpus:
        raise BadInput(f"container {event.holder.id} has whole GPUs and cannot have a share of others")
    had = frozenset() if has.share is None else frozenset(part.card for part in has.share.parts)
    others = [share for one, share in ledger.shares.items() if one != event.holder]
    for part in event.share.parts:
        card = ledger.cards.get(part.card)
        if card is None:
            raise BadInput(f"GPU {part.card} is not shared here: {', '.join(map(str, ledger.cards)) or 'none is'}")
        gpu = ledger.shared[part.card]
        if (gpu.uuid in ledger.withdrawn and part.card not in had) or ledger.reaches(gpu):
            raise NotEnoughGpus(asked=part.mem_units, free=0, of=f"GiB of GPU {part.card}, which is not available")
        memory, slices = free_of([card], others)[part.card]
        if part.mem_units > memory:
            raise NotEnoughGpus(asked=part.mem_units, free=memory, of=f"GiB of GPU {part.card}")
        if part.weight > slices:
            raise NotEnoughGpus(asked=part.weight, free=slices, of=f"slices of GPU {part.card}")


def _on_listing(ledger: Ledger, listed: frozenset[Gpu]) -> Ledger:
    leases = [ContainerId(_key(one)) for one in ledger.holdings if one.kind is HolderKind.LEASE]
    stays, _ = remaining(_held(ledger), listed, lent=leases)
    holdings = {
        one: replace(has, gpus=has.gpus & stays, lost=has.lost.union(map(HeldGpu.of, has.gpus - stays)))
        if has.gpus - stays
        else has
        for one, has in ledger.holdings.items()
    }
    return replace(ledger, gpus=listed, holdings=holdings)


def _on_records(ledger: Ledger, event: ReadRecords) -> Ledger:
    """Return the ledger with what leases claim, and what the containers on record can open of the other GPUs."""
    leases = {one: has for one, has in ledger.holdings.items() if one.kind is HolderKind.LEASE}
    for claim in event.claims:
        _check_lease(ledger, claim)
        missing = claim.gpus - ledger.gpus.difference(*(has.gpus for has in leases.values()))
        if missing:
            raise Conflict(f"GPUs {gpu_names(missing)} are not available")
        leases[claim.holder] = Holding(claim.gpus, claim.lost)
    held = settle(event.containers, ledger.gpus.difference(*(has.gpus for has in leases.values())))
    found: dict[Holder, Holding] = {}
    given: set[Gpu] = set()
    for one, was in sorted(event.containers.items()):
        if not given.isdisjoint(held[one]):
            raise Conflict(f"container {one} is on record with another's GPUs: {gpu_names(given & held[one])}")
        given |= held[one]
        found[container(one)] = replace(ledger.of(container(one)), gpus=held[one], lost=lost(was, held[one]))
    others = {
        one: replace(has, gpus=frozenset()) for one, has in ledger.containers.items() if one not in found
    }  # what they share or can open of GPUs that are gone is on other records
    return replace(ledger, holdings={**leases, **others, **found})


def violations(ledger: Ledger) -> Iterator[str]:
    """Yield what is inconsistent in a ledger; each event keeps it consistent."""
    holders: dict[str, Holder] = {}
    for one, has in sorted(ledger.holdings.items()):
        for gpu in sorted(has.gpus):
            other = holders.setdefault(gpu.uuid, one)
            if other != one:
                yield f"GPU {gpu.uuid} is allocated to {other.id} and {one.id}"
        if has.gpus and has.share is not None:
            yield f"{one.id} has whole GPUs and a share of others"
        if one.kind is HolderKind.LEASE and (has.share is not None or has.suspension is not None):
            yield f"lease {one.id} has what only containers have"
    for index, (memory, slices) in free_of(ledger.cards.values(), ledger.shares.values()).items():
        if memory < 0 or slices < 0:
            yield f"{-memory} GiB and {-slices} slices of GPU {index} are allocated beyond what it has"
    for gpu in sorted(ledger.available):
        own = own_numbers(gpu)
        for one, has in ledger.holdings.items():
            if not own.isdisjoint(numbers([*gpu_nodes(has.gpus), *ledger.stale(one)])):
                yield f"GPU {gpu.uuid} can be allocated, and {one.id} can open it"


def _shared_by(ledger: Ledger, has: Holding) -> frozenset[Gpu]:
    parts = () if has.share is None else has.share.parts
    return frozenset(ledger.shared[part.card] for part in parts if part.card in ledger.shared)


def _held(ledger: Ledger) -> Mapping[ContainerId, frozenset[Gpu]]:
    return {ContainerId(_key(one)): has.gpus for one, has in ledger.holdings.items()}


def _key(holder: Holder) -> str:
    """Return a name that differs between a container and a lease of the same id."""
    return f"{holder.kind.value}/{holder.id}"
