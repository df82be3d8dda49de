"""Random histories of the pure ledger: `python -m tests.isolator.ledger_histories --seed 1 --histories 1000`.

Beside the ledger there is what it speaks of: a driver whose GPUs come and go, a kernel that knows device numbers only,
and a disk with one record for each holder. The agent can be killed between any two of: decide, write, open or close.
What was played, and with what result, is kept in ledger_histories.txt.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from mesos_gpu.errors import Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import NVIDIA_MAJOR, DeviceNode, Gpu, MigInstance
from mesos_gpu.isolator import ledger as led
from mesos_gpu.isolator.access import gpu_nodes
from mesos_gpu.isolator.ledger import Holder, HolderKind, Ledger
from mesos_gpu.isolator.reach import Number, lost, numbers, own_numbers, settle
from mesos_gpu.isolator.suspension import Phase, Step, Suspension, after_crash
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard

STEPS = 40
MIG_GPUS, SLOTS, CAPS_MAJOR = 2, 3, 240
CONTAINERS = tuple(led.container(name) for name in "abcde")
LEASES = tuple(led.lease(name) for name in "kl")
SHARED = Gpu(minor=9, index=9, uuid="GPU-shared", name="GPU")
CARD = SharedCard(9, SHARED.uuid, memory_mib=8 * 1024, slices=10)


class Killed(BaseException):
    """The agent was killed."""


class World:
    """One machine. What is not the agent's outlives it."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.events: Counter[str] = Counter()
        self.names = 0
        self.minors = list(range(MIG_GPUS + 2))
        self.instances: list[dict[int, str]] = [{} for _ in range(MIG_GPUS)]
        self.present = {MIG_GPUS, MIG_GPUS + 1}
        self.records: dict[Holder, led.Record] = {}
        self.open: dict[Holder, frozenset[Number]] = {}
        self.shares: dict[Holder, tuple[CardPart, ...]] = {}
        self.deadly = False
        self.ledger = Ledger()
        self.start()

    # --- the driver -------------------------------------------------------------------------------------------------

    def listed(self) -> frozenset[Gpu]:
        found = [Gpu(minor=self.minors[n], index=n, uuid=f"GPU-{n}", name="GPU") for n in self.present if n >= MIG_GPUS]
        for n, slots in enumerate(self.instances):
            found += [_instance(self.minors[n], slot, name) for slot, name in slots.items()]
        return frozenset(found)

    # --- the agent --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start an agent: leases keep what they can open, then containers; those that do not run are cleaned up."""
        self.ledger = Ledger(gpus=self.listed(), shared={9: SHARED}, cards={9: CARD})
        recorded = {one: record.gpus for one, record in self.records.items() if one.kind is HolderKind.LEASE}
        names = {ContainerId(one.id): gpus for one, gpus in recorded.items()}
        held = settle(names, self.ledger.gpus)
        for one in recorded:
            mine = held[ContainerId(one.id)]
            self.apply(led.Allocate(one, mine, lost(recorded[one], mine)), write=False)
        containers = {
            ContainerId(one.id): record for one, record in self.records.items() if one.kind is HolderKind.CONTAINER
        }
        self.apply(led.ReadRecords({one: frozenset(record.gpus) for one, record in containers.items()}))
        self.apply(led.ReadShares({one: rec.share for one, rec in containers.items() if rec.share is not None}))
        away = {one: rec.suspension for one, rec in containers.items() if rec.suspension is not None}
        self.apply(led.ReadSuspensions(away))
        for one in [one for one in self.ledger.containers if one not in self.open]:
            self.end(one)
        for name, there in away.items():
            self._lead_back(led.container(name), there)

    def _lead_back(self, one: Holder, there: Suspension) -> None:
        """Do what follows for a container that an agent was suspending or resuming when it was killed."""
        if one in self.ledger.holdings and there.phase is not Phase.SUSPENDED:
            step = after_crash(there.phase, holds=bool(self.ledger.of(one).gpus))
            self.apply(led.StepSuspension(one, step))

    def apply(self, event: led.Event, *, write: bool = True, before: Callable[[], None] = lambda: None) -> None:
        """Decide, write, commit; `before` is done before anything is written. The agent may be killed in between."""
        after, actions = led.handle(self.ledger, event)
        self.events[type(event).__name__] += 1
        before()
        self.moment()
        for action in actions if write else ():
            match action:
                case led.WriteRecord(holder=holder, record=record):
                    self.records[holder] = record
                case led.RemoveRecord(holder=holder):
                    self.records.pop(holder, None)
        self.moment()
        self.ledger = after

    def moment(self) -> None:
        if self.deadly and self.dice.random() < 0.2:
            raise Killed

    # --- what happens -----------------------------------------------------------------------------------------------

    def _open(self, one: Holder) -> None:
        """Have the kernel let a holder open what it has, besides what it can open already."""
        self.open[one] = self.open.get(one, frozenset()) | numbers(gpu_nodes(self.ledger.of(one).gpus))

    def launch(self) -> None:
        one = self.dice.choice(CONTAINERS)
        if one in self.open or one in self.ledger.holdings:
            return
        chosen = led.choose(self.ledger, self.dice.randint(0, 2))
        self.apply(led.Allocate(one, chosen))
        self._open(one)

    def resize(self) -> None:
        one = self.dice.choice(CONTAINERS)
        if one not in self.open or self.ledger.of(one).share is not None or self.ledger.of(one).suspension is not None:
            return
        if self.dice.random() < 0.5:
            self.apply(led.Allocate(one, led.choose(self.ledger, 1)))
            self._open(one)
        elif held := sorted(self.ledger.of(one).gpus):
            self._give(one, frozenset([self.dice.choice(held)]))

    def _give(self, one: Holder, gpus: frozenset[Gpu]) -> None:
        def close() -> None:
            has = self.ledger.of(one)
            kept = numbers([*gpu_nodes(has.gpus - gpus), *self.ledger.stale(one)])
            self.open[one] -= numbers(gpu_nodes(gpus)) - kept

        self.apply(led.Deallocate(one, gpus), before=close)
        assert self.ledger.of(one).gpus.isdisjoint(gpus)

    def lease(self) -> None:
        one = self.dice.choice(LEASES)
        count = self.dice.randint(1, 2)
        if one in self.ledger.holdings or count > self.ledger.leasable:
            return
        self.apply(led.Allocate(one, led.choose(self.ledger, count)))
        self._open(one)

    def finish(self) -> None:
        if self.open:
            self.end(self.dice.choice(sorted(self.open)))

    def end(self, one: Holder) -> None:
        self.open.pop(one, None)
        self.shares.pop(one, None)
        self.apply(led.Release(one))

    def share(self) -> None:
        """Launch a container with a share."""
        one = self.dice.choice(CONTAINERS)
        if one in self.open or one in self.ledger.holdings:
            return
        part = CardPart(9, self.dice.randint(1, 5), self.dice.randint(1, 6))
        self.apply(led.AllocateShare(one, Share((part,))))
        self.open[one], self.shares[one] = numbers(gpu_nodes([SHARED])), (part,)

    def reshare(self) -> None:
        """Suspend a container with a share, or resume it."""
        for one, share in sorted(self.ledger.shares.items()):
            if one not in self.open or self.dice.random() < 0.5:
                continue
            if share.parts:

                def close(one: Holder = one) -> None:
                    self.open[one], self.shares[one] = frozenset(), ()

                self.apply(led.AllocateShare(one, share.moved(())), before=close)
            else:
                self.apply(led.AllocateShare(one, share.moved(share.asked)))
                self.open[one], self.shares[one] = numbers(gpu_nodes([SHARED])), share.asked

    def suspend(self) -> None:
        """Suspend a container with GPUs of its own; the driver may refuse."""
        for one, has in sorted(self.ledger.containers.items()):
            if one not in self.open or not has.gpus or has.suspension is not None or self.dice.random() < 0.5:
                continue
            self.apply(led.StepSuspension(one, Step.SUSPEND, tuple(sorted(gpu.uuid for gpu in has.gpus))))
            if self.dice.random() < 0.2:
                self.apply(led.StepSuspension(one, Step.KEPT))
                continue
            self._give(one, has.gpus)
            self.apply(led.StepSuspension(one, Step.PUT_AWAY))

    def resume(self) -> None:
        for one, has in sorted(self.ledger.containers.items()):
            there = has.suspension
            if one not in self.open or there is None or there.phase is not Phase.SUSPENDED:
                continue
            self.apply(led.StepSuspension(one, Step.RESUME))
            try:
                self.apply(led.Allocate(one, led.choose(self.ledger, len(there.gpus))))
            except NotEnoughGpus:
                self.apply(led.StepSuspension(one, Step.REMAINED))
                continue
            self._open(one)
            self.apply(led.StepSuspension(one, Step.BACK))

    def health(self) -> None:
        uuids = frozenset(gpu.uuid for gpu in (*sorted(self.ledger.total), SHARED) if self.dice.random() < 0.3)
        self.apply(led.Withdraw(uuids) if self.dice.random() < 0.5 else led.Restore(uuids))

    def account(self) -> None:
        """Tasks are accepted or over; the master reserves."""
        counted = {one: self.dice.randint(0, 2) for one in CONTAINERS if self.dice.random() < 0.5}
        self.apply(led.MasterAccount(counted, self.dice.choice((0, 0, 1, 3))))

    def divide(self) -> None:
        """Make a MIG instance, once its numbers were denied to those who had them; or remove one that is free."""
        self.look()
        slots, slot = self.instances[self.dice.randrange(MIG_GPUS)], self.dice.randrange(SLOTS)
        if slot not in slots:
            self.names += 1
            slots[slot] = f"MIG-{self.names}"
        elif slots[slot] in {gpu.uuid for gpu in self.ledger.free}:
            del slots[slot]
        self.look()

    def look(self) -> None:
        """List what the driver has, and deny what is stale; the kernel may refuse, and nodes may be in use."""
        self.apply(led.DriverListing(self.listed()))
        for one in sorted(self.ledger.containers):
            nodes = self.ledger.stale(one)
            if one not in self.open or not nodes or self.dice.random() < 0.3:
                continue
            in_use = frozenset(node for node in sorted(nodes, key=lambda node: node.path) if self.dice.random() < 0.1)
            self.open[one] -= numbers(nodes - in_use)
            self.apply(led.Revoke(one, in_use))

    def outside(self) -> None:
        """Something else than the agent changes what the driver has."""
        if self.dice.random() < 0.5:
            self.present ^= {MIG_GPUS}
        else:
            slots = self.instances[self.dice.randrange(MIG_GPUS)]
            slots.pop(self.dice.randrange(SLOTS), None)

    def crash(self) -> None:
        for one in [one for one in sorted(self.open) if self.dice.random() < 0.2]:
            del self.open[one]
            self.shares.pop(one, None)
        self.start()

    def reboot(self) -> None:
        """All containers end; leases of container engines live on with the numbers that they were made with."""
        for one in [one for one in self.open if one.kind is HolderKind.CONTAINER]:
            del self.open[one]
        self.shares.clear()
        for one in [one for one in self.records if one.kind is HolderKind.CONTAINER]:
            del self.records[one]
        whole = self.minors[MIG_GPUS:]  # two leases of one GPU's instances have its number: it stays such a GPU's
        self.dice.shuffle(whole)
        self.minors[MIG_GPUS:] = whole
        self.start()

    # --- what must hold ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        book = self.ledger
        wrong = list(led.violations(book))
        assert not wrong, wrong
        holders: dict[Number, Holder] = {}
        own = {number: gpu for gpu in self.listed() for number in own_numbers(gpu)}
        parents = {(NVIDIA_MAJOR, minor) for minor in self.minors[:MIG_GPUS]}  # these open no instance by themselves
        for one, can_open in self.open.items():
            for number in can_open & own.keys():
                other = holders.setdefault(number, one)
                assert other == one, f"{other} and {one} can open {own[number]}"
            has = book.of(one)
            known = numbers([*gpu_nodes(has.gpus), *book.stale(one), *(gpu_nodes([SHARED]) if has.share else ())])
            strange = can_open - known - parents
            assert not strange, f"{one} can open {strange}, which is not on the ledger"
        for gpu in book.available:
            assert own_numbers(gpu).isdisjoint(holders), f"{gpu.uuid} is available, and can be opened"
        for one, parts in self.shares.items():
            share = book.of(one).share
            assert share is not None
            assert share.parts == parts or not parts
        assert sum(part.mem_units for parts in self.shares.values() for part in parts) <= CARD.mem_units
        assert sum(part.weight for parts in self.shares.values() for part in parts) <= CARD.slices
        held = sum(len(has.gpus) for one, has in book.containers.items())
        assert book.offered >= len(book.available) + held
        assert 0 <= book.leasable <= len(book.available)
        for one, has in book.holdings.items():
            assert (has.record is None) == (one not in self.records), f"{one} has {has}, on record is something else"

    def finish_all(self) -> None:
        """Everything ends: nothing may be left, and every GPU is available again."""
        for one in sorted({*self.open, *self.ledger.holdings}):
            self.end(one)
        self.apply(led.DriverListing(self.listed()))
        self.apply(led.Restore(self.ledger.withdrawn))
        assert self.ledger.available == self.ledger.total == self.listed()
        assert self.ledger.offered == len(self.listed())
        assert not self.records


OFTEN: tuple[Callable[[World], None], ...] = (
    World.launch, World.resize, World.lease, World.finish, World.share, World.reshare, World.suspend, World.resume,
    World.divide,
)  # fmt: skip
ACTS = (*OFTEN, *OFTEN, World.health, World.account, World.look, World.outside, World.crash, World.reboot)


def _instance(minor: int, slot: int, name: str) -> Gpu:
    first = 100 * minor + 10 * slot + 1
    nodes = (DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", CAPS_MAJOR, cap, 0o444) for cap in (first, first + 1))
    mig = MigInstance(f"GPU-{minor}", slot, 0, tuple(nodes))
    return Gpu(minor=minor, index=minor, uuid=name, name="MIG", mig=mig)


def play(
    dice: Random, steps: int = STEPS, *, kind: Callable[[Random], World] = World, killed: bool = True
) -> Counter[str]:
    """Play one history; return how many events of each kind the ledger handled. Raises AssertionError.

    `killed`: the agent can be killed within an event, and not only between two.
    """
    world = kind(dice)
    for _ in range(steps):
        act = dice.choice(ACTS)
        world.deadly = killed and dice.random() < 0.15
        try:
            act(world)
        except Killed:
            world.deadly = False
            world.start()
        except (NotEnoughGpus, Conflict):
            world.events["refused"] += 1
        world.deadly = False
        world.check()
    world.finish_all()
    return world.events


def _play_isolators(dice: Random) -> Counter[str]:
    from tests.isolator.isolator_world import IsolatorWorld, report_by_raising

    report_by_raising()
    return play(dice, kind=IsolatorWorld, killed=False)


def main() -> int:
    """Play histories; print the seeds, the totals and the first failure. Return 1 after a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.isolator.ledger_histories", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--isolators", action="store_true", help="with real isolators, whose ledger must be the same")
    asked = parser.parse_args()
    playing = _play_isolators if asked.isolators else play
    total: Counter[str] = Counter()
    began_s = time.process_time()
    for seed in range(asked.seed, asked.seed + asked.histories):
        try:
            total += playing(Random(seed))
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            return 1
    took_s = time.process_time() - began_s
    counts = ", ".join(f"{name} {count}" for name, count in sorted(total.items()))
    print(f"seeds {asked.seed} to {asked.seed + asked.histories - 1}: {asked.histories} histories, {counts}")
    print(f"{sum(total.values())} events in {took_s:.0f} s, 0 failures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
