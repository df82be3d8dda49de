"""Thread-safe accounts of GPUs: Mesos' allocator, and what an isolator knows of holders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import gpus_of, texts_of
from mesos_gpu.isolator.pool import Choice, GpuPool
from mesos_gpu.isolator.serial import SerialAccess, serial
from mesos_gpu.mesos.ids import ContainerId

_ANYBODY = ContainerId("")
_LENT = "/"  # prefix of names in the pool of holders outside Mesos; no container id contains it


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


class GpuAccount:
    """Which of the GPUs of one machine are free, held by containers, lent to holders outside Mesos, or withdrawn."""

    def __init__(self, gpus: Iterable[Gpu], choice: Choice | None) -> None:
        self.access = SerialAccess("this isolator")
        self._pool = GpuPool(gpus_of(gpus), choice=choice)
        self._lent: dict[ContainerId, frozenset[Gpu]] = {}

    @property
    @serial
    def total(self) -> frozenset[Gpu]:
        """The GPUs that this isolator manages, free or held."""
        return self._pool.total

    @property
    @serial
    def free(self) -> frozenset[Gpu]:
        """The GPUs that no container holds."""
        return self._pool.free

    @property
    @serial
    def withdrawn(self) -> frozenset[str]:
        """The uuids of GPUs that `prepare` and `update` do not give."""
        return self._pool.withdrawn

    @serial
    def withdraw(self, uuids: Iterable[str]) -> None:
        """Give these GPUs to no container from now on; one that is held stays with its holder."""
        self._pool.withdrawn = self._pool.withdrawn.union(texts_of(uuids, "UUIDs"))

    @serial
    def restore(self, uuids: Iterable[str]) -> None:
        """Give these GPUs again."""
        self._pool.withdrawn = self._pool.withdrawn.difference(texts_of(uuids, "UUIDs"))

    @property
    @serial
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """The GPUs of every container that was prepared or recovered and is not cleaned up; empty for one without."""
        held = dict(self._pool.held)
        for borrower in self._lent:
            del held[borrower]
        return held

    @property
    @serial
    def lent(self) -> Mapping[str, frozenset[Gpu]]:
        """The GPUs that holders outside Mesos have, by the name that they were lent under."""
        return {name.removeprefix(_LENT): gpus for name, gpus in self._lent.items()}

    @serial
    def manage(self, gpus: Iterable[Gpu]) -> None:
        """Have these GPUs from now on, for MIG instances come and go; who holds one keeps it.

        Raises Conflict when one that is held is not among them.
        """
        pool = GpuPool(gpus_of(gpus), choice=self._pool.choice)
        pool.withdrawn = self._pool.withdrawn
        for holder, held in self._pool.held.items():
            pool.take(holder, held)
        self._pool = pool

    @serial
    def lend(self, name: str, gpus: Collection[Gpu]) -> None:
        """Give free GPUs to a holder outside Mesos; who it is, and the record of it, is the caller's affair.

        Also before `recover`, which keeps what is lent. Raises Conflict when one is not free, or the name is taken;
        BadInput if `name` is not a string or an item of `gpus` is not a Gpu.
        """
        borrower, gpus = _borrower(name), gpus_of(gpus)
        if borrower in self._lent:
            raise Conflict(f"GPUs are lent under the name {name} already")
        self._pool.take(borrower, gpus)
        self._lent[borrower] = gpus

    @serial
    def take_back(self, name: str) -> None:
        """Free what was lent under a name; an unknown one is not an error."""
        borrower = _borrower(name)
        if self._lent.pop(borrower, None) is not None:
            self._pool.release(borrower)


def _borrower(name: object) -> ContainerId:
    """Return the name in the pool of a holder outside Mesos. Raises BadInput."""
    if not isinstance(name, str):
        raise BadInput(f"the name under which GPUs are lent must be a string, not {name!r}")
    return ContainerId(_LENT + name)
