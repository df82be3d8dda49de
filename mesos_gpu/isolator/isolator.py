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
from mesos_gpu.isolator.identity import is_nested, top_level
from mesos_gpu.isolator.injection import NEEDED_LABEL, NO_DEVICES, VISIBLE_DEVICES, ImageManifest, should_inject
from mesos_gpu.isolator.live_access import LiveAccess, RunningAccess
from mesos_gpu.isolator.plan import Change, DeviceRule, LaunchPlan
from mesos_gpu.isolator.pool import Choice, GpuPool
from mesos_gpu.isolator.reach import HeldGpu, blocked, lost, numbers, own_numbers, revoked, settle, stale
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId

_log = logging.getLogger(__name__)
_LENT = "/"  # begins what is lent: no container's name has it, for that is a file's name, too
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class NvidiaGpuIsolator:
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
        self._pool = GpuPool(gpus, choice=choice)
        self._control_nodes = tuple(driver.control_nodes())
        self._driver, self._volume, self._checkpoints = driver, volume, checkpoints
        self._find_live_access = live_access
        self._live_access: dict[ContainerId, LiveAccess] = {}
        self._unsure: set[ContainerId] = set()  # containers whose access or records may not be as they are held
        self._lent: dict[ContainerId, frozenset[Gpu]] = {}
        self._lost: dict[ContainerId, frozenset[HeldGpu]] = {}
        """What containers and borrowers were given and do not hold any more, because the driver lists it no longer."""
        self._ghosts = False
        """Whether some of the GPUs that are held or lent are not listed by the driver any more."""

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
        """The uuids of GPUs that `prepare` and `update` do not give."""
        return self._pool.withdrawn

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Give these GPUs to no container from now on; one that is held stays with its holder."""
        self._pool.withdrawn = self._pool.withdrawn.union(uuids)

    def restore(self, uuids: Iterable[str]) -> None:
        """Give these GPUs again."""
        self._pool.withdrawn = self._pool.withdrawn.difference(uuids)

    @property
    def held(self) -> Mapping[ContainerId, frozenset[Gpu]]:
        """The GPUs of every container that was prepared or recovered and is not cleaned up; empty for one without."""
        held = dict(self._pool.held)
        for borrower in self._lent:
            del held[borrower]
        return held

    @property
    def lent(self) -> Mapping[str, frozenset[Gpu]]:
        """The GPUs that holders outside Mesos have, by the name that they were lent under."""
        return {name.removeprefix(_LENT): gpus for name, gpus in self._lent.items()}

    @property
    def driver(self) -> GpuDriver:
        """What drives the GPUs."""
        return self._driver

    @property
    def volume(self) -> NvidiaVolume | None:
        """The driver's files, None where there are none."""
        return self._volume

    @property
    def lost(self) -> Mapping[ContainerId, frozenset[str]]:
        """The UUIDs of the GPUs that each container was given and does not hold any more: they do not exist now."""
        return {
            name: frozenset(was.uuid for was in gone) for name, gone in self._lost.items() if name not in self._lent
        }

    @property
    def unreplaced(self) -> int:
        """How many GPUs containers were given that do not exist now, and in whose place no other has come."""
        lost = (was for name, gone in self._lost.items() if name not in self._lent for was in gone)
        return sum(not was.replaced for was in lost)

    @property
    def blocked(self) -> frozenset[str]:
        """The UUIDs of free GPUs that are given to no container, because one that does not hold them can open them."""
        return self._pool.blocked

    def stale(self) -> Mapping[ContainerId, frozenset[DeviceNode]]:
        """Return the nodes that containers can open and that belong to no GPU which they hold: see `revoke`."""
        found = {name: self._stale(name) for name in self._lost if name not in self._lent}
        return {name: nodes for name, nodes in found.items() if nodes}

    def reachable(self, gpu: Gpu) -> bool:
        """Return whether a container, or a holder outside Mesos, can open a GPU that has been taken from it."""
        nodes = frozenset[DeviceNode]().union(*map(self._stale, self._lost))
        return not own_numbers(gpu).isdisjoint(numbers(nodes))

    def manage(self, gpus: Iterable[Gpu]) -> None:
        """Have these GPUs from now on, for MIG instances come and go.

        A MIG instance that a container holds and that is not among them is `lost`; its holder can open its nodes until
        `revoke`, and until then no GPU with these nodes is given. A whole GPU, and what is lent, stays with its holder.
        """
        there = {gpu.uuid: gpu for gpu in gpus}
        stays = {
            gpu
            for holder, held in self._pool.held.items()
            for gpu in held
            if gpu.uuid in there or gpu.mig is None or holder in self._lent
        }
        known = {gpu.uuid for gpu in stays}
        undivided = {gpu.minor: gpu.mig is None for gpu in stays}
        # A GPU whose MIG mode others have switched while it is held or lent is managed as it is now only afterwards.
        new = (
            gpu
            for gpu in there.values()
            if gpu.uuid not in known and undivided.get(gpu.minor, gpu.mig is None) == (gpu.mig is None)
        )
        pool = GpuPool([*stays, *new], choice=self._pool.choice)
        pool.withdrawn = self._pool.withdrawn
        for holder, held in self._pool.held.items():
            pool.take(holder, held & stays)
            gone = frozenset(map(HeldGpu.of, held - stays))
            self._lose(holder, gone)
        self._pool, self._ghosts = pool, any(gpu.uuid not in there for gpu in stays)
        self._block()

    def revoke(self, container_id: ContainerId, shares: Collection[Gpu] = ()) -> Change:
        """Deny a container what it can open and does not hold; a running one cannot open it on return.

        `shares` are the cards of which it has a part. Other containers can be given the numbers then, unless a process
        has one of them open: that raises Conflict, and is to be tried again. Raises NotFound for a container that is
        unknown or has ended, ContainerError when the kernel refuses, Unavailable when a record cannot be written.
        """
        holds = self._holds(container_id)
        keeps = holds.union(shares)
        closed = tuple(sorted(self._stale(container_id, keeps), key=lambda node: (node.major, node.minor)))
        change = Change((), (), (), closed, self._plan(keeps, False, _NO_LABELS))
        live_access = self._live_access.get(container_id)
        in_use: frozenset[DeviceNode] = frozenset()
        if live_access is not None:
            live_access.change(change.plan.nodes, opened=(), closed=closed)
            in_use = live_access.using(closed)
        gone = revoked(self._lost.get(container_id, frozenset()), in_use)
        if holds or self._checkpoints.has(container_id):
            self._checkpoints.save(container_id, holds, gone)
        self._lost[container_id] = gone
        self._block()
        if any(not was.closed for was in gone):
            raise Conflict(f"container {container_id} has {', '.join(sorted(node.path for node in in_use))} open")
        return change

    def note_lost(self, container_id: ContainerId, lost: Collection[HeldGpu]) -> None:
        """Take note of GPUs that a container, or the holder of a lease, was given and does not hold any more."""
        self._lose(container_id, lost)
        self._block()

    def lend(self, name: str, gpus: Collection[Gpu], lost: Collection[HeldGpu] = ()) -> None:
        """Give free GPUs to a holder outside Mesos; who it is, and the record of it, is the caller's affair.

        It was given the `lost` ones, too, and can still open their nodes: no GPU with these is given until its end.

        Also before `recover`, which keeps what is lent. Raises Conflict when one is not free, or the name is taken.
        """
        borrower = ContainerId(_LENT + name)
        if borrower in self._lent:
            raise Conflict(f"GPUs are lent under the name {name} already")
        self._pool.take(borrower, gpus)
        self._lent[borrower] = frozenset(gpus)
        self._lose(borrower, lost)
        self._block()

    def take_back(self, name: str) -> None:
        """Free what was lent under a name; an unknown one is not an error."""
        borrower = ContainerId(_LENT + name)
        if self._lent.pop(borrower, None) is not None:
            self._pool.release(borrower)
            self._lost.pop(borrower, None)
            self._block()

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
        gone = {name: self._lost[name] for name in self._lent if name in self._lost}
        for container_id, was_held in sorted(recorded.items()):
            gpus = held[container_id]
            _report_lost(container_id, was_held, gpus)
            try:
                pool.take(container_id, gpus)
            except Conflict as error:
                raise Unavailable(f"container {container_id} is on record with another's GPUs: {error}") from error
            if missing := lost(was_held, gpus):
                gone[container_id] = missing
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
        self._lost.pop(container_id, None)
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

    def _holds(self, container_id: ContainerId) -> frozenset[Gpu]:
        holds = self._pool.held_by(container_id)
        if holds is None:
            raise NotFound(f"container {container_id} has not been prepared")
        return holds

    def _record(self, container_id: ContainerId, gpus: frozenset[Gpu]) -> None:
        gone = self._lost.get(container_id, frozenset())
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

    def _stale(self, holder: ContainerId, keeps: Collection[Gpu] = ()) -> frozenset[DeviceNode]:
        gone = self._lost.get(holder, frozenset())
        if not gone:
            return frozenset()
        majors = {node.major for gpu in self.total if gpu.mig is not None for node in gpu.mig.nodes}
        return stale(gone, (self._pool.held_by(holder) or frozenset()).union(keeps), majors)

    def _lose(self, holder: ContainerId, gone: Collection[HeldGpu]) -> None:
        if gone:
            self._lost[holder] = self._lost.get(holder, frozenset()).union(gone)

    def _block(self) -> None:
        """Keep free GPUs from being given that a container or borrower can open which does not hold them."""
        if not self._lost and not self._ghosts and not self._pool.blocked:
            return  # the numbers of GPUs that the driver lists at one time differ from each other
        reach = numbers(node for name in self._lost for node in self._stale(name))
        reach |= numbers(node for gpus in self._pool.held.values() for node in gpu_nodes(gpus))
        self._pool.blocked = blocked(self._pool.free, reach)


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
