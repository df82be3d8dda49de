"""Who holds which GPU. Pure: a decision is a new pool, the old one stays as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mesos_gpu.errors import BadInput, Conflict, NotEnoughGpus
from mesos_gpu.gpu.device import NVIDIA_MAJOR, Gpu


@dataclass(frozen=True, slots=True)
class GpuPool:
    """The GPUs of one agent: each is free or held by one container.

    `held` names every container that has been given its share, also one that asked for no GPU. `withdrawn` are the
    uuids of GPUs that `allocate` does not give, free or held; those that are held stay so.
    Source: Mesos `isolators/gpu/allocator.cpp`, NvidiaGpuAllocatorProcess.
    """

    free: frozenset[Gpu]
    held: Mapping[str, frozenset[Gpu]] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()

    @classmethod
    def of(cls, gpus: Iterable[Gpu]) -> GpuPool:
        """Return a pool in which every one of `gpus` is free. Raises ValueError when two have the same minor number."""
        total = frozenset(gpus)
        if len({gpu.minor for gpu in total}) != len(total):
            raise ValueError(f"two GPUs with one device number: {_names(total)}")
        return cls(free=total)

    @property
    def total(self) -> frozenset[Gpu]:
        """Every GPU, free or held; the same for the life of a pool and of those that come from it."""
        return self.free.union(*self.held.values())

    @property
    def available(self) -> frozenset[Gpu]:
        """The free GPUs that may be given."""
        return frozenset(gpu for gpu in self.free if gpu.uuid not in self.withdrawn)

    def allocate(self, container: str, count: int) -> tuple[GpuPool, frozenset[Gpu]]:
        """Give `count` whole free GPUs to `container`, beside what it holds already; those of lowest minor number.

        Returns the new pool and the GPUs just given. Raises NotEnoughGpus when fewer are free, BadInput when `count`
        is negative. (In Mesos a container that grows forgets what it held before; not here.)
        """
        if count < 0:
            raise BadInput(f"a container cannot be given {count} GPUs")
        available = self.available
        if count > len(available):
            raise NotEnoughGpus(asked=count, free=len(available))
        given = frozenset(sorted(available)[:count])
        return self._give(container, given), given

    def take(self, container: str, gpus: Collection[Gpu]) -> GpuPool:
        """Give exactly `gpus` to `container`, all or none. Raises Conflict when any of them is not free."""
        missing = frozenset(gpus) - self.free
        if missing:
            raise Conflict(f"GPUs {_names(missing)} are not available")
        return self._give(container, frozenset(gpus))

    def give_back(self, container: str, gpus: Collection[Gpu]) -> GpuPool:
        """Free exactly `gpus` of `container`, all or none. Raises Conflict when it does not hold all of them."""
        holds = self.held.get(container, frozenset())
        strange = frozenset(gpus) - holds
        if strange:
            raise Conflict(f"GPUs {_names(strange)} are not allocated to {container}")
        return replace(self, free=self.free.union(gpus), held={**self.held, container: holds - frozenset(gpus)})

    def release(self, container: str) -> GpuPool:
        """Free all that `container` holds and forget it; an unknown container is not an error."""
        if container not in self.held:
            return self
        rest = {name: gpus for name, gpus in self.held.items() if name != container}
        return replace(self, free=self.free | self.held[container], held=rest)

    def _give(self, container: str, given: frozenset[Gpu]) -> GpuPool:
        holds = self.held.get(container, frozenset())
        return replace(self, free=self.free - given, held={**self.held, container: holds | given})


def _names(gpus: Iterable[Gpu]) -> str:
    """Return GPUs as Mesos prints them: device numbers, lowest first."""
    return ", ".join(f"{NVIDIA_MAJOR}.{gpu.minor}" for gpu in sorted(gpus))
