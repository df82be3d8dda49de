"""Who holds which GPU. Pure: no files, processes or clocks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.access import gpu_names
from mesos_gpu.isolator.ledger import Choice
from mesos_gpu.mesos.ids import ContainerId


class GpuPool:
    """The GPUs of one agent: each is free or held by one container.

    Two steps, so that what is done in between can fail: `choose` decides and changes nothing, `take` gives. What a
    call costs depends on the GPUs it moves, not on how many other containers hold some. GPUs are given by lowest device
    number, as in Mesos (`isolators/gpu/allocator.cpp`), unless `choice` says otherwise. Raises ValueError when two GPUs
    are one: the same uuid, or the same device number and neither of them a MIG instance. With `vanished`, the number of
    a GPU that is held and does not exist any more can be that of another one.
    """

    def __init__(self, gpus: Iterable[Gpu], *, choice: Choice | None = None, vanished: bool = False) -> None:
        self.total = frozenset(gpus)
        whole = [gpu.minor for gpu in self.total if gpu.mig is None]
        parts = {gpu.minor for gpu in self.total if gpu.mig is not None}
        uuids = {gpu.uuid for gpu in self.total}
        shared = len(set(whole)) != len(whole) or not parts.isdisjoint(whole)
        if len(uuids) != len(self.total) or (shared and not vanished):
            raise ValueError(f"two GPUs with one uuid or device number: {gpu_names(self.total)}")
        self._ordered = sorted(self.total)
        self._place = {gpu: place for place, gpu in enumerate(self._ordered)}
        self._free = list(range(len(self._ordered)))
        self._held: dict[ContainerId, frozenset[Gpu]] = {}
        self.choice = choice
        self.withdrawn: frozenset[str] = frozenset()
        """The uuids of GPUs that `choose` passes over; one that is held stays with its holder."""
        self.blocked: frozenset[str] = frozenset()
        """The uuids of free GPUs that a container can open which does not hold them: not given, not lent."""

    def fresh(self) -> GpuPool:
        """Return a pool of the same GPUs and rules in which all of them are free."""
        pool = GpuPool(self.total, choice=self.choice)
        pool.withdrawn = self.withdrawn
        return pool

    @property
    def free(self) -> frozenset[Gpu]:
        """The GPUs that no container holds."""
        return frozenset(self._ordered[place] for place in self._free)

    @property
    def available(self) -> frozenset[Gpu]:
        """The free GPUs that may be given."""
        return frozenset(gpu for gpu in self.free if gpu.uuid not in self.withdrawn and gpu.uuid not in self.blocked)

    @property
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """What every container holds now, also one that was given no GPU; a copy."""
        return dict(self._held)

    def held_by(self, container: ContainerId) -> frozenset[Gpu] | None:
        """Return what `container` holds; None for one that was given nothing, not even no GPU."""
        return self._held.get(container)

    def choose(self, count: int) -> frozenset[Gpu]:
        """Return `count` whole GPUs to give; nothing changes.

        Raises NotEnoughGpus when fewer are to be had, BadInput when `count` is negative, ValueError when `choice`
        returns other GPUs than it was asked for.
        """
        if count < 0:
            raise BadInput(f"a container cannot be given {count} GPUs")
        if self.choice is None and not self.withdrawn and not self.blocked:
            chosen = frozenset(self._ordered[place] for place in self._free[:count])
            if len(chosen) < count:
                raise NotEnoughGpus(asked=count, free=len(chosen))
            return chosen
        available = self.available
        if count > len(available):
            raise NotEnoughGpus(asked=count, free=len(available))
        if self.choice is None:
            return frozenset(sorted(available)[:count])
        chosen = frozenset(self.choice(available, count))
        if len(chosen) != count or not chosen <= available:
            raise ValueError(f"`choice` must return {count} of the GPUs {gpu_names(available)}, and returned {chosen}")
        return chosen

    def take(self, container: ContainerId, gpus: Collection[Gpu]) -> None:
        """Give exactly `gpus` to `container`, beside what it holds; all or none. Raises Conflict when one is not free.

        (In Mesos a container that grows forgets what it held before; not here.)
        """
        missing = [gpu for gpu in gpus if not self._is_free(gpu) or gpu.uuid in self.blocked]
        if missing:
            raise Conflict(f"GPUs {gpu_names(missing)} are not available")
        for gpu in frozenset(gpus):
            del self._free[bisect_left(self._free, self._place[gpu])]
        self._held[container] = self._held.get(container, frozenset()).union(gpus)

    def allocate(self, container: ContainerId, count: int) -> frozenset[Gpu]:
        """`choose` and `take` in one; return what was given. Raises as they do."""
        given = self.choose(count)
        self.take(container, given)
        return given

    def give_back(self, container: ContainerId, gpus: Collection[Gpu]) -> None:
        """Free exactly `gpus` of `container`, all or none. Raises Conflict when it does not hold all of them."""
        holds, given_back = self._held.get(container, frozenset()), frozenset(gpus)
        strange = given_back - holds
        if strange:
            raise Conflict(f"GPUs {gpu_names(strange)} are not allocated" + (f" to {container}" if container else ""))
        self._put_back(given_back)
        self._held[container] = holds - given_back

    def release(self, container: ContainerId) -> None:
        """Free all that `container` holds and forget it; an unknown container is not an error."""
        self._put_back(self._held.pop(container, frozenset()))

    def _put_back(self, gpus: Iterable[Gpu]) -> None:
        for gpu in gpus:
            insort(self._free, self._place[gpu])

    def _is_free(self, gpu: Gpu) -> bool:
        place = self._place.get(gpu)
        if place is None:
            return False
        found = bisect_left(self._free, place)
        return found < len(self._free) and self._free[found] == place
