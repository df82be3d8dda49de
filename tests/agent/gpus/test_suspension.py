"""Suspended containers: every pair of phase and step, and what a crash at any moment leads to."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.base.files import write_whole
from mesos_gpu.errors import BadInput, Conflict, DeviceError, MesosGpuError, NotEnoughGpus, NotFound, Unavailable
from mesos_gpu.gpu.cuda_checkpoints import State
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.ledger import Event, Holder, Holding, Ledger, handle
from mesos_gpu.isolator.ledger import container as holder_of
from mesos_gpu.isolator.suspension import NEXT, Phase, Step, Suspension, after_crash, moves, stepped
from mesos_gpu.mesos.ids import ContainerId
from tests.support.golden import Golden

A, B = ContainerId("a"), ContainerId("b")
GPUS = tuple(Gpu(minor=n, index=n, uuid=f"GPU-{n}", name="Model", memory_mib=100) for n in range(3))


@pytest.mark.parametrize(("phase", "step"), list(product([None, *Phase], Step)))
def test_every_step_is_in_the_table_or_refused(phase: Phase | None, step: Step) -> None:
    book = {} if phase is None else {A: Suspension(("GPU-0",), phase)}
    if (phase, step) in NEXT:
        after = stepped(book, A, step, ("GPU-0",))
        assert (after[A].phase if A in after else None) is NEXT[phase, step]
    else:
        with pytest.raises(NotFound if phase is None else Conflict):
            stepped(book, A, step, ("GPU-0",))


def test_without_a_gpu_there_is_nothing_to_suspend(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        stepped({}, A, Step.SUSPEND)
    assert str(refused.value) == golden


def test_a_gpu_is_brought_back_where_it_was_if_that_can_be() -> None:
    assert moves(("x", "y", "z"), {"z", "x", "q"}) == (("x", "x"), ("y", "q"), ("z", "z"))


@pytest.mark.parametrize(("phase", "holds"), list(product(Phase, (True, False))))
def test_who_has_gpus_after_a_crash_runs_and_who_has_none_is_suspended(phase: Phase, holds: bool) -> None:
    step = after_crash(phase, holds=holds)
    assert (step in (Step.BACK, Step.KEPT)) is holds


class Crash(BaseException):
    """The agent is killed here."""


class World:
    """What outlives an agent: who holds which GPU, and each container's process. Steps fail, or kill, when told to."""

    def __init__(self, trouble: Callable[[], BaseException | None]) -> None:
        self.trouble = trouble
        self.held: dict[ContainerId, Sequence[Gpu]] = {A: GPUS[:2], B: GPUS[2:]}
        self.process = {1: State.RUNNING, 2: State.RUNNING}
        self.on = {1: self.held[A], 2: self.held[B]}
        self.wants = {A: 2, B: 1}
        self.suspensions: dict[Holder, Suspension | None] = {}

    def _meet_trouble(self) -> None:
        if (error := self.trouble()) is not None:
            raise error

    async def update(self, container: ContainerId, gpus: int) -> object:
        self._meet_trouble()
        free = sorted(set(GPUS) - {gpu for held in self.held.values() for gpu in held})
        if gpus > len(free):
            raise NotEnoughGpus(asked=gpus, free=len(free))
        if not gpus:
            assert self.process[1 if container == A else 2] is State.CHECKPOINTED, "GPUs are given back while in use"
        self.held[container] = tuple(free[:gpus])
        self._meet_trouble()
        return None

    sharers: tuple[ContainerId, ...] = ()

    def check(self, container: ContainerId) -> None:
        pass

    @property
    def ledger(self) -> Ledger:
        """The ledger, with what each container holds by now."""
        holdings = {
            holder_of(name): Holding(frozenset(gpus), suspension=self.suspensions.get(holder_of(name)))
            for name, gpus in self.held.items()
        }
        return Ledger(gpus=frozenset(GPUS), holdings=holdings)

    def tell(self, event: Event) -> None:
        after, _ = handle(self.ledger, event)
        self.suspensions = {one: has.suspension for one, has in after.holdings.items()}

    @asynccontextmanager
    async def unfrozen(self, container: ContainerId) -> AsyncIterator[None]:
        yield

    async def give_back(self, container: ContainerId) -> None:
        await self.update(container, 0)

    async def take_again(self, container: ContainerId, was: Sequence[str]) -> None:
        await self.update(container, len(was))

    async def assure(self, container: ContainerId) -> None:
        self._meet_trouble()

    def pairs(self, container: ContainerId, was: Sequence[str]) -> Sequence[tuple[str, str]]:
        return moves(was, [gpu.uuid for gpu in self.held[container]])

    async def wait(self, container: ContainerId) -> object:
        await asyncio.Event().wait()
        return None

    def states(self, pids: Iterable[int]) -> Mapping[int, State]:
        self._meet_trouble()
        return {pid: self.process[pid] for pid in pids}

    def put_away(self, states: Mapping[int, State]) -> None:
        for pid, state in states.items():
            for after in [one for one in (State.LOCKED, State.CHECKPOINTED) if one > state]:
                self._meet_trouble()
                self.process[pid] = after

    def bring_back(self, states: Mapping[int, State], pairs: Sequence[tuple[str, str]] = ()) -> None:
        for pid, state in states.items():
            for after in [one for one in (State.LOCKED, State.RUNNING) if one < state]:
                self._meet_trouble()
                if self.process[pid] is State.CHECKPOINTED:
                    self.on[pid] = self.held[A if pid == 1 else B]
                self.process[pid] = after

    def suspender(self, folder: Path) -> Suspender:
        return Suspender(self, self, folder / "suspended.json", lambda name: [1 if name == A else 2])

    def look(self, suspender: Suspender) -> None:
        """Each card is booked once; who has cards runs on them, who has none is suspended and counted."""
        booked = [gpu for held in self.held.values() for gpu in held]
        assert len(booked) == len(set(booked))
        for container, pid in ((A, 1), (B, 2)):
            if container in suspender.book:
                assert suspender.book[container].phase is Phase.SUSPENDED
                assert (self.held[container], self.process[pid]) == ((), State.CHECKPOINTED)
            else:
                assert (len(self.held[container]), self.process[pid]) == (self.wants[container], State.RUNNING)
                assert self.on[pid] == self.held[container]
        assert self.ledger.absent == sum(self.wants[container] for container in suspender.book)


async def _life(world: World, folder: Path, asked: Sequence[tuple[str, ContainerId]]) -> None:
    suspender = world.suspender(folder)
    await suspender.recover()
    world.look(suspender)
    for what, container in asked:
        try:
            await (suspender.suspend if what == "suspend" else suspender.resume)(container)
        except MesosGpuError:
            pass
        except Crash:
            await suspender.close()
            trouble, world.trouble = world.trouble, lambda: None
            suspender = world.suspender(folder)
            await suspender.recover()
            world.trouble = trouble
        world.look(suspender)
    await suspender.close()


ASKED = st.lists(st.tuples(st.sampled_from(["suspend", "resume"]), st.sampled_from([A, B])), max_size=8)


@settings(max_examples=40)
@given(asked=ASKED, at=st.sets(st.integers(0, 60), max_size=6))
def test_killed_at_any_moment_no_card_is_booked_twice_and_no_task_is_lost(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, ContainerId]], at: set[int]
) -> None:
    count = iter(range(10**6))
    world = World(lambda: Crash() if next(count) in at else None)
    asyncio.run(_life(world, tmp_path_factory.mktemp("life"), asked))


@settings(max_examples=40)
@given(asked=ASKED, at=st.integers(0, 60))
def test_what_the_driver_refuses_once_leaves_all_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, ContainerId]], at: int
) -> None:
    count = iter(range(10**6))
    world = World(lambda: DeviceError("refused") if next(count) == at else None)
    asyncio.run(_life(world, tmp_path_factory.mktemp("life"), asked))


@pytest.mark.parametrize(("failing", "crashes"), list(product(range(1, 5), (False, True))))
async def test_a_disk_that_is_full_for_a_moment_leaves_nobody_half_suspended(
    failing: int, crashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, saves = World(lambda: None), count(1)
    suspender = world.suspender(tmp_path)

    def write(*args: Any, **more: Any) -> None:
        if next(saves) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(*args, **more)

    monkeypatch.setattr("mesos_gpu.base.files.write_whole", write)
    for ask in ("suspend", "resume", "suspend", "resume", "resume"):
        with suppress(MesosGpuError):
            await getattr(suspender, ask)(A)
        world.look(suspender)
        if crashes:
            await suspender.close()
            suspender = world.suspender(tmp_path)
            await suspender.recover()
            world.look(suspender)
    assert A not in suspender.book, "it can be resumed whatever was written"
    await suspender.close()


async def test_where_the_driver_cannot_nothing_is_begun(tmp_path: Path, golden: Golden) -> None:
    world = World(lambda: Unavailable("it needs driver 570 or newer"))
    suspender = world.suspender(tmp_path)
    with pytest.raises(Unavailable, match="570"):
        await suspender.suspend(A)
    assert suspender.book == {}
    with pytest.raises(NotFound):
        await suspender.suspend(ContainerId("c"))
    with pytest.raises(NotFound) as refused:
        await suspender.resume(A)
    assert str(refused.value) == golden


async def test_a_container_that_is_gone_after_a_restart_is_forgotten(tmp_path: Path) -> None:
    world = World(lambda: None)
    suspender = world.suspender(tmp_path)
    await suspender.suspend(A)
    await suspender.close()
    del world.held[A]
    again = world.suspender(tmp_path)
    await again.recover()
    assert (again.book, world.ledger.absent) == ({}, 0)


async def test_a_suspended_container_that_ends_after_a_restart_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, ended = World(lambda: None), asyncio.Event()
    suspender = world.suspender(tmp_path)
    await suspender.suspend(A)
    await suspender.close()
    monkeypatch.setattr(world, "wait", lambda container: ended.wait())
    again = world.suspender(tmp_path)
    await again.recover()
    assert set(again.book) == {A}
    ended.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert again.book == {}
    await again.close()


async def test_a_record_that_cannot_be_read_is_an_error_in_words(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "suspended.json").write_text("[")
    with pytest.raises(Unavailable) as refused:
        await World(lambda: None).suspender(tmp_path).recover()
    assert str(refused.value) == golden
