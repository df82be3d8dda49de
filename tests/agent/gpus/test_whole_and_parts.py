"""What is given back while containers are suspended, and had again: whole GPUs, and parts of cards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.agent.decisions.resuming import SpokenFor
from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.gpus.whole_and_parts import WholeAndParts
from mesos_gpu.errors import BadInput, Conflict, ContainerError, DeviceError, MesosGpuError, NotEnoughGpus, NotFound
from mesos_gpu.gpu.cuda_checkpoints import State
from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.isolator import Checkpoints, NvidiaGpuIsolator
from mesos_gpu.isolator.access import gpu_nodes
from mesos_gpu.isolator.plan import Change
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.isolator.suspension import Phase
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard
from mesos_gpu.mesos.shares.levels import Level
from tests.support.golden import Golden
from tests.support.histories import examples

DRIVER = SimulatedDriver(5)
GPUS = DRIVER.gpus()
CARDS = [SharedCard(gpu.index, gpu.uuid, 8192, 10, Level.WATCHER) for gpu in GPUS[2:4]]
A, B, C = ContainerId("a"), ContainerId("b"), ContainerId("c")


class Walls:
    """What one container can open."""

    def __init__(self, trouble: Callable[[], None]) -> None:
        self._trouble = trouble
        self.nodes: set[DeviceNode] = set()
        self.in_use: frozenset[DeviceNode] = frozenset()

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        self._trouble()
        self.nodes = (self.nodes - set(closed)) | set(opened)
        self._trouble()

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        return self.in_use & frozenset(nodes)


class Host:
    """What outlives an agent: the walls of containers, their processes, records on disk."""

    def __init__(self, folder: Path, cards: Sequence[SharedCard] = CARDS, gpus: Sequence[Gpu] = GPUS) -> None:
        self.folder, self.cards, self.gpus = folder, cards, gpus
        self.trouble: Callable[[], None] = lambda: None
        self.walls: dict[int, Walls] = {}
        self.pids: dict[ContainerId, int] = {}
        self.states_of: dict[int, State] = {}
        self.on: dict[int, tuple[str, ...]] = {}
        self.isolator: SharingIsolator | None = None
        self.open()

    def open(self) -> None:
        """Begin, as an agent does, with what is on disk."""
        if self.isolator is not None:
            self.isolator.close()
        whole = NvidiaGpuIsolator(
            self.gpus[:2],
            DRIVER,
            None,
            Checkpoints(self.folder / "gpus"),
            live_access=lambda pid: self.walls[pid],
        )
        self.isolator = SharingIsolator(whole, self.gpus[2:4], self.cards, ShareRecords(self.folder / "shares"))
        self.isolator.recover(list(self.pids))
        for container, pid in self.pids.items():
            self.isolator.isolate(container, pid)
        self.holdings = WholeAndParts(self, whole, self.isolator, self)  # type: ignore[arg-type]
        path = self.folder / "suspended.json"
        self.suspender = Suspender(self.holdings, self, path, lambda container: [self.pids[container]])

    def launch(self, container: ContainerId, gpus: int, share: Share | None = None) -> None:
        plan = self.isolator.prepare(container, gpus, share=share)
        pid = self.pids[container] = len(self.walls) + 1
        self.walls[pid] = Walls(lambda: self.trouble())
        self.walls[pid].nodes = {node for node in plan.nodes if node in gpu_nodes(self.gpus)}
        self.states_of[pid] = State.RUNNING
        self.on[pid] = tuple(gpu.uuid for gpu in self.holdings.held[container])
        self.isolator.isolate(container, pid)

    def withdraw(self, *indices: int) -> None:
        """Have these GPUs, and no others, withdrawn."""
        whole = self.isolator._whole
        whole.restore([gpu.uuid for gpu in self.gpus])
        whole.withdraw([gpu.uuid for gpu in self.gpus if gpu.index in indices])

    # --- the containerizer, and the turns

    async def update(self, container: ContainerId, gpus: int) -> object:
        return self.isolator.update(container, gpus)

    async def change_access(self, container: ContainerId, how: Callable[[], Change]) -> object:
        return how()

    async def wait(self, container: ContainerId) -> object:
        await asyncio.Event().wait()
        return None

    @asynccontextmanager
    async def unfrozen(self, container: ContainerId) -> AsyncIterator[None]:
        yield

    async def tell(self) -> None:
        """Everybody takes turns as it is now."""

    # --- the driver

    def states(self, pids: Iterable[int]) -> Mapping[int, State]:
        return {pid: self.states_of[pid] for pid in pids}

    def put_away(self, states: Mapping[int, State]) -> None:
        for pid in states:
            self.trouble()
            self.states_of[pid] = State.CHECKPOINTED

    def bring_back(self, states: Mapping[int, State], pairs: Sequence[tuple[str, str]] = ()) -> None:
        for pid, state in states.items():
            self.trouble()
            if state is State.CHECKPOINTED:
                self.on[pid] = tuple(dict(pairs).get(uuid, uuid) for uuid in self.on[pid])
            self.states_of[pid] = State.RUNNING

    def look(self) -> None:
        """Each unit is one container's; who has parts runs on them and can open them, who has none can open none."""
        for card in self.cards:
            had = [part for share in self.isolator.shares.values() for part in share.parts if part.card == card.index]
            assert sum(part.mem_units for part in had) <= card.mem_units
            assert sum(part.weight for part in had) <= card.slices
        for container, pid in self.pids.items():
            held = self.holdings.held[container]
            assert self.walls[pid].nodes == set(gpu_nodes(sorted(held)))
            if container in self.suspender.book:
                assert self.suspender.book[container].phase is Phase.SUSPENDED
                assert (held, self.states_of[pid]) == ([], State.CHECKPOINTED)
            else:
                assert self.states_of[pid] is State.RUNNING
                assert self.on[pid] == tuple(gpu.uuid for gpu in held)
                assert held


def share(mem: int, card: int = 2, weight: int = 1) -> Share:
    return Share((CardPart(card, mem, weight),))


async def test_a_part_that_was_given_back_is_anothers_and_comes_back_on_another_card_like_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.launch(A, 0, share(6, weight=4))
    with pytest.raises(NotEnoughGpus):
        host.isolator.prepare(B, 0, share=share(6))
    await host.suspender.suspend(A)
    assert host.isolator.shares[A] == Share((), booked=(CardPart(2, 6, 4),))
    host.launch(B, 0, share(6))
    assert host.isolator._whole.ledger.absent == 0, "no whole GPU is counted for it"
    host.look()
    (moved,) = await host.suspender.resume(A)
    assert moved.index == 3
    assert host.isolator.shares[A] == Share((CardPart(3, 6, 4),), booked=(CardPart(2, 6, 4),))
    host.look()
    host.isolator.cleanup(B)
    del host.pids[B]
    await host.suspender.suspend(A)
    (moved,) = await host.suspender.resume(A)
    assert (moved.index, host.isolator.shares[A].booked) == (2, ())
    host.look()
    await host.suspender.close()


async def test_where_no_card_has_room_a_part_stays_away_and_the_words_say_what_it_was(
    tmp_path: Path, golden: Golden
) -> None:
    host = Host(tmp_path)
    host.launch(A, 0, Share((CardPart(2, 5, 1), CardPart(3, 2, 1))))
    await host.suspender.suspend(A)
    host.launch(B, 0, share(7, card=2))
    with pytest.raises(Conflict) as refused:
        await host.suspender.resume(A)
    assert str(refused.value) == golden
    host.look()
    host.withdraw(3)
    host.isolator.cleanup(B)
    del host.pids[B]
    with pytest.raises(Conflict):
        await host.suspender.resume(A)
    host.withdraw()
    await host.suspender.resume(A)
    host.look()
    await host.suspender.close()


async def test_a_card_of_another_kind_or_another_level_is_not_taken(tmp_path: Path, golden: Golden) -> None:
    weaker = [CARDS[0], SharedCard(3, GPUS[3].uuid, 8192, 10, Level.ADVISORY)]
    host = Host(tmp_path, weaker)
    host.launch(A, 0, share(6))
    await host.suspender.suspend(A)
    host.launch(B, 0, share(6))
    with pytest.raises(Conflict) as refused:
        await host.suspender.resume(A)
    assert str(refused.value) == golden
    await host.suspender.close()


async def test_what_mps_keeps_is_not_put_away(tmp_path: Path, golden: Golden) -> None:
    host = Host(tmp_path, [SharedCard(gpu.index, gpu.uuid, 8192, 10, Level.MPS) for gpu in GPUS[2:4]])
    host.launch(A, 0, share(6))
    with pytest.raises(Conflict) as refused:
        await host.suspender.suspend(A)
    assert str(refused.value) == golden
    assert host.suspender.book == {}
    host.look()


async def test_a_card_that_a_process_has_open_is_not_given_back(tmp_path: Path, golden: Golden) -> None:
    host = Host(tmp_path)
    host.launch(A, 0, share(6))
    host.walls[1].in_use = frozenset(gpu_nodes(GPUS[2:3]))
    with pytest.raises(Conflict) as refused:
        await host.suspender.suspend(A)
    assert str(refused.value) == golden
    host.look()
    assert host.suspender.book == {}


async def test_what_was_on_one_model_is_not_brought_back_on_another(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.launch(A, 2)
    await host.suspender.suspend(A)
    await host.suspender.close()
    host.gpus = [Gpu(minor=0, index=0, uuid="GPU-x", name="Other", memory_mib=1), *GPUS[1:]]
    host.open()
    await host.suspender.recover()
    host.gpus = GPUS
    with pytest.raises(Conflict, match="is a Other"):
        await host.suspender.resume(A)
    assert host.suspender.book[A].phase is Phase.SUSPENDED
    await host.suspender.close()


async def test_a_container_without_a_share_is_given_none(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.launch(A, 1)
    with pytest.raises(NotFound):
        host.isolator.reshare(A, ())
    host.launch(B, 0, share(1))
    with pytest.raises(BadInput):
        host.isolator.update(B, 1)


async def test_nothing_is_resumed_on_what_was_reserved_or_promised_meanwhile(tmp_path: Path, golden: Golden) -> None:
    host = Host(tmp_path)
    host.launch(A, 2)
    host.launch(B, 0, share(6))
    for container in (A, B):
        await host.suspender.suspend(container)
    host.holdings.spoken_for = lambda: SpokenFor(1, {2: (3, 1), 3: (0, 10)})
    with pytest.raises(Conflict) as refused:
        await host.suspender.resume(A)
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        await host.suspender.resume(B)
    assert str(refused.value) == golden
    host.look()
    host.holdings.spoken_for = lambda: SpokenFor(0, {2: (2, 9), 3: (0, 10)})
    for container in (A, B):
        await host.suspender.resume(container)
    host.look()
    assert [part.card for part in host.isolator.shares[B].parts] == [2]
    await host.suspender.close()


async def test_a_gpu_that_is_withdrawn_does_not_count_as_free(tmp_path: Path, golden: Golden) -> None:
    host = Host(tmp_path)
    host.launch(A, 1)
    await host.suspender.suspend(A)
    host.holdings.spoken_for = lambda: SpokenFor(1)
    host.holdings._whole.withdraw([GPUS[1].uuid])
    with pytest.raises(Conflict) as refused:
        await host.suspender.resume(A)
    assert str(refused.value) == golden
    await host.suspender.close()


class Crash(BaseException):
    """The agent is killed here."""


async def test_who_lost_the_way_to_a_card_with_a_killed_agent_has_it_again_though_it_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    host = Host(tmp_path)
    host.launch(A, 0, share(6))
    host.withdraw(2)

    def die(*_: Any) -> None:
        raise Crash

    monkeypatch.setattr(host.isolator._records, "save", die)
    with pytest.raises(Crash):
        await host.suspender.suspend(A)
    await host.suspender.close()
    host.open()
    host.withdraw(2)
    await host.suspender.recover()
    host.look()
    assert (host.isolator.shares[A], host.suspender.book) == (share(6), {})
    with pytest.raises(NotEnoughGpus) as refused:
        host.launch(B, 0, share(1, card=2))
    assert str(refused.value) == golden
    await host.suspender.close()


async def _life(host: Host, asked: Sequence[tuple[str, ContainerId]], troubles: Iterable[Any], every: int) -> None:
    host.launch(A, 0, share(5, weight=3))
    host.launch(B, 0, Share((CardPart(2, 2, 1), CardPart(3, 3, 1))))
    host.launch(C, 2)
    coming, count = iter(troubles), iter(range(10**6))

    def meet() -> None:
        if next(count) % every == every - 1 and (error := next(coming, None)) is not None:
            raise error("here")

    for what, container in asked:
        host.trouble = meet
        try:
            await (host.suspender.suspend if what == "suspend" else host.suspender.resume)(container)
        except MesosGpuError:
            pass
        except Crash:
            host.trouble = lambda: None
            await host.suspender.close()
            host.open()
            await host.suspender.recover()
        host.look()
    await host.suspender.close()


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.sampled_from(["suspend", "resume"]), st.sampled_from([A, B, C])), max_size=10),
    st.lists(st.sampled_from([Crash, Crash, None]), max_size=6),
    st.integers(1, 5),
)
def test_killed_at_any_moment_no_unit_is_had_twice_and_no_task_is_lost(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, ContainerId]], troubles: list[Any], every: int
) -> None:
    asyncio.run(_life(Host(tmp_path_factory.mktemp("host")), asked, troubles, every))


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.sampled_from(["suspend", "resume"]), st.sampled_from([A, B, C])), max_size=10),
    st.sampled_from([DeviceError, ContainerError]),
    st.integers(1, 9),
)
def test_what_is_refused_once_leaves_all_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, ContainerId]], trouble: Any, every: int
) -> None:
    asyncio.run(_life(Host(tmp_path_factory.mktemp("host")), asked, [trouble], every))
