"""Suspends containers with what they have on GPUs, and resumes them, maybe on others of the same model.

What is decided is suspension.py's. Each step is on disk before it is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from mesos_gpu.base.linux.cgroups import container_of_process
from mesos_gpu.base.linux.processes import all_pids
from mesos_gpu.base.records import Record
from mesos_gpu.errors import MesosGpuError, NotFound, Unavailable
from mesos_gpu.gpu.cuda_checkpoints import State
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.ledger import Event, ReadSuspensions, StepSuspension
from mesos_gpu.isolator.ledger import container as holder_of
from mesos_gpu.isolator.suspension import Book, Phase, Step, Suspension, after_crash, stepped
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)


class Holdings(Protocol):
    """Who has what of GPUs; `mesos_gpu.agent.gpus.whole_and_parts.WholeAndParts` is the real one."""

    @property
    def held(self) -> Mapping[ContainerId, Sequence[Gpu]]:
        """Return the GPUs of each container, of those who have parts the card of each."""

    @property
    def sharers(self) -> Collection[ContainerId]:
        """Return the containers that have parts, also while they are suspended."""

    def tell(self, event: Event) -> None:
        """Tell the GPU ledger of a step."""

    def check(self, container: ContainerId) -> None:
        """Raise Conflict for what CUDA cannot put away."""

    def unfrozen(self, container: ContainerId) -> AbstractAsyncContextManager[None]:
        """Have a container not frozen meanwhile."""

    async def give_back(self, container: ContainerId) -> None:
        """Have a container hold nothing. Raises MesosGpuError."""

    async def take_again(self, container: ContainerId, was: Sequence[str]) -> None:
        """Have a container hold as much as it `was` given. Raises MesosGpuError."""

    async def assure(self, container: ContainerId) -> None:
        """Have a container be able to open what it holds. Raises MesosGpuError."""

    def pairs(self, container: ContainerId, was: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return which GPU takes the place of which, by UUID."""

    async def wait(self, container: ContainerId) -> object:
        """Return when a container has ended. Raises NotFound."""


class Checkpointing(Protocol):
    """What is asked of the driver; `mesos_gpu.gpu.cuda_checkpoints.CudaCheckpoints` is the real one."""

    def states(self, pids: Iterable[int]) -> Mapping[int, State]:
        """Return the state of those that are CUDA processes. Raises MesosGpuError."""

    def put_away(self, states: Mapping[int, State]) -> None:
        """Put processes away. Raises MesosGpuError."""

    def bring_back(self, states: Mapping[int, State], pairs: Sequence[tuple[str, str]] = ()) -> None:
        """Have processes run again. Raises MesosGpuError."""


class Suspender:
    """One at a time. Lives in one event loop; `on_change` is called when GPUs were given back or taken.

    `pids_of` tells the processes of a container.
    """

    def __init__(
        self, holdings: Holdings, cuda: Checkpointing, path: Path, pids_of: Callable[[ContainerId], Iterable[int]]
    ) -> None:
        self._holdings, self._cuda = holdings, cuda
        self._record = Record(
            path,
            dict[ContainerId, tuple[tuple[str, ...], Phase]],
            what="the list of suspended containers",
            advice="remove the file once none of them runs",
        )
        self._pids_of = pids_of
        self._book: Book = {}
        self._one = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        self.on_change: Callable[[], None] = lambda: None

    @property
    def book(self) -> Book:
        """Return which containers are suspended, or about to be, or about to be resumed."""
        return dict(self._book)

    async def recover(self) -> None:
        """Take up what the last process left, and lead each container out of what that was at. Raises Unavailable."""
        suspended = self._record.load() or {}
        self._book = {name: Suspension(gpus, phase) for name, (gpus, phase) in suspended.items()}
        self._holdings.tell(ReadSuspensions(dict(self._book)))
        for container, one in list(self._book.items()):
            held = self._holdings.held
            if container not in held:
                self._step(container, Step.ENDED)
                continue
            step = after_crash(one.phase, holds=bool(held[container]))
            log.info("container %s was %s when the agent ended: %s", container, one.phase.value, step.value)
            if step in (Step.BACK, Step.KEPT):
                try:
                    async with self._holdings.unfrozen(container):
                        await self._holdings.assure(container)
                        await self._bring_back(container, one)
                except MesosGpuError as error:
                    log.error("container %s is not led back from its suspension: %s", container, error)
                self._book = {name: other for name, other in self._book.items() if name != container}
                self._holdings.tell(StepSuspension(holder_of(container), Step.ENDED))
                self._save()
            elif one.phase is not Phase.SUSPENDED:
                self._step(container, step)
        for container in self._book:
            self._watch(container)

    async def suspend(self, container: ContainerId) -> None:
        """Put away what a container has on its GPUs, and give those back.

        Raises NotFound, BadInput, Conflict; Unavailable where the driver cannot, DeviceError when it refuses. The
        container then runs on with what it had.
        """
        async with self._one:
            held = self._holdings.held.get(container)
            if held is None:
                raise NotFound(f"container {container} has no GPUs here")
            self._holdings.check(container)
            async with self._holdings.unfrozen(container):
                await self._put_away(container, held)
            self._watch(container)
        self.on_change()

    async def resume(self, container: ContainerId) -> tuple[Gpu, ...]:
        """Give a container as many GPUs as it had, and bring back what it had on them; return them.

        Raises what `suspend` raises, NotEnoughGpus when others have them. The container then remains suspended.
        """
        async with self._one:
            self._step(container, Step.RESUME)
            one = self._book[container]
            try:
                async with self._holdings.unfrozen(container):
                    await self._holdings.take_again(container, one.gpus)
                    await self._bring_back(container, one)
            except MesosGpuError:
                await self._put_back(container)
                self._done(container, Step.REMAINED)
                raise
            self._done(container, Step.BACK)
            held = self._holdings.held[container]
        self.on_change()
        return tuple(sorted(held))

    async def close(self) -> None:
        """Stop watching."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _put_away(self, container: ContainerId, held: Sequence[Gpu]) -> None:
        users = await self._users(container)
        self._step(container, Step.SUSPEND, tuple(gpu.uuid for gpu in held))
        try:
            await asyncio.to_thread(self._cuda.put_away, users)
            await self._holdings.give_back(container)
        except MesosGpuError as error:
            if self._holdings.held.get(container):
                await self._led_back(container)
                self._done(container, Step.KEPT)
                raise
            log.warning("container %s has given its GPUs back all the same: %s", container, error)
        self._done(container, Step.PUT_AWAY)

    async def _users(self, container: ContainerId) -> Mapping[int, State]:
        return await asyncio.to_thread(lambda: self._cuda.states(self._pids_of(container)))

    async def _bring_back(self, container: ContainerId, one: Suspension) -> None:
        states = await self._users(container)
        pairs = self._holdings.pairs(container, one.gpus)
        await asyncio.to_thread(self._cuda.bring_back, states, pairs)

    async def _led_back(self, container: ContainerId) -> None:
        """Have a container that could not be put away run on, on what it has."""
        try:
            await self._holdings.assure(container)  # who was to give them back may have lost the way to some already
            await asyncio.to_thread(self._cuda.bring_back, await self._users(container))
        except MesosGpuError as error:
            log.error("container %s stands still: %s", container, error)

    async def _put_back(self, container: ContainerId) -> None:
        """Have a container that could not be brought back give up what it was given."""
        try:
            if self._holdings.held.get(container):
                await asyncio.to_thread(self._cuda.put_away, await self._users(container))
                await self._holdings.give_back(container)
        except MesosGpuError as error:
            log.error("container %s keeps GPUs that it cannot use: %s", container, error)

    def _watch(self, container: ContainerId) -> None:
        task = asyncio.ensure_future(self._until_its_end(container))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _until_its_end(self, container: ContainerId) -> None:
        try:
            await self._holdings.wait(container)
        except NotFound:
            pass
        if container in self._book:
            self._done(container, Step.ENDED)
            self.on_change()

    def _step(self, container: ContainerId, step: Step, gpus: tuple[str, ...] = ()) -> None:
        """Decide, and write down. Raises what `stepped` raises, Unavailable."""
        before = self._book
        self._book = stepped(before, container, step, gpus)
        try:
            self._save()
        except BaseException:
            self._book = before
            raise
        self._holdings.tell(StepSuspension(holder_of(container), step, gpus))

    def _done(self, container: ContainerId, step: Step) -> None:
        """Take note of what has been done already: also where that cannot be written down just then.

        What is on disk then is the step before, of which `after_crash` makes the same.
        """
        self._book = stepped(self._book, container, step)
        self._holdings.tell(StepSuspension(holder_of(container), step))
        try:
            self._save()
        except Unavailable as error:
            log.warning("container %s: %s: %s", container, step.value, error)

    def _save(self) -> None:
        self._record.save({name: (one.gpus, one.phase) for name, one in self._book.items()})


def pids_below(container: ContainerId, root: str) -> list[int]:
    """Return the processes of a container, and of those nested in it; `root` is the cgroup of all containers."""
    return [pid for pid in all_pids() if container_of_process(pid, root) == container]
