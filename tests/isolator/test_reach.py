"""Device numbers outlive GPUs: in random histories of MIG instances and GPUs, no two containers can open one number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesos_gpu.errors import Conflict, ContainerError, MesosGpuError, NotEnoughGpus
from mesos_gpu.gpu.device import DeviceNode, Gpu, MigInstance
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.access import gpu_nodes
from mesos_gpu.isolator.reach import HeldGpu, Number, lost, numbers, own_numbers, revoked, settle, stale
from mesos_gpu.mesos.ids import ContainerId
from tests.support.histories import examples

HISTORIES = 150
CARDS, SLOTS, CAPS_MAJOR = 2, 3, 240
CONTAINERS = st.sampled_from([ContainerId("a"), ContainerId("b"), ContainerId("c")])
LEASES = st.sampled_from(["k", "l"])


def whole(minor: int, name: str) -> Gpu:
    return Gpu(minor=minor, index=minor, uuid=f"GPU-{name}", name="GPU")


def instance(minor: int, slot: int, name: str) -> Gpu:
    """Return the instance in a slot of a GPU: its nodes depend on the place only, its UUID is its own."""
    first = 100 * minor + 10 * slot + 1
    paths = (DeviceNode(f"/dev/nvidia-caps/nvidia-cap{cap}", CAPS_MAJOR, cap, 0o444) for cap in (first, first + 1))
    return Gpu(
        minor=minor, index=minor, uuid=f"MIG-{name}", name="MIG", mig=MigInstance(f"GPU-{minor}", slot, 0, tuple(paths))
    )


class Memory(Checkpoints):
    """Records in memory; they outlast isolators."""

    def __init__(self) -> None:
        self.records: dict[ContainerId, frozenset[HeldGpu]] = {}

    def claim(self, owner: object) -> None:
        pass

    def close(self) -> None:
        pass

    def save(self, container_id: ContainerId, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        self.records[container_id] = frozenset([*map(HeldGpu.of, gpus), *lost])

    def remove(self, container_id: ContainerId) -> None:
        self.records.pop(container_id, None)

    def has(self, container_id: ContainerId) -> bool:
        return container_id in self.records

    def load(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        return dict(self.records)


class Machine(RuleBasedStateMachine):
    """A driver whose GPUs come and go behind the agent's back, and a kernel that knows device numbers only."""

    def __init__(self) -> None:
        super().__init__()
        self.names = count()
        self.minors = list(range(CARDS))
        self.cards: list[dict[int, str] | None] = [{}, None]
        """Of each card the instances by slot; None: it is not in MIG mode."""
        self.disk = Memory()
        self.open: dict[ContainerId, frozenset[Number]] = {}
        self.leases: dict[str, tuple[tuple[HeldGpu, ...], frozenset[Number]]] = {}
        self.refuses = False
        self.in_use = False
        self.start()

    def listed(self) -> list[Gpu]:
        found = []
        for card, slots in enumerate(self.cards):
            if slots is None:
                found.append(whole(self.minors[card], f"card{card}"))
            else:
                found += [instance(self.minors[card], slot, name) for slot, name in sorted(slots.items())]
        return found

    # --- the agent --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.isolator = NvidiaGpuIsolator(self.listed(), NullDriver(), None, self.disk, live_access=self._walls)
        held = settle({ContainerId(name): records for name, (records, _) in self.leases.items()}, self.listed())
        for name, (records, _) in self.leases.items():
            mine = held[ContainerId(name)]
            self.isolator.lend(name, mine, lost(records, mine))
        for orphan in self.isolator.recover(self.open.keys()):
            self.isolator.cleanup(orphan)

    def _walls(self, pid: int) -> Walls:
        return Walls(self, ContainerId(chr(pid)))

    def revoke(self) -> None:
        for container in self.isolator.stale():
            self.isolator.isolate(container, ord(container))
            try:
                self.isolator.revoke(container)
            except MesosGpuError:
                assert self.refuses or self.in_use

    @rule(dead=st.sets(CONTAINERS), refuses=st.booleans(), in_use=st.booleans())
    def restart(self, dead: set[ContainerId], refuses: bool, in_use: bool) -> None:
        for container in dead & self.open.keys():
            del self.open[container]
        self.start()
        self.no_free_gpu_can_be_opened()
        self.refuses, self.in_use = refuses, in_use
        self.revoke()
        self.refuses = self.in_use = False

    @rule(card=st.integers(0, CARDS - 1), slot=st.integers(0, SLOTS - 1), refuses=st.booleans(), in_use=st.booleans())
    def divide(self, card: int, slot: int, refuses: bool, in_use: bool) -> None:
        """The agent makes an instance: `gpu mig apply`."""
        self.refuses, self.in_use = refuses, in_use
        self.isolator.manage(self.listed())
        self.revoke()
        self.no_free_gpu_can_be_opened()
        slots = self.cards[card]
        if slots is not None:
            slots.setdefault(slot, str(next(self.names)))
        self.isolator.manage(self.listed())
        self.revoke()
        self.refuses = self.in_use = False

    @rule(container=CONTAINERS, gpus=st.integers(0, 3))
    def prepare(self, container: ContainerId, gpus: int) -> None:
        try:
            plan = self.isolator.prepare(container, gpus)
        except (NotEnoughGpus, Conflict):
            return
        self.given(plan.gpus, container)
        self.open[container] = numbers(plan.nodes)

    @rule(container=CONTAINERS, gpus=st.integers(0, 3))
    def update(self, container: ContainerId, gpus: int) -> None:
        if container in self.open:
            self.isolator.isolate(container, ord(container))
            try:
                self.given(self.isolator.update(container, gpus).added, container)
            except NotEnoughGpus:
                pass

    @rule(container=CONTAINERS)
    def end(self, container: ContainerId) -> None:
        self.open.pop(container, None)
        self.isolator.cleanup(container)

    @precondition(lambda self: self.isolator.free - set())
    @rule(name=LEASES, data=st.data())
    def lend(self, name: str, data: st.DataObject) -> None:
        gpu = data.draw(st.sampled_from(sorted(self.isolator.free)))
        try:
            self.isolator.lend(name, [gpu])
        except Conflict:
            assert name in self.leases or gpu.uuid in self.isolator.blocked
            return
        self.given([gpu], ContainerId(name))
        self.leases[name] = ((HeldGpu.of(gpu),), numbers(gpu_nodes([gpu])))

    @rule(name=LEASES)
    def take_back(self, name: str) -> None:
        self.leases.pop(name, None)
        self.isolator.take_back(name)

    # --- others -----------------------------------------------------------------------------------------------------

    @rule(card=st.integers(0, CARDS - 1), slot=st.integers(0, SLOTS - 1))
    def others_destroy_or_make(self, card: int, slot: int) -> None:
        slots = self.cards[card]
        if slots is not None and slots.pop(slot, None) is None:
            slots[slot] = str(next(self.names))

    @rule(card=st.integers(0, CARDS - 1))
    def others_switch_mig_mode(self, card: int) -> None:
        self.cards[card] = {} if self.cards[card] is None else None

    @rule(dead=st.sets(CONTAINERS))
    def the_driver_is_loaded_again(self, dead: set[ContainerId]) -> None:
        self.minors.reverse()
        self.restart(dead, refuses=False, in_use=False)

    # --- what must be so --------------------------------------------------------------------------------------------

    def openers(self, gpu: Gpu) -> list[str]:
        """Return who can open a GPU, as the kernel knows it."""
        everybody = {**self.open, **{name: opened for name, (_, opened) in self.leases.items()}}
        return [name for name, opened in everybody.items() if not own_numbers(gpu).isdisjoint(opened)]

    def given(self, gpus: Iterable[Gpu], holder: ContainerId) -> None:
        """Check, when GPUs are given, that no other can open them."""
        for gpu in gpus:
            assert set(self.openers(gpu)) <= {holder}

    @invariant()
    def no_free_gpu_can_be_opened(self) -> None:
        for gpu in self.isolator.free:
            if gpu.uuid not in self.isolator.blocked:
                assert self.openers(gpu) == []

    @invariant()
    def what_is_denied_is_denied(self) -> None:
        """After a restart or a division that the kernel did not refuse, only leases can open what they do not have."""
        stale_now = self.isolator.stale()
        for container, opened in self.open.items():
            mine = numbers(gpu_nodes(self.isolator.held[container]))
            assert opened - mine <= numbers(stale_now.get(container, ()))

    @invariant()
    def what_is_blocked_can_be_opened(self) -> None:
        for gpu in self.isolator.free:
            if gpu.uuid in self.isolator.blocked:
                known = frozenset[Number]().union(*(numbers(nodes) for nodes in self.isolator.stale().values()))
                assert self.openers(gpu) or not known.isdisjoint(own_numbers(gpu))


class Walls:
    """What the kernel lets one container open."""

    def __init__(self, machine: Machine, container: ContainerId) -> None:
        self._machine, self._container = machine, container

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        if self._machine.refuses:
            raise ContainerError("the kernel refused")
        before = self._machine.open[self._container]  # as version 1 does it: what is not named stays
        self._machine.open[self._container] = (before - numbers(closed)) | numbers(opened)

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return frozenset(nodes) if self._machine.in_use else frozenset()


TestHistories = Machine.TestCase
TestHistories.settings = settings(max_examples=examples(HISTORIES), stateful_step_count=25, deadline=None)


def test_a_container_holds_the_instance_that_came_in_place_of_its_own() -> None:
    was = HeldGpu.of(instance(0, 1, "old"))
    new = instance(0, 1, "new")
    held = settle({ContainerId("a"): [was]}, [new, instance(0, 2, "other")])
    assert held == {"a": {new}}
    (gone,) = lost([was], held[ContainerId("a")])
    assert (gone.uuid, gone.closed, gone.replaced) == ("MIG-old", True, True)
    assert stale([gone], held[ContainerId("a")], [CAPS_MAJOR]) == frozenset()


def test_of_several_that_can_open_a_gpu_the_one_that_was_given_it_holds_it_else_none() -> None:
    a, b = ContainerId("a"), ContainerId("b")
    first, second = HeldGpu.of(instance(0, 0, "x")), HeldGpu.of(instance(0, 1, "y"))
    undivided = whole(0, "card0")
    assert settle({a: [first], b: [second]}, [undivided]) == {a: frozenset(), b: frozenset()}
    now = instance(0, 0, "z")
    assert settle({a: [first], b: [HeldGpu.of(now)]}, [now]) == {a: frozenset(), b: {now}}


def test_what_is_kept_open_is_not_closed_but_the_node_that_instances_share_does_not_count() -> None:
    was = HeldGpu.of(instance(0, 1, "old"))
    nodes = {node.path: node for node in was.nodes()}
    assert [one.closed for one in revoked([was], [nodes["/dev/nvidia0"]])] == [True]
    assert [one.closed for one in revoked([was], [nodes["/dev/nvidia-caps/nvidia-cap11"]])] == [False]


def test_records_of_before_major_numbers_were_recorded_are_denied_under_the_one_of_today() -> None:
    was = HeldGpu(0, "MIG-old", (11, 12))
    assert numbers(stale([was], [], [CAPS_MAJOR])) == {(195, 0), (CAPS_MAJOR, 11), (CAPS_MAJOR, 12)}
    assert was.opens(instance(0, 1, "new"))
    assert not HeldGpu(0, "MIG-old", (11, 12), CAPS_MAJOR + 1).opens(instance(0, 1, "new"))
