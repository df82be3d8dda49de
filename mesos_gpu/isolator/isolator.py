"""One container sees only its GPUs: decides, records, and says what the container must be given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

from mesos_gpu.errors import BadInput, Conflict, ContainerError, DeviceError, MesosGpuError, NotFound, Unavailable
from mesos_gpu.gpu.device import DeviceNode, Gpu, GpuDriver, GpuUsage
from mesos_gpu.isolator.access import BASE_RULES, gpu_nodes, rule_for
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.holdings import Holdings, LostGpus
from mesos_gpu.isolator.identity import is_nested, top_level
from mesos_gpu.isolator.injection import NEEDED_LABEL, NO_DEVICES, VISIBLE_DEVICES, ImageManifest, should_inject
from mesos_gpu.isolator.live_access import LiveAccess, RunningAccess
from mesos_gpu.isolator.plan import Change, DeviceRule, LaunchPlan
from mesos_gpu.isolator.pool import Choice
from mesos_gpu.isolator.reach import HeldGpu, lost, revoked, settle
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId

_log = logging.getLogger(__name__)
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class NvidiaGpuIsolator(Holdings):
    """Gives containers whole GPUs of `gpus`. Synchronous; one caller at a time.

    The names are Mesos' (`include/mesos/slave/isolator.hpp`), in the order of a container's life: recover, prepare,
    isolate, update, usage and status, cleanup; docs/do/isolator.md tells it. An id such as `parent.child` is one
    nested in `parent`, with the GPUs of that. `volume` is None where the driver has none; `choice` picks among free
    GPUs, else the lowest device numbers are given; `live_access` is that of a running container, by the pid of one of
    its processes. Raises DeviceError when the driver's control nodes are not to be had.
    """

    def __init__(
        self,
        gpus: Iterable[Gpu],
        driver: GpuDriver,
        volume: NvidiaVolume | None,
        checkpoints: Checkpoints,
        *,
        choice: Choice | None = None,
        live_access: Callable[..., LiveAccess] = RunningAccess,
    ) -> None:
        super().__init__(gpus, choice)
        self._control_nodes = tuple(driver.control_nodes())
        self._driver, self._volume, self._checkpoints = driver, volume, checkpoints
        self._find_live_access = live_access
        self._live_access: dict[ContainerId, LiveAccess] = {}
        self._unsure: set[ContainerId] = set()  # containers whose access or records may not be as they are held

    @property
    def driver(self) -> GpuDriver:
        """What drives the GPUs."""
        return self._driver

    @property
    def volume(self) -> NvidiaVolume | None:
        """The driver's files, None where there are none."""
        return self._volume

    def revoke(self, container_id: ContainerId, shares: Collection[Gpu] = ()) -> Change:
        """Deny a container what it can open and does not hold; a running one cannot open it on return.

        `shares` are the cards of which it has a part. Other containers can be given the numbers then, unless a process
        has one of them open: that raises Conflict, and is to be tried again. Raises NotFound for a container that is
        unknown or has ended, ContainerError when the kernel refuses, Unavailable when a record cannot be written.
        """
        holds = self._holds(container_id)
        keeps = holds.union(shares)
        nodes = self._lost.stale(container_id, self._pool, keeps)
        closed = tuple(sorted(nodes, key=lambda node: (node.major, node.minor)))
        change = Change((), (), (), closed, self._plan(keeps, False, _NO_LABELS))
        live_access = self._live_access.get(container_id)
        if live_access is None:
            raise NotFound(f"container {container_id} does not run, or `isolate` was not called for it")
        live_access.change(change.plan.nodes, opened=(), closed=closed)
        in_use = live_access.using(closed)
        gone = revoked(self._lost.of(container_id), in_use)
        if holds or self._checkpoints.has(container_id):
            self._checkpoints.save(container_id, holds, gone)
        self._lost.put(container_id, gone)
        self._block()
        if any(not was.closed for was in gone):
            raise Conflict(f"container {container_id} has {', '.join(sorted(node.path for node in in_use))} open")
        return change

    def plan_for(self, gpus: Collection[Gpu]) -> LaunchPlan:
        """Return what a container with an image needs to use these GPUs, whoever holds them."""
        return self._plan(frozenset(gpus), True, _NO_LABELS)

    def recover(self, live: Collection[ContainerId]) -> frozenset[ContainerId]:
        """Take up what containers held before a restart; call it once, before anything else.

        Returns the orphans: containers that are recorded on disk but are not in `live`. Their GPUs stay held until
        `cleanup` (Mesos calls them available at once, and can so give one GPU to two containers). A GPU that has
        vanished since is dropped with a line in the log. Raises Unavailable when a record cannot be read.
        """
        pool = self._pool.fresh()
        for borrower, lent in self._lent.items():
            pool.take(borrower, lent)
        recorded = self._checkpoints.load()
        lent = frozenset[Gpu]().union(*self._lent.values())
        held = settle(recorded, self.total - lent)
        gone = LostGpus()
        for borrower in self._lent:
            gone.put(borrower, self._lost.of(borrower))
        for container_id, was_held in sorted(recorded.items()):
            gpus = held[container_id]
            _report_lost(container_id, was_held, gpus)
            try:
                pool.take(container_id, gpus)
            except Conflict as error:
                raise Unavailable(f"container {container_id} is on record with another's GPUs: {error}") from error
            gone.put(container_id, lost(was_held, gpus))
        for container_id in live:
            if not is_nested(container_id):
                pool.take(container_id, ())
        self._pool, self._lost = pool, gone
        self._live_access.clear()
        self._unsure = set(pool.held).difference(self._lent)
        self._block()
        return frozenset(recorded) - frozenset(live)

    def prepare(
        self,
        container_id: ContainerId,
        gpus: float,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = _NO_LABELS,
        debug: bool = False,
    ) -> LaunchPlan:
        """Take `gpus` free GPUs for the container; return what it must be given before its first process starts.

        `image` is False for a container on the host's file system; True is an image that gets the NVIDIA volume
        whatever it says. `labels` are the task's: with com.nvidia.volumes.needed it gets the volume in any case.
        Every container gets the control nodes, as in Mesos: nvidia-smi in a container without GPUs then says that
        there are none, and does not fail in a stranger way. Its NVIDIA_VISIBLE_DEVICES is set to its own GPUs.

        A nested container takes nothing and gets what its top-level container has; with `debug` (Mesos' class DEBUG)
        it gets nothing at all, since it enters the mounts of its parent.

        `gpus` may be Mesos' scalar, a float, of a whole number.

        Raises NotEnoughGpus; Conflict when the container is prepared already; BadInput for a part of a GPU, and when a
        nested one asks for GPUs; NotFound when its parent is unknown; Unavailable when that it holds them cannot be
        recorded. Nothing is held after an error.
        """
        gpus = _whole(container_id, gpus)
        if is_nested(container_id):
            return self._nested_plan(container_id, gpus, image, labels, debug=debug)
        if self._pool.held_by(container_id) is not None:
            raise Conflict(f"container {container_id} has already been prepared")
        given = self._pool.choose(gpus)
        if given:
            with ExitStack() as undo:
                undo.callback(self._checkpoints.remove, container_id)
                self._checkpoints.save(container_id, given)
                undo.pop_all()
        self._pool.take(container_id, given)
        self._block()
        return self._plan(given, image, labels)

    def isolate(self, container_id: ContainerId, pid: int, rules: Sequence[DeviceRule] = ()) -> None:
        """Tell that the container runs, with `pid` a process in it; `update` can change its access from now on.

        `rules` allow devices that are not the isolator's; the container keeps them whatever is changed.

        The container must have a cgroup and a /dev of its own. Nothing happens for a nested one. Raises NotFound for
        an unknown container or process, Unavailable when the process' cgroup is not to be found.
        """
        if is_nested(container_id):
            return
        self._holds(container_id)
        more = {"base_rules": (*BASE_RULES, *rules)} if rules else {}
        self._live_access[container_id] = self._find_live_access(pid, **more)

    def update(self, container_id: ContainerId, gpus: float, release: Collection[Gpu] | None = None) -> Change:
        """Make `gpus` the number of GPUs that the container holds; a running one can open them, or not, on return.

        A container that grows keeps what it has. One that shrinks gives back exactly `release`, which must then be as
        many as come off; without it, GPUs that no process of it has open at this moment, of the highest device
        number. A GPU that a process has open is not taken back, nor given back half: an open descriptor stays open.

        Raises NotEnoughGpus; BadInput for a nested container ("Not supported for nested containers") and for a
        `release` that does not fit; Conflict when a GPU is in use; NotFound for an unknown container; Unavailable when
        a record cannot be written, ContainerError when the kernel refuses. After any of them the container holds what
        it held, or more.
        """
        if is_nested(container_id):
            raise BadInput(f"container {container_id}: Not supported for nested containers")
        gpus = _whole(container_id, gpus)
        holds = self._holds(container_id)
        if gpus < 0:
            raise BadInput(f"container {container_id} cannot be given {gpus} GPUs")
        leaving = max(len(holds) - gpus, 0)
        if release is not None and (len(frozenset(release)) != leaving or not holds.issuperset(release)):
            raise BadInput(
                f"container {container_id} holds {len(holds)} GPUs and is to hold {gpus}, so {leaving} of its own must "
                f"be released, not {', '.join(gpu.uuid for gpu in sorted(release)) or 'none'}"
            )
        if leaving:
            return self._shrink(container_id, holds, leaving, release)
        return self._grow(container_id, holds, gpus - len(holds))

    def reach(self, container_id: ContainerId, gpus: Collection[Gpu], others: Collection[Gpu]) -> Change:
        """Have a container open GPUs that it shares, and none of the `others`; a running one can, or not, on return.

        They are nobody's here: who may have them is the caller's affair. Raises Conflict when it has one of the others
        open, NotFound for a container that is unknown or has ended, ContainerError when the kernel refuses; it may then
        open some of both.
        """
        self._holds(container_id)
        opened = gpu_nodes(sorted(gpus))
        closed = tuple(node for node in gpu_nodes(sorted(others)) if node not in opened)
        change = Change((), (), opened, closed, self._plan(frozenset(gpus), False, _NO_LABELS))
        live_access = self._live_access.get(container_id)
        if live_access is not None:
            live_access.change(change.plan.nodes, opened=opened, closed=closed)
            in_use = live_access.using(closed)
            if in_use:
                raise Conflict(f"container {container_id} has {', '.join(node.path for node in in_use)} open")
        return change

    def usage(self, container_id: ContainerId) -> dict[Gpu, GpuUsage]:
        """Return what each GPU of the container does now; one that does not answer reports nothing. It may block.

        A nested container's are those of its top-level one. Raises NotFound for an unknown container.
        """
        found = {}
        for gpu in self.status(container_id):
            try:
                found[gpu] = self._driver.usage(gpu)
            except DeviceError as error:
                _log.warning("container %s: %s", container_id, error)
                found[gpu] = GpuUsage()
        return found

    def status(self, container_id: ContainerId) -> tuple[Gpu, ...]:
        """Return the GPUs that the container can use, in order. Raises NotFound for an unknown container."""
        return tuple(sorted(self._holds(top_level(container_id))))

    def cleanup(self, container_id: ContainerId) -> None:
        """Free what the container holds, once no process of it is left; again, unknown or nested: nothing happens.

        Raises Unavailable when the record cannot be removed; the GPUs stay held then.
        """
        if self._pool.held_by(container_id) is None:
            return
        self._checkpoints.remove(container_id)
        self._pool.release(container_id)
        self._lost.drop(container_id)
        self._live_access.pop(container_id, None)
        self._unsure.discard(container_id)
        self._block()

    def _grow(self, container_id: ContainerId, holds: frozenset[Gpu], more: int) -> Change:
        given = self._pool.choose(more)
        change = self._change(holds, holds | given)
        if given or container_id in self._unsure:  # a shrink that failed may have left a record of fewer
            with ExitStack() as undo:
                undo.callback(self._record, container_id, holds)
                self._record(container_id, holds | given)
                undo.pop_all()
        if given:
            self._pool.take(container_id, given)
            self._block()
        live_access = self._live_access.get(container_id)
        if live_access is not None:
            try:
                self._move(container_id, live_access, change)
            except MesosGpuError:
                self._take_back(container_id, live_access, change)
                raise
        return change

    def _move(self, container_id: ContainerId, live_access: LiveAccess, change: Change) -> None:
        """Change what it can open; all of it again when an earlier change, or process, may not have ended well."""
        opened, closed = change.opened, change.closed
        if container_id in self._unsure:
            opened = gpu_nodes(change.plan.gpus)
            closed = tuple(node for node in gpu_nodes(sorted(self.total)) if node not in opened)
        self._unsure.add(container_id)
        live_access.change(change.plan.nodes, opened=opened, closed=closed)
        self._unsure.discard(container_id)

    def _take_back(self, container_id: ContainerId, live_access: LiveAccess, change: Change) -> None:
        """Undo a growth that took effect in part or not at all; if that fails too, the GPUs stay held."""
        held = self._holds(container_id)
        holds = held - frozenset(change.added)
        try:
            self._move(container_id, live_access, self._change(held, holds))
            self._record(container_id, holds)
        except MesosGpuError as error:
            _log.error("container %s may open GPUs it was not given, and so holds them: %s", container_id, error)
        else:
            self._pool.give_back(container_id, change.added)
            self._block()

    def _shrink(
        self, container_id: ContainerId, holds: frozenset[Gpu], count: int, release: Collection[Gpu] | None
    ) -> Change:
        live_access = self._live_access.get(container_id)
        leaving = self._idle(container_id, holds, count) if release is None else frozenset(release)
        change = self._change(holds, holds - leaving)
        if live_access is not None:
            self._move(container_id, live_access, change)
            # Only now can nothing more be opened, so only now does looking at what is open tell something.
            try:
                in_use = live_access.using(change.closed)
                if in_use:
                    raise Conflict(f"container {container_id} has {', '.join(node.path for node in in_use)} open")
            except (Conflict, ContainerError):
                self._move(container_id, live_access, self._change(holds - leaving, holds))
                raise
        self._unsure.add(container_id)
        self._record(container_id, holds - leaving)
        self._unsure.discard(container_id)
        self._pool.give_back(container_id, leaving)
        self._block()
        return change

    def _idle(self, container_id: ContainerId, holds: frozenset[Gpu], count: int) -> frozenset[Gpu]:
        """Return `count` of the container's GPUs that none of its processes has open, as far as that can be seen."""
        live_access = self._live_access.get(container_id)
        in_use = live_access.using(gpu_nodes(holds)) if live_access is not None else frozenset()
        idle = [gpu for gpu in sorted(holds) if in_use.isdisjoint(_own_nodes(gpu))]
        if len(idle) < count:
            raise Conflict(f"container {container_id} has all but {len(idle)} of its {len(holds)} GPUs open")
        return frozenset(idle[len(idle) - count :])

    def _record(self, container_id: ContainerId, gpus: frozenset[Gpu]) -> None:
        gone = self._lost.of(container_id)
        if gpus or gone:
            self._checkpoints.save(container_id, gpus, gone)
        else:
            self._checkpoints.remove(container_id)

    def _nested_plan(
        self,
        container_id: ContainerId,
        gpus: int,
        image: ImageManifest | bool,
        labels: Mapping[str, str],
        *,
        debug: bool,
    ) -> LaunchPlan:
        if gpus:
            raise BadInput(f"container {container_id}: its GPUs are those of {top_level(container_id)}; ask there")
        holds = self._holds(top_level(container_id))
        return LaunchPlan() if debug else self._plan(holds, image, labels)

    def _nodes(self, gpus: Iterable[Gpu]) -> tuple[DeviceNode, ...]:
        return (*gpu_nodes(sorted(gpus)), *self._control_nodes)

    def _plan(self, gpus: frozenset[Gpu], image: ImageManifest | bool, labels: Mapping[str, str]) -> LaunchPlan:
        ordered, nodes = tuple(sorted(gpus)), self._nodes(gpus)
        files = self._files(image, labels)
        return LaunchPlan(
            gpus=ordered,
            nodes=nodes,
            rules=tuple(map(rule_for, nodes)),
            mounts=files.mounts,
            environment={VISIBLE_DEVICES: ",".join(gpu.uuid for gpu in ordered) or NO_DEVICES},
            search_paths=files.search_paths,
        )

    def _files(self, image: ImageManifest | bool, labels: Mapping[str, str]) -> LaunchPlan:
        """Return what shows the container the driver's files, if it is to see them."""
        if self._volume is None:
            return LaunchPlan()
        if isinstance(image, ImageManifest):
            wanted, has_image = should_inject(image.environment, image.labels), True
        else:
            wanted, has_image = image or self._volume.is_nowhere_else, image
        return self._volume.plan(image=has_image) if wanted or NEEDED_LABEL in labels else LaunchPlan()

    def _change(self, before: frozenset[Gpu], after: frozenset[Gpu]) -> Change:
        old, new = gpu_nodes(sorted(before)), gpu_nodes(sorted(after))
        return Change(
            added=tuple(sorted(after - before)),
            removed=tuple(sorted(before - after)),
            opened=tuple(node for node in new if node not in old),
            closed=tuple(node for node in old if node not in new),
            plan=self._plan(after, False, _NO_LABELS),
        )


def _report_lost(container_id: ContainerId, was_held: Collection[HeldGpu], gpus: Collection[Gpu]) -> None:
    for was in sorted((one for one in was_held if not one.closed), key=lambda one: one.uuid):
        instead = [gpu.uuid for gpu in gpus if was.opens(gpu)]
        if was.uuid in instead:
            continue
        if instead:
            _log.warning("container %s was given GPU %s, which is now %s", container_id, was.uuid, ", ".join(instead))
        else:
            _log.warning("GPU %s of container %s is no longer managed here", was.uuid, container_id)


def _own_nodes(gpu: Gpu) -> tuple[DeviceNode, ...]:
    """Return the nodes that nobody has open but who uses this GPU: not those that MIG instances share."""
    return gpu_nodes([gpu]) if gpu.mig is None else gpu.mig.nodes


def _whole(container_id: ContainerId, gpus: float) -> int:
    """Return a number of GPUs, which Mesos writes as a scalar, as a whole one. Raises BadInput."""
    if gpus != gpus // 1 or gpus in (float("inf"), float("-inf")):
        raise BadInput(f"container {container_id} cannot be given {gpus:g} GPUs: it holds whole ones")
    return int(gpus)
