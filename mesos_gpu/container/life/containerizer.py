"""Containers from launch to the release of all they held; survives its own death at any moment.

Names are Mesos' (`slave/containerizer/containerizer.hpp`): recover, launch, wait, destroy, containers, usage.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from mesos_gpu.base.files import private_folder
from mesos_gpu.base.linux.processes import read_boot_id
from mesos_gpu.container.attached import terminals
from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.cgroups.files import Statistics
from mesos_gpu.container.host.disk import DiskRules
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.host.task_files import TaskFiles
from mesos_gpu.container.life.bounds import Bounds
from mesos_gpu.container.life.changing import Changer
from mesos_gpu.container.life.execution import Execution, Executor
from mesos_gpu.container.life.following import Follower
from mesos_gpu.container.life.host_files import HostFiles
from mesos_gpu.container.life.killing import SIGNAL_GRACE_S, Killer
from mesos_gpu.container.life.launching import Launcher
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.life.provisioner import Provisioner
from mesos_gpu.container.life.release import Releaser
from mesos_gpu.container.life.remapping import Remapping
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.bundle import HostSetting
from mesos_gpu.container.spec.config import (
    ContainerConfig,
    Ready,
    SessionConfig,
    Size,
    Termination,
    check_config,
    check_id,
)
from mesos_gpu.container.spec.isolation import Isolator
from mesos_gpu.container.spec.nesting import (
    deepest_first,
    is_nested,
    parent_of,
    top_level,
)
from mesos_gpu.container.state.checkpoints import ContainerRecords, Record
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.container.state.recovering import recovered
from mesos_gpu.container.state.sizing import first_record, limits_shown
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import BadInput, Conflict, ContainerError, MesosGpuError, NotFound
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.plan import Change
from mesos_gpu.mesos.ids import ContainerId

T = TypeVar("T")

log = logging.getLogger(__name__)


class Containerizer:
    """The containers of one agent. `opening.open_containerizer` finds the parts; all calls come from one event loop."""

    def __init__(
        self,
        *,
        host: HostSetting,
        conmon: Conmon,
        executor: Executor,
        cgroups: Cgroups,
        isolator: Isolator,
        checkpoints: ContainerRecords,
        bundles: Path,
        mounts: MountNamespace,
        provisioner: Provisioner | None = None,
        disk: DiskRules | None = None,
        networks: Networks,
        profiles: Profiles | None = None,
        remapping: Remapping,
    ) -> None:
        self._networks, self._executor, self._provisioner, self._mounts = networks, executor, provisioner, mounts
        self._conmon, self._cgroups, self._isolator, self._remapping = conmon, cgroups, isolator, remapping
        self._checkpoints, self._bundles, self._boot_id = checkpoints, bundles, read_boot_id()
        self._releaser = Releaser(cgroups, conmon, bundles)
        self._containers: dict[ContainerId, LiveContainer] = {}
        self._ended: dict[ContainerId, Termination] = {}
        self._files = HostFiles(host, mounts, remapping, bundles)
        self._killer = Killer(cgroups, self._containers, checkpoints)
        self._bounds = Bounds(cgroups, self._killer, disk)
        cfs_quota, live = host.cfs_quota, self._containers
        self._changer = Changer(
            cgroups=cgroups, isolator=isolator, checkpoints=checkpoints, containers=live, cfs_quota=cfs_quota
        )
        self._follower = Follower(
            containers=self._containers,
            ended=self._ended,
            conmon=conmon,
            cgroups=cgroups,
            isolator=isolator,
            checkpoints=checkpoints,
            bundles=bundles,
            releaser=self._releaser,
            killer=self._killer,
            bounds=self._bounds,
            networks=networks,
            provisioner=provisioner,
            remapping=remapping,
        )
        self._launcher = Launcher(
            host=host,
            conmon=conmon,
            cgroups=cgroups,
            isolator=isolator,
            checkpoints=checkpoints,
            bundles=bundles,
            mounts=mounts,
            provisioner=provisioner,
            networks=networks,
            profiles=profiles or Profiles(),
            remapping=remapping,
            containers=self._containers,
        )

    async def recover(self, live: Collection[ContainerId]) -> None:
        """Take up the containers of an earlier process that are in `live`; destroy all others it left.

        Standalone ones are taken up in any case, nested ones with their parents, sessions never. What runs of one
        in `live` that is not on record, say because `runtime_dir` was removed, is destroyed as well.
        Those that ended meanwhile are found ended by `wait`. One that was only half launched is destroyed even if it
        is in `live`, and then unknown. Call it once, before anything else. Raises what the isolator's recover raises.
        """
        # Variables of tasks, and among them tokens of executors, are in there: for nobody else on this machine.
        private_folder(self._bundles)
        records = self._checkpoints.load()
        kept = recovered(records, live)
        running = [name for name, record in kept.items() if record.step == "running"]
        if self._provisioner is not None:
            await self._provisioner.recover(running)
        held = self._isolator.recover(running)
        # One without a record is gone too: its processes may be there all the same, and nobody could follow them.
        gone = deepest_first(container_id for container_id in {*records, *live} if container_id not in kept)
        ended = [container_id for container_id, record in kept.items() if record.step == "ended"]
        await self._releaser.release_strays([*gone, *ended])
        await self._networks.recover({container_id: kept[container_id].pid for container_id in running})
        for container_id in (*gone, *ended, *(held - set(records))):
            self._isolator.cleanup(container_id)
        for container_id in gone:
            self._checkpoints.forget(container_id)
        for container_id, record in kept.items():
            if record.step == "ended":
                self._ended[container_id] = record.termination or Termination(message="its end was not recorded")
            else:
                await self._attach(record)
        await self.revoke_stale()

    async def _attach(self, record: Record) -> None:
        container = LiveContainer(record)
        if record.boot_id == self._boot_id:
            if record.pid is not None and record.pid_start_time is not None:
                container.init = Process.open(record.pid, start_time=record.pid_start_time)
            if record.conmon_pid is not None:
                container.conmon = Process.open(record.conmon_pid, start_time=record.conmon_start_time)
            if record.holder_pid is not None:
                container.holder = Process.open(record.holder_pid, start_time=record.holder_start_time)
            if record.rotator_pid is not None:
                container.rotator = Process.open(record.rotator_pid, start_time=record.rotator_start_time)
        if container.holder is not None:
            container.board = await terminals.connect(self._bundles / record.container_id)
        self._containers[record.container_id] = container
        self._executor.end_strays(record.container_id, self._bundles / record.container_id)
        self._killer.take_up(container)
        self._follower.follow(container)

    async def launch(
        self, config: ContainerConfig, progress: Callable[[str], None] | None = None, ready: Ready | None = None
    ) -> int:
        """Start a container and return the pid of its init. `progress` is told how far a pull of its image is.

        `ready` is waited for before anything in it runs; what it raises ends the launch.

        Raises BadInput, NotEnoughGpus, Conflict for an id in use, ImageError when its image is not to be had,
        ContainerError when the runtime refuses or the container is killed or destroyed meanwhile; then nothing of it
        is left.
        """
        check_config(config)
        container = self._admit(first_record(config, self._boot_id))
        outermost = self._outermost(config)
        return await self._run(container, self._launcher.start(container, config, progress, outermost, ready))

    def files(self, config: ContainerConfig) -> AbstractAsyncContextManager[TaskFiles]:
        """Return a context with what opens the host's files as a container that is launched next will.

        Raises NotFound for a parent that does not run, and on entering BadInput, ContainerError.
        """
        parent_id = parent_of(config.container_id)
        if parent_id is not None:
            self._parent(parent_id)
        return self._files.of(config, self._outermost(config), self._containers.values())

    def _outermost(self, config: ContainerConfig) -> LiveContainer | None:
        return self._containers[top_level(config.container_id)] if is_nested(config.container_id) else None

    def expect(self) -> None:
        """A container will be launched in a moment: the kernel's wait before a change of cgroup begins."""
        self._cgroups.expect()

    async def enter(self, config: SessionConfig) -> Attachment:
        """Run a command inside a running container, as a container of class DEBUG; return what it says.

        It ends with its first process, with its parent, and with this agent. Raises BadInput, Conflict for an id in
        use, NotFound for a parent that does not run, ContainerError when the runtime refuses.
        """
        check_id(config.container_id)
        parent_id = parent_of(config.container_id)
        if parent_id is None:
            raise BadInput(f"container {config.container_id}: a session is inside another container")
        parent = self._parent(parent_id)
        session = Record(
            container_id=config.container_id,
            step="preparing",
            boot_id=self._boot_id,
            sandbox=parent.record.sandbox,
            user=config.user,
            shares_cgroup=True,
            session=True,
        )
        container = self._admit(session)
        return await self._run(container, self._launcher.start_session(container, parent, config))

    def record(self, container_id: ContainerId) -> Record:
        """Return what is on record of a container that runs or is being launched. Raises NotFound."""
        return self._find(container_id).record

    def switchboard(self, container_id: ContainerId) -> Switchboard | None:
        """Return what input and output of a running container go through, None where its files take them.

        Raises NotFound.
        """
        container = self._find(container_id)
        if container.ending:
            raise NotFound(f"Container {container_id} cannot be found")
        return container.board

    def _admit(self, record: Record) -> LiveContainer:
        """Take the id of a new container. Raises Conflict, NotFound for a parent that does not run."""
        container_id, parent_id = record.container_id, parent_of(record.container_id)
        if container_id in self._containers or container_id in self._ended:
            raise Conflict(f"a container {container_id} exists already")
        if parent_id is not None:
            self._parent(parent_id)
        self._containers[container_id] = container = LiveContainer(record)
        return container

    def _parent(self, parent_id: ContainerId) -> LiveContainer:
        parent = self._containers.get(parent_id)
        if parent is None or parent.ending or parent.init is None or not parent.started.is_set():
            raise NotFound(f"Parent container {parent_id} does not exist")
        if parent.record.session:
            raise BadInput(f"container {parent_id} is a session, and nothing can be nested in one")
        return parent

    async def _run(self, container: LiveContainer, starting: Coroutine[Any, Any, T]) -> T:
        container_id = container.record.container_id
        try:
            result = await starting
            if container.doomed:
                raise ContainerError(f"container {container_id} was destroyed while it was launched")
        except BaseException as error:
            # Shielded: a caller that stops waiting must not leave half a container behind.
            await asyncio.shield(self._follower.undo(container))
            if isinstance(error, OSError):
                raise ContainerError(f"container {container_id} cannot be launched: {error}") from error
            raise
        self._follower.follow(container)
        return result

    async def wait(self, container_id: ContainerId) -> Termination:
        """Return how the container ended, once its GPUs, cgroup, mounts and processes are gone.

        Any number may wait; it answers until `destroy` is called for the ended container. Raises NotFound for an
        unknown container and one whose launch fails.
        """
        if container_id in self._ended:
            return self._ended[container_id]
        container = self._find(container_id)
        await container.ended.wait()
        if container.termination is None:
            raise NotFound(f"container {container_id} was never started")
        return container.termination

    async def update(self, container_id: ContainerId, gpus: int, release: Collection[Gpu] | None = None) -> Change:
        """Make `gpus` the number of GPUs that a running container holds; what it can open has changed on return.

        One that shrinks gives back `release`, else GPUs that no process of it has open. Raises NotFound for a container
        that does not run, and what the isolator's update raises; it then holds what it held.
        """
        container = self._find(container_id)
        await container.started.wait()
        return self._changer.gpus(container, gpus, release)

    async def change_access(self, container_id: ContainerId, how: Callable[[], Change]) -> Change:
        """Have an isolator change what a running container can open, which is so on return for what is nested in it.

        Raises NotFound for a container that does not run, and what `how` raises.
        """
        container = self._find(container_id)
        await container.started.wait()
        return self._changer.access(container, how)

    async def revoke_stale(self) -> None:
        """Deny containers the devices that belong to no GPU of theirs any more, before others are given them.

        What cannot be denied is given to no container, and is tried again at the next call.
        """
        for container_id in sorted(self._isolator.stale()):
            container = self._containers.get(container_id)
            if container is None:
                continue
            await container.started.wait()
            try:
                self._changer.access(container, lambda name=container_id: self._isolator.revoke(name))  # type: ignore[misc]
            except (MesosGpuError, OSError) as error:
                log.error("container %s can still open GPUs that are not its own: %s", container_id, error)
            else:
                log.warning("container %s is denied the devices of GPUs that are not its own any more", container_id)

    async def resize(self, container_id: ContainerId, size: Size) -> None:
        """Give a running container these limits and this many GPUs.

        Raises what `update` raises; the limits are then those asked for. Its memory is never limited to less than it
        was once given.
        """
        container = self._find(container_id)
        await container.started.wait()
        gpus = container.record.gpus
        self._changer.limits(container, size)
        self._bounds.measure(container)
        if size.gpus != gpus:
            self._changer.gpus(container, size.gpus, None)

    def pid_of(self, container_id: ContainerId) -> int | None:
        """Return the init of a running container, in this process' numbering; None when it does not run."""
        container = self._containers.get(container_id)
        return None if container is None or container.init is None else container.init.pid

    def freeze_file(self, container_id: ContainerId) -> Path | None:
        """Return the file of its cgroup that freezes and thaws it; None where the kernel has none."""
        return self._cgroups.freeze_file(container_id)

    def network_infos(self, container_id: ContainerId) -> Sequence[Mapping[str, Any]]:
        """Return the NetworkInfos of a container with networks of its own, or its outermost parent's; else nothing."""
        joined = self._networks.joined(top_level(container_id))
        return () if joined is None else joined.infos

    def network_namespace(self, container_id: ContainerId) -> int | None:
        """Return a descriptor of a container's network namespace, None when that is the host's. Do not close it."""
        joined = self._networks.joined(top_level(container_id))
        return None if joined is None else joined.namespace

    async def send_signal(self, container_id: ContainerId, number: int, grace_s: float | None = None) -> None:
        """Send a signal to the first process of a container, SIGTERM to all of them, as `kill` does.

        `grace_s` is how long after SIGTERM the other processes may outlive the first; None: SIGNAL_GRACE_S.

        Raises NotFound for a container that is unknown or has ended, BadInput for a number that is not a signal.
        """
        container = self._find(container_id)
        try:
            what = signal.Signals(number)
        except ValueError:
            raise BadInput(f"{number} is not a signal") from None
        if what is signal.SIGKILL:
            container.give_up_pull()
        await container.started.wait()
        if container.init is None or container.ending or container.ended.is_set():
            raise NotFound(f"Container {container_id} cannot be found (or is already killed)")
        if what is signal.SIGKILL:
            self._killer.kill_now(container)
        elif what is signal.SIGTERM:
            self._killer.terminate(container, SIGNAL_GRACE_S if grace_s is None else grace_s)
        elif container.record.session:
            self._killer.signal_all(container, what)
        else:
            container.init.kill(what)

    async def execute(self, container_id: ContainerId, execution: Execution) -> int:
        """Run one more command in a container that runs; return its exit status, 128 + N for signal N.

        Raises NotFound for a container that does not run, ContainerError when the command takes too long.
        """
        container = self._find(container_id)
        await container.started.wait()
        if container.init is None or container.ended.is_set():
            raise NotFound(f"container {container_id} does not run")
        return await self._executor.run(container_id, self._bundles / container_id, execution)

    async def kill(self, container_id: ContainerId, grace_s: float) -> None:
        """Send SIGTERM to every process but the init; after `grace_s` seconds SIGKILL. Returns when SIGTERM is sent.

        A repeated kill can only shorten the grace. Nothing happens to a container that has ended; one that waits for
        its image is launched no more. Raises NotFound.
        """
        if container_id in self._ended:
            return
        container = self._find(container_id)
        container.give_up_pull()
        await container.started.wait()
        if container.ended.is_set():
            return
        self._killer.kill(container, grace_s)

    async def destroy(self, container_id: ContainerId) -> None:
        """End the container now and forget it; returns when nothing of it is left. Unknown containers are fine."""
        await self._follower.destroy(container_id)

    def containers(self) -> Collection[ContainerId]:
        """Return the ids of the containers that are being launched, run, or are being released."""
        return frozenset(self._containers)

    async def usage(self, container_id: ContainerId) -> Statistics:
        """Return Mesos' ResourceStatistics of a container, as far as its cgroup knows them. Raises NotFound."""
        container = self._find(container_id)
        record = container.record
        limits = limits_shown(record)
        if container.disk_used is not None:
            limits |= {"disk_limit_bytes": record.disk_bytes, "disk_used_bytes": container.disk_used}
        return {"timestamp": time.time(), **limits, **self._cgroups.usage(container_id)}

    async def close(self) -> None:
        """Stop watching and end sessions; other containers run on, and `recover` of a later process finds them."""
        sessions = [one for one, container in self._containers.items() if container.record.session]
        await asyncio.gather(*map(self.destroy, sessions))
        watchers = []
        for container in self._containers.values():
            self._follower.stop_timers(container)
            if container.watcher is not None:
                container.watcher.cancel()
                watchers.append(container.watcher)
        await asyncio.gather(*watchers, return_exceptions=True)
        self._follower.close()
        for container in self._containers.values():
            if container.board is not None:
                container.board.close()
            container.close()
        self._containers.clear()
        self._cgroups.remove_root()
        self._mounts.close()
        self._remapping.close()
        self._networks.close()

    def _find(self, container_id: ContainerId) -> LiveContainer:
        try:
            return self._containers[container_id]
        except KeyError:
            raise NotFound(f"there is no container {container_id}") from None
