"""One container sees only its GPUs: decides, records, and says what the container must be given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from mesos_gpu.errors import BadInput, Conflict, ContainerError, DeviceError, MesosGpuError, NotFound, Unavailable
from mesos_gpu.gpu.device import Gpu, GpuDriver, GpuUsage
from mesos_gpu.isolator.access import BASE_RULES, gpu_nodes, own_nodes
from mesos_gpu.isolator.arguments import (
    container_id_of,
    container_ids_of,
    flag_of,
    gpu_count_of,
    gpus_of,
    labels_of,
    lost_gpus_of,
    pid_of,
    rules_of,
)
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.holdings import Holdings, LostGpus
from mesos_gpu.isolator.injection import NO_LABELS, ImageManifest, Planner
from mesos_gpu.isolator.ledger import Allocate, Choice, ReadRecords, Release, Revoke, container, lease
from mesos_gpu.isolator.live_access import LiveAccess, RunningAccess
from mesos_gpu.isolator.plan import Change, DeviceRule, LaunchPlan
from mesos_gpu.isolator.reach import HeldGpu, lost, revoked, settle
from mesos_gpu.isolator.serial import serial
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId, is_nested, top_level

_log = logging.getLogger(__name__)


class NvidiaGpuIsolator(Holdings):
    """Gives containers whole GPUs of `gpus`. Synchronous; thread-safe: one call runs at a time.

    The names are Mesos' (`include/mesos/slave/isolator.hpp`), in the order of a container's life: recover, prepare,
    isolate, update, usage and status, cleanup; docs/do/isolator.md tells it. An id such as `parent.child` is one
    nested in `parent`, with the GPUs of that. `volume` is None where the driver has none; `choice` picks among free
    GPUs, else the lowest device numbers are given; `live_access` is that of a running container, by the pid of one of
    its processes. With `check_ledger` the ledger is compared after each change; differences are logged as errors.

    GPUs that `checkpoints` has on record are held from the constructor on, whether or not `recover` is called. The
    isolator locks the folder of the records until `close` or the end of its process. In a process forked from this one
    every call raises Conflict.

    Raises Conflict if another isolator, in this or another process, has locked the folder; Unavailable if a record
    cannot be read or the folder cannot be locked; DeviceError if the driver's control nodes cannot be found; BadInput
    if an item of `gpus` is not a Gpu; ValueError if a GPU is listed twice.
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
        check_ledger: bool = False,
    ) -> None:
        super().__init__(gpus, choice, check_ledger=check_ledger)
        self._planner = Planner(driver.control_nodes(), volume)
        self._driver, self._volume, self._checkpoints = driver, volume, checkpoints
        self._find_live_access = live_access
        self._live_access: dict[ContainerId, LiveAccess] = {}
        self._unremoved: set[ContainerId] = set()
        """Containers whose `prepare` failed and whose record could not be removed; they hold their GPUs until it is."""
        self._unwritten: set[ContainerId] = set()
        """Containers whose record could not be written and may differ from what they hold."""
        self._starting = True
        """Whether no container has been recovered or prepared yet: leases can still claim GPUs then."""
        checkpoints.claim(self)
        try:
            self._changed(ReadRecords(self._hold_recorded(())))
        except BaseException:
            checkpoints.close()
            raise
        self._unsure = set(self._pool.held)  # containers whose access or records may not be as they are held

    def close(self) -> None:
        """Unlock the folder of the records. Containers stay on record; further calls raise Conflict."""
        if self.access.is_forked:
            return
        with suppress(Conflict), self.access:  # a second call finds it closed
            self.access.close()
            self._checkpoints.close()

    def __enter__(self) -> NvidiaGpuIsolator:
        """Return this isolator; it is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def driver(self) -> GpuDriver:
        """What drives the GPUs."""
        return self._driver

    @property
    def volume(self) -> NvidiaVolume | None:
        """The driver's files, None where there are none."""
        return self._volume

    @serial
    def lend(self, name: str, gpus: Collection[Gpu], lost: Collection[HeldGpu] = ()) -> None:
        """Give GPUs to a holder outside Mesos: see Holdings.

        Before the first `recover` or `prepare` a lease of an earlier process can claim a GPU that a container on record
        can open, too: the container then holds it no longer, and is denied its nodes by `revoke`.
        """
        claimed, gone = gpus_of(gpus), lost_gpus_of(lost)
        if not self._starting:
            super().lend(name, claimed, gone)
            return
        self._check_name(name)
        recorded = self._hold_recorded(claimed)  # blocks no GPU until this one is lent
        self._lend(name, claimed, gone, ReadRecords(recorded, (Allocate(lease(name), claimed, gone),)))

    @serial
    def revoke(self, container_id: str, shares: Collection[Gpu] = ()) -> Change:
        """Deny a container what it can open and does not hold; a running one cannot open it on return.

        `shares` are the cards of which it has a part. Other containers can be given the numbers then, unless a process
        has one of them open: that raises Conflict, and is to be tried again. Raises NotFound for a container that is
        unknown or has ended, ContainerError when the kernel refuses, Unavailable when a record cannot be written.
        """
        name, shared = container_id_of(container_id), gpus_of(shares)
        holds = self._holds(name)
        keeps = holds | shared
        nodes = self._lost.stale(name, self._pool, keeps)
        closed = tuple(sorted(nodes, key=lambda node: (node.major, node.minor)))
        change = Change((), (), (), closed, self._planner.plan(keeps, False, NO_LABELS))
        live_access = self._live_access.get(name)
        if live_access is None:
            raise NotFound(f"container {name} does not run, or `isolate` was not called for it")
        live_access.change(change.plan.nodes, opened=(), closed=closed)
        in_use = live_access.using(closed)
        gone = revoked(self._lost.of(name), in_use)
        if holds or self._checkpoints.has(name):
            self._checkpoints.save(name, holds, gone)
        self._lost.put(name, gone)
        self._changed(Revoke(container(name), in_use))
        if any(not was.closed for was in gone):
            raise Conflict(f"container {name} has {', '.join(sorted(node.path for node in in_use))} open")
        return change

    @serial
    def plan_for(self, gpus: Collection[Gpu]) -> LaunchPlan:
        """Return what a container with an image needs to use these GPUs, whoever holds them."""
        return self._planner.plan(gpus_of(gpus), True, NO_LABELS)

    @serial
    def recover(self, live: Collection[str]) -> frozenset[ContainerId]:
        """Reconcile the records with the containers that still run; call it once after a restart, before other calls.

        Returns the orphans: containers that are recorded on disk but are not in `live`. Their GPUs stay held until
        `cleanup` (Mesos calls them available at once, and can so give one GPU to two containers). GPUs on record are
        held without this call; it adds `live` containers without GPUs, which have no record. Raises BadInput.
        """
        names = container_ids_of(live)
        self._starting = False
        for container_id in names:
            if not is_nested(container_id):
                self._take(container_id, ())
        self._live_access.clear()
        self._unsure = set(self._pool.held).difference(self._lent)
        return frozenset(self._unsure) - names

    @serial
    def prepare(
        self,
        container_id: str,
        gpus: float,
        *,
        image: ImageManifest | bool = False,
        labels: Mapping[str, str] = NO_LABELS,
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
        name = container_id_of(container_id)
        count, labels = gpu_count_of(name, gpus), labels_of(name, labels)
        if not isinstance(image, ImageManifest):
            flag_of(image, "`image`, if it is not an ImageManifest,")
        flag_of(debug, "`debug`")
        if is_nested(name):
            return self._nested_plan(name, count, image, labels, debug=debug)
        self._settle()
        if name in self._unremoved:
            raise Unavailable(
                f"the record of an earlier container {name} cannot be removed; check the disk, or choose another id"
            )
        if self._pool.held_by(name) is not None:
            raise Conflict(
                f"container {name} has already been prepared, by this process or by the one before it; clean it up "
                "once it has ended, or choose another id"
            )
        given = self._choose(count)
        plan = self._planner.plan(given, image, labels)
        if given:
            try:
                self._checkpoints.save(name, given)
            except BaseException:
                self._undo_prepare(name, given)
                raise
        self._take(name, given)
        self._starting = False
        return plan

    @serial
    def isolate(self, container_id: str, pid: int, rules: Sequence[DeviceRule] = ()) -> None:
        """Tell that the container runs, with `pid` a process in it; `update` can change its access from now on.

        `rules` allow devices that are not the isolator's; the container keeps them whatever is changed.

        The container must have a cgroup and a /dev of its own. Nothing happens for a nested one. Raises NotFound for
        an unknown container or process, Unavailable when the process' cgroup is not to be found.
        """
        name, pid, given = container_id_of(container_id), pid_of(pid), rules_of(rules)
        if is_nested(name):
            return
        self._holds(name)
        more = {"base_rules": (*BASE_RULES, *given)} if given else {}
        self._live_access[name] = self._find_live_access(pid, **more)

    @serial
    def update(self, container_id: str, gpus: float, release: Collection[Gpu] | None = None) -> Change:
        """Make `gpus` the number of GPUs that the container holds; a running one can open them, or not, on return.

        A container that grows keeps what it has. One that shrinks gives back exactly `release`, which must then be as
        many as come off; without it, GPUs that no process of it has open at this moment, of the highest device
        number. A GPU that a process has open is not taken back, nor given back half: an open descriptor stays open.

        Raises NotEnoughGpus; BadInput for a nested container ("Not supported for nested containers") and for a
        `release` that does not fit; Conflict when a GPU is in use; NotFound for an unknown container; Unavailable when
        a record cannot be written, ContainerError when the kernel refuses. After any of them the container holds what
        it held, or more.
        """
        name = container_id_of(container_id)
        if is_nested(name):
            raise BadInput(f"container {name}: Not supported for nested containers")
        count, named = gpu_count_of(name, gpus), None if release is None else gpus_of(release)
        self._settle()
        holds = self._holds(name)
        leaving = max(len(holds) - count, 0)
        if named is not None and (len(named) != leaving or not holds.issuperset(named)):
            raise BadInput(
                f"container {name} holds {len(holds)} GPUs and is to hold {count}, so {leaving} of its own must "
                f"be released, not {', '.join(gpu.uuid for gpu in sorted(named)) or 'none'}"
            )
        if leaving:
            return self._shrink(name, holds, leaving, named)
        return self._grow(name, holds, count - len(holds))

    @serial
    def reach(self, container_id: str, gpus: Collection[Gpu], others: Collection[Gpu]) -> Change:
        """Have a container open GPUs that it shares, and none of the `others`; a running one can, or not, on return.

        They are nobody's here: who may have them is the caller's affair. Raises Conflict when it has one of the others
        open, NotFound for a container that is unknown or has ended, ContainerError when the kernel refuses; it may then
        open some of both.
        """
        name, own = container_id_of(container_id), gpus_of(gpus)
        self._holds(name)
        opened = gpu_nodes(sorted(own))
        closed = tuple(node for node in gpu_nodes(sorted(gpus_of(others))) if node not in opened)
        change = Change((), (), opened, closed, self._planner.plan(own, False, NO_LABELS))
        live_access = self._live_access.get(name)
        if live_access is not None:
            live_access.change(change.plan.nodes, opened=opened, closed=closed)
            in_use = live_access.using(closed)
            if in_use:
                raise Conflict(f"container {name} has {', '.join(node.path for node in in_use)} open")
        return change

    def usage(self, container_id: str) -> dict[Gpu, GpuUsage]:
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

    @serial
    def status(self, container_id: str) -> tuple[Gpu, ...]:
        """Return the GPUs that the container can use, in order. Raises NotFound for an unknown container."""
        return tuple(sorted(self._holds(top_level(container_id_of(container_id)))))

    @serial
    def cleanup(self, container_id: str) -> None:
        """Free what the container holds, once no process of it is left; again, unknown or nested: nothing happens.

        Raises Unavailable when the record cannot be removed; the GPUs stay held then.
        """
        name = container_id_of(container_id)
        if self._pool.held_by(name) is None:
            return
        self._checkpoints.remove(name)
        self._release(name, Release(container(name)))
        self._live_access.pop(name, None)
        self._unsure.discard(name)
        self._unremoved.discard(name)
        self._unwritten.discard(name)

    def _hold_recorded(self, claimed: Collection[Gpu]) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        """Have containers hold what they can open by their records, except for GPUs that are lent or `claimed`.

        Returns the records. Logs each GPU that does not exist any more. Raises Unavailable, and then nothing has
        changed.
        """
        recorded, pool, gone = self._checkpoints.load(), self._pool.fresh(), LostGpus()
        for container_id, noted in self._lost.all().items():
            if container_id not in recorded:
                gone.put(container_id, noted)  # a container that shares GPUs is on another record
        for borrower, lent in self._lent.items():
            pool.take(borrower, lent)
            gone.put(borrower, self._lost.of(borrower))
        outside = frozenset(claimed).union(*self._lent.values())
        held = settle(recorded, self._pool.total - outside)
        for container_id, was_held in sorted(recorded.items()):
            gpus = held[container_id]
            if not outside:
                _report_lost(container_id, was_held, gpus)
            try:
                pool.take(container_id, gpus)
            except Conflict as error:
                raise Unavailable(
                    f"container {container_id} is on record with another's GPUs: {error}. Stop one of the two "
                    "containers, remove its record, and start again"
                ) from error
            gone.put(container_id, lost(was_held, gpus))
        self._pool, self._lost = pool, gone
        return recorded

    def _undo_prepare(self, container_id: ContainerId, gpus: frozenset[Gpu]) -> None:
        """Remove a record that may have been written; if that fails, hold the GPUs so that the record stays true."""
        try:
            self._checkpoints.remove(container_id)
        except MesosGpuError as error:
            _log.error(
                "the record of container %s could not be removed, so its GPUs stay held: %s", container_id, error
            )
            self._take(container_id, gpus)
            self._unremoved.add(container_id)

    def _settle(self) -> None:
        """Retry to write and remove the records that the disk refused earlier."""
        for container_id in sorted(self._unwritten):
            with suppress(Unavailable):
                self._record(container_id, self._holds(container_id))
                self._unwritten.discard(container_id)
        for container_id in sorted(self._unremoved):
            with suppress(Unavailable):
                self._checkpoints.remove(container_id)
                self._release(container_id, Release(container(container_id)))
                self._unremoved.discard(container_id)

    def _grow(self, container_id: ContainerId, holds: frozenset[Gpu], more: int) -> Change:
        given = self._choose(more)
        change = self._planner.change(holds, holds | given)
        if given or container_id in self._unsure:  # a shrink that failed may have left a record of fewer
            try:
                self._record(container_id, holds | given)
            except BaseException:
                self._undo_growth(container_id, holds, given)
                raise
        if given:
            self._take(container_id, given)
        live_access = self._live_access.get(container_id)
        if live_access is not None:
            try:
                self._move(container_id, live_access, change)
            except MesosGpuError:
                self._take_back(container_id, live_access, change)
                raise
        return change

    def _undo_growth(self, container_id: ContainerId, holds: frozenset[Gpu], given: frozenset[Gpu]) -> None:
        """Restore the record of a container; if that fails, hold the GPUs that may be on record."""
        try:
            self._record(container_id, holds)
        except MesosGpuError as error:
            _log.error(
                "the record of container %s could not be restored, so it holds the GPUs that may be on record: %s",
                container_id,
                error,
            )
            self._take(container_id, given)
            self._unsure.add(container_id)
            self._unwritten.add(container_id)

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
            self._move(container_id, live_access, self._planner.change(held, holds))
            self._record(container_id, holds)
        except MesosGpuError as error:
            _log.error("container %s may open GPUs it was not given, and so holds them: %s", container_id, error)
        else:
            self._give_back(container_id, change.added)

    def _shrink(
        self, container_id: ContainerId, holds: frozenset[Gpu], count: int, release: Collection[Gpu] | None
    ) -> Change:
        live_access = self._live_access.get(container_id)
        leaving = self._idle(container_id, holds, count) if release is None else frozenset(release)
        change = self._planner.change(holds, holds - leaving)
        if live_access is not None:
            self._move(container_id, live_access, change)
            # Only now can nothing more be opened, so only now does looking at what is open tell something.
            try:
                in_use = live_access.using(change.closed)
                if in_use:
                    raise Conflict(f"container {container_id} has {', '.join(node.path for node in in_use)} open")
            except (Conflict, ContainerError):
                self._move(container_id, live_access, self._planner.change(holds - leaving, holds))
                raise
        self._unsure.add(container_id)
        try:
            self._record(container_id, holds - leaving)
        except BaseException:
            self._unwritten.add(container_id)
            with suppress(MesosGpuError):
                self._record(container_id, holds)
                self._unwritten.discard(container_id)
            raise
        self._unsure.discard(container_id)
        self._give_back(container_id, leaving)
        return change

    def _idle(self, container_id: ContainerId, holds: frozenset[Gpu], count: int) -> frozenset[Gpu]:
        """Return `count` of the container's GPUs that none of its processes has open, as far as that can be seen."""
        live_access = self._live_access.get(container_id)
        in_use = live_access.using(gpu_nodes(holds)) if live_access is not None else frozenset()
        idle = [gpu for gpu in sorted(holds) if in_use.isdisjoint(own_nodes(gpu))]
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
        return LaunchPlan() if debug else self._planner.plan(holds, image, labels)


def _report_lost(container_id: ContainerId, was_held: Collection[HeldGpu], gpus: Collection[Gpu]) -> None:
    for was in sorted((one for one in was_held if not one.closed), key=lambda one: one.uuid):
        instead = [gpu.uuid for gpu in gpus if was.opens(gpu)]
        if was.uuid in instead:
            continue
        if instead:
            _log.warning("container %s was given GPU %s, which is now %s", container_id, was.uuid, ", ".join(instead))
        else:
            _log.warning("GPU %s of container %s is no longer managed here", was.uuid, container_id)
