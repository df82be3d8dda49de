"""One container sees only its GPUs: decides, records, and says what the container must be given."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from mesos_gpu.errors import Conflict, Unavailable
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.isolator.access import gpu_node, rule_for
from mesos_gpu.isolator.checkpoints import Checkpoints, HeldGpu
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.isolator.pool import GpuPool
from mesos_gpu.isolator.volume import NvidiaVolume

_log = logging.getLogger(__name__)


class NvidiaGpuIsolator:
    """Gives containers whole GPUs of `gpus`. Synchronous; touches files only, never a cgroup or a process.

    The names are Mesos' (`include/mesos/slave/isolator.hpp`). `volume` is None where the driver has none. Raises
    DeviceError when the driver's control nodes are not to be had.
    """

    def __init__(
        self, gpus: Iterable[Gpu], driver: GpuDriver, volume: NvidiaVolume | None, checkpoints: Checkpoints
    ) -> None:
        self._pool = GpuPool.of(gpus)
        self._control_nodes = tuple(driver.control_nodes())
        self._volume, self._checkpoints = volume, checkpoints

    @property
    def total(self) -> frozenset[Gpu]:
        """The GPUs that this isolator manages, free or held."""
        return self._pool.total

    @property
    def free(self) -> frozenset[Gpu]:
        """The GPUs that no container holds."""
        return self._pool.free

    @property
    def withdrawn(self) -> frozenset[str]:
        """The uuids of GPUs that `prepare` does not give."""
        return self._pool.withdrawn

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Give these GPUs to no container from now on; one that is held stays with its holder."""
        self._pool = replace(self._pool, withdrawn=self._pool.withdrawn.union(uuids))

    def restore(self, uuids: Iterable[str]) -> None:
        """Give these GPUs again."""
        self._pool = replace(self._pool, withdrawn=self._pool.withdrawn.difference(uuids))

    @property
    def held(self) -> Mapping[str, frozenset[Gpu]]:
        """The GPUs of every container that was prepared or recovered and is not cleaned up; empty for one without."""
        return self._pool.held

    def recover(self, live: Collection[str]) -> frozenset[str]:
        """Take up what containers held before a restart; call it once, before anything else.

        Returns the orphans: containers that are recorded on disk but are not in `live`. Their GPUs stay held until
        `cleanup` (Mesos calls them available at once, and can so give one GPU to two containers). A GPU that has
        vanished since is dropped with a line in the log. Raises Unavailable when a record cannot be read.
        """
        pool = replace(GpuPool.of(self.total), withdrawn=self.withdrawn)
        recorded = self._checkpoints.load()
        for container_id, was_held in sorted(recorded.items()):
            gpus = self._still_here(container_id, was_held)
            try:
                pool = pool.take(container_id, gpus)
            except Conflict as error:
                raise Unavailable(f"container {container_id} is on record with another's GPUs: {error}") from error
        for container_id in live:
            pool = pool.take(container_id, ())
        self._pool = pool
        return frozenset(recorded) - frozenset(live)

    def prepare(self, container_id: str, gpus: int, *, image: bool = False) -> LaunchPlan:
        """Take `gpus` free GPUs for the container; return what it must be given before its first process starts.

        Every container gets the control nodes, as in Mesos: nvidia-smi in a container without GPUs then says that
        there are none, and does not fail in a stranger way. Raises NotEnoughGpus; Conflict when the container is
        prepared already; Unavailable when that it holds them cannot be recorded. Nothing is held after an error.
        """
        if container_id in self._pool.held:
            raise Conflict(f"container {container_id} has already been prepared")
        pool, given = self._pool.allocate(container_id, gpus)
        if given:
            with ExitStack() as undo:
                undo.callback(self._checkpoints.remove, container_id)
                self._checkpoints.save(container_id, given)
                undo.pop_all()
        self._pool = pool
        return self._plan(given, image=image)

    def cleanup(self, container_id: str) -> None:
        """Free what the container holds, once no process of it is left; again, or unknown: nothing happens.

        Raises Unavailable when the record cannot be removed; the GPUs stay held then.
        """
        if container_id not in self._pool.held:
            return
        self._checkpoints.remove(container_id)
        self._pool = self._pool.release(container_id)

    def _plan(self, gpus: frozenset[Gpu], *, image: bool) -> LaunchPlan:
        ordered = tuple(sorted(gpus))
        nodes = (*(gpu_node(gpu) for gpu in ordered), *self._control_nodes)
        files = self._volume.plan(image=image) if self._volume is not None else LaunchPlan()
        return LaunchPlan(
            gpus=ordered,
            nodes=nodes,
            rules=tuple(rule_for(node) for node in nodes),
            mounts=files.mounts,
            search_paths=files.search_paths,
        )

    def _still_here(self, container_id: str, was_held: Collection[HeldGpu]) -> frozenset[Gpu]:
        """Return the GPUs that the container can open now: those with the device numbers it was given."""
        by_minor = {gpu.minor: gpu for gpu in self.total}
        here: set[Gpu] = set()
        for was in was_held:
            gpu = by_minor.get(was.minor)
            if gpu is None:
                _log.warning("GPU %s of container %s is no longer managed here", was.uuid, container_id)
                continue
            if gpu.uuid != was.uuid:
                _log.warning("container %s was given GPU %s, which is now %s", container_id, was.uuid, gpu.uuid)
            here.add(gpu)
        return frozenset(here)
