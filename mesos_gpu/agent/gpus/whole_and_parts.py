"""What containers have of GPUs, whole ones and parts of shared cards, given back while they are suspended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from mesos_gpu.agent.decisions.resuming import SpokenFor
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.errors import Conflict
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.ledger import Event
from mesos_gpu.isolator.plan import Change
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.isolator.suspension import moves
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.displaced import free_of, places_again
from mesos_gpu.mesos.shares.gpu_shares import CardPart, level_of
from mesos_gpu.mesos.shares.levels import Level


class GpuContainers(Protocol):
    """What is asked of the containerizer."""

    async def update(self, container_id: ContainerId, gpus: int) -> object:
        """Make `gpus` the number of GPUs that a container holds. Raises MesosGpuError."""

    async def change_access(self, container_id: ContainerId, how: Callable[[], Change]) -> object:
        """Have `how` change what a container can open. Raises MesosGpuError."""

    async def wait(self, container_id: ContainerId) -> object:
        """Return when a container has ended. Raises NotFound."""


class WholeAndParts:
    """Who has what, of both isolators. Lives in one event loop."""

    def __init__(
        self, containers: GpuContainers, whole: NvidiaGpuIsolator, sharers: SharingIsolator, turns: Turns
    ) -> None:
        self._containers, self._whole, self._sharers, self._turns = containers, whole, sharers, turns
        self.spoken_for: Callable[[], SpokenFor] = SpokenFor
        """What nobody has, and who is resumed must not be given: it is reserved, or promised to a task that starts."""

    @property
    def volume(self) -> NvidiaVolume | None:
        """Return the driver's files, None where there are none."""
        return self._whole.volume

    @property
    def _gpus(self) -> Mapping[str, Gpu]:
        return {gpu.uuid: gpu for gpu in (*self._whole.total, *self._sharers.gpus)}

    @property
    def held(self) -> Mapping[ContainerId, Sequence[Gpu]]:
        """Return the GPUs of each container: whole ones in order, of parts the card of each."""
        cards = {gpu.index: gpu for gpu in self._sharers.gpus}
        shares = self._sharers.shares.items()
        parts = {one: [cards[part.card] for part in share.parts if part.card in cards] for one, share in shares}
        return {**{one: sorted(gpus) for one, gpus in self._whole.held.items()}, **parts}

    @property
    def sharers(self) -> Collection[ContainerId]:
        """Return the containers that have parts, also while they are suspended."""
        return self._sharers.shares.keys()

    def tell(self, event: Event) -> None:
        """Tell the GPU ledger of a step."""
        self._whole.tell(event)

    def check(self, container: ContainerId) -> None:
        """Raise Conflict for what CUDA cannot put away."""
        if any(gpu.mig is not None for gpu in self.held[container]):
            raise Conflict(f"container {container} has MIG instances: CUDA puts away what is on whole GPUs only")
        share = self._sharers.shares.get(container)
        if share is not None and level_of(share.parts, self._sharers.cards) is Level.MPS:
            raise Conflict(f"container {container} uses its card through an MPS daemon, which keeps what is there")

    def unfrozen(self, container: ContainerId) -> AbstractAsyncContextManager[None]:
        """Have a container not frozen meanwhile, in whose processes the driver works."""
        return self._turns.unfrozen(container)

    async def give_back(self, container: ContainerId) -> None:
        """Have a container hold nothing. Raises MesosGpuError; it then has what it had."""
        if container in self.sharers:
            await self._reshare(container, ())
        else:
            await self._containers.update(container, 0)

    async def take_again(self, container: ContainerId, was: Sequence[str]) -> None:
        """Have a container hold as much as it `was` given, by UUID, of the same kind.

        Raises Conflict where others have it, MesosGpuError; it may then hold what it cannot use.
        """
        others_have = self.spoken_for()
        if container not in self.sharers:
            free = sum(gpu.uuid not in self._whole.withdrawn | self._whole.blocked for gpu in self._whole.free)
            if free - others_have.gpus < len(was) <= free:
                words = f"{free} are free, and {others_have.gpus} of those reserved for roles or promised to tasks"
                raise Conflict(f"container {container} had {len(was)} GPUs: {words}")
            await self._containers.update(container, len(was))
            self._check_kind(was, self.held[container])
            return
        shares, cards = self._sharers.shares, self._sharers.cards
        open_cards = [card for card in cards.values() if card.index not in self._sharers.closed]
        others = [share for one, share in shares.items() if one != container]
        asked = shares[container].asked
        parts = places_again(asked, cards, free_of(open_cards, others, others_have.units), self._like())
        if parts is None:
            has = ", ".join(f"{part.mem_units} GiB with weight {part.weight} of card {part.card}" for part in asked)
            raise Conflict(f"container {container} had {has}, and neither that nor another card like it has so much")
        await self._reshare(container, parts)

    async def assure(self, container: ContainerId) -> None:
        """Have a container be able to open what it has, whatever an agent before this one did of that."""
        share = self._sharers.shares.get(container)
        if share is not None:
            await self._reshare(container, share.parts)
        else:
            await self._containers.update(container, len(self.held[container]))

    def pairs(self, container: ContainerId, was: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return which GPU takes the place of which, by UUID."""
        now = [gpu.uuid for gpu in self.held[container]]
        return tuple(zip(was, now, strict=True)) if container in self.sharers else moves(was, now)

    async def wait(self, container: ContainerId) -> object:
        """Return when a container has ended. Raises NotFound."""
        return await self._containers.wait(container)

    async def _reshare(self, container: ContainerId, parts: Sequence[CardPart]) -> None:
        await self._containers.change_access(container, partial(self._sharers.reshare, container, parts))
        await self._turns.tell()

    def _like(self) -> Mapping[int, Collection[int]]:
        """Return, by card, those of the same model that keep tasks to their memory in the same way."""
        gpus, cards = {gpu.index: gpu for gpu in self._sharers.gpus}, self._sharers.cards
        kinds = {one: (gpus[one].name, gpus[one].memory_mib, card.level) for one, card in cards.items() if one in gpus}
        return {one: [other for other, same in kinds.items() if same == kind] for one, kind in kinds.items()}

    def _check_kind(self, was: Sequence[str], now: Collection[Gpu]) -> None:
        kinds = {(gpu.name, gpu.memory_mib) for gpu in map(self._gpus.get, was) if gpu is not None}
        for gpu in now:
            if kinds and (gpu.name, gpu.memory_mib) not in kinds:
                raise Conflict(
                    f"GPU {gpu.index} is a {gpu.name}: what was on another model cannot be brought back there"
                )
