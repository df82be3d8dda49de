"""The allocator of Mesos: which GPUs of a machine are available. Thread-safe."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import gpus_of
from mesos_gpu.isolator.ledger import Choice
from mesos_gpu.isolator.pool import GpuPool
from mesos_gpu.isolator.serial import SerialAccess, serial
from mesos_gpu.mesos.ids import ContainerId

_ANYBODY = ContainerId("")


class NvidiaGpuAllocator:
    """The GPUs of one machine: each available or allocated.

    Source: Mesos src/slave/containerizer/mesos/isolators/gpu/allocator.hpp. Synchronous; where Mesos' futures
    fail, these calls raise. Thread-safe; in a forked process the calls raise Conflict.
    """

    def __init__(self, gpus: Iterable[Gpu], *, choice: Choice | None = None) -> None:
        self.access = SerialAccess("this allocator")
        self._pool = GpuPool(gpus_of(gpus), choice=choice)

    @property
    def total(self) -> frozenset[Gpu]:
        """Every GPU, available or allocated; never changes."""
        return self._pool.total

    @serial
    def allocate(self, wanted: int | Collection[Gpu]) -> frozenset[Gpu]:
        """Allocate so many GPUs, lowest device number first, or exactly the given ones; return them.

        All or none: raises NotEnoughGpus when fewer are available ("Requested n gpus but only m available"), Conflict
        when one of a given set is not ("... are not available"), BadInput if `wanted` is neither.
        """
        if isinstance(wanted, bool):
            raise BadInput(f"the number of GPUs must be a whole number, not {wanted}")
        gpus = self._pool.choose(wanted) if isinstance(wanted, int) else gpus_of(wanted)
        self._pool.take(_ANYBODY, gpus)
        return gpus

    @serial
    def deallocate(self, gpus: Collection[Gpu]) -> None:
        """Make these GPUs available. All or none: raises Conflict when one of them "... are not allocated"."""
        self._pool.give_back(_ANYBODY, gpus_of(gpus))
