"""Containers from launch to the release of all they held; survives its own death at any moment.

Names are Mesos' (`slave/containerizer/containerizer.hpp`): recover, launch, wait, destroy, containers, usage.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mesos_gpu.container.bundle import MIN_MEM_BYTES, HostSetting, ImageRoot, compose
from mesos_gpu.container.cgroups import Cgroups, OomWatch
from mesos_gpu.container.cgroups.files import Statistics
from mesos_gpu.container.checkpoints import Checkpoints, Record, read_boot_id
from mesos_gpu.container.config import ContainerConfig, ImageAsk, Termination, check_config, read_status
from mesos_gpu.container.execution import Execution, Executor
from mesos_gpu.container.isolation import Isolator
from mesos_gpu.container.namespace import MountNamespace
from mesos_gpu.container.processes import Process
from mesos_gpu.container.provisioner import Provisioner
from mesos_gpu.container.release import Releaser
from mesos_gpu.container.sandbox import open_output, own_sandbox, prepare_volumes
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.container.users import HostUser, find_user
from mesos_gpu.errors import BadInput, Conflict, ContainerError, MesosGpuError, NotFound
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.images.store import Image
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import Change, LaunchPlan

REMEMBERED = 1000
"""How many ended containers are kept for `wait`, at most, when nobody calls `destroy` for them."""

INIT_ALONE_S = 0.01
"""How long to give an init that has not started its command yet, before looking again for what to send SIGTERM."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Container:
    """One container of this process; `started` is set when its launch has succeeded or failed."""

    record: Record
    init: Process | None = None
    conmon: Process | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    termination: Termination | None = None
    doomed: bool = False
    ran_out_of_memory: bool = False
    oom_watch: OomWatch | None = None
    term_timer: asyncio.TimerHandle | None = None
    kill_timer: asyncio.TimerHandle | None = None
    watcher: asyncio.Task[None] | None = None
    pulling: asyncio.Future[Image] | None = None

    def give_up_pull(self) -> None:
        """Have a launch that waits for its image fail now."""
        if self.pulling is not None:
            self.doomed = True
            self.pulling.cancel()

    def close(self) -> None:
        """Let go of its processes, which live on."""
        for process in (self.init, self.conmon):
            if process is not None:
                process.close()


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
        checkpoints: Checkpoints,
        bundles: Path,
        mounts: MountNamespace,
        provisioner: Provisioner | None = None,
    ) -> None:
        self._executor = executor
        self._provisioner = provisioner
        self._host, self._conmon, self._cgroups, self._isolator = host, conmon, cgroups, isolator
        self._mounts = mounts
        self._checkpoints, self._bundles = checkpoints, bundles
        self._releaser = Releaser(cgroups, conmon, bundles)
        self._boot_id = read_boot_id()
        self._containers: dict[str, _Container] = {}
        self._ended: dict[str, Termination] = {}

    async def recover(self, live: Collection[str]) -> None:
        """Take up the containers of an earlier process that are in `live`; destroy all others it left.

        Those that ended meanwhile are found ended by `wait`. One that was only half launched is destroyed even if it
        is in `live`, and then unknown. Call it once, before anything else. Raises what the isolator's recover raises.
        """
        records = self._checkpoints.load()
        kept = {
            container_id: record
            for container_id, record in records.items()
            if record is not None and container_id in live and record.step != "preparing"
        }
        running = [name for name, record in kept.items() if record.step == "running"]
        if self._provisioner is not None:
            await self._provisioner.recover(running)
        held = self._isolator.recover(running)
        gone = [container_id for container_id in records if container_id not in kept]
        ended = [container_id for container_id, record in kept.items() if record.step == "ended"]
        await self._releaser.release_strays([*gone, *ended])
        for container_id in (*gone, *ended, *(held - set(records))):
            self._isolator.cleanup(container_id)
        for container_id in gone:
            self._checkpoints.forget(container_id)
        for container_id, record in kept.items():
            if record.step == "ended":
                self._ended[container_id] = record.termination or Termination(message="its end was not recorded")
            else:
                self._attach(record)

    def _attach(self, record: Record) -> None:
        container = _Container(record)
        if record.boot_id == self._boot_id:
            if record.pid is not None and record.pid_start_time is not None:
                container.init = Process.open(record.pid, start_time=record.pid_start_time)
            if record.conmon_pid is not None:
                container.conmon = Process.open(record.conmon_pid, start_time=record.conmon_start_time)
        self._containers[record.container_id] = container
        self._executor.end_strays(record.container_id, self._bundles / record.container_id)
        self._follow(container)

    async def launch(self, config: ContainerConfig, progress: Callable[[str], None] | None = None) -> int:
        """Start a container and return the pid of its init. `progress` is told how far a pull of its image is.

        Raises BadInput, NotEnoughGpus, Conflict for an id in use, ImageError when its image is not to be had,
        ContainerError when the runtime refuses or the container is killed or destroyed meanwhile; then nothing of it
        is left.
        """
        check_config(config)
        container_id = config.container_id
        if container_id in self._containers or container_id in self._ended:
            raise Conflict(f"a container {container_id} exists already")
        container = _Container(
            Record(
                container_id=container_id,
                step="preparing",
                boot_id=self._boot_id,
                sandbox=str(config.sandbox),
                cpus_milli=config.cpus_milli,
                mem_bytes=max(config.mem_bytes, MIN_MEM_BYTES),
                gpus=config.gpus,
            )
        )
        self._containers[container_id] = container
        try:
            pid = await self._start(container, config, progress)
            if container.doomed:
                raise ContainerError(f"container {container_id} was destroyed while it was launched")
        except BaseException as error:
            # Shielded: a caller that stops waiting must not leave half a container behind.
            await asyncio.shield(self._undo(container))
            if isinstance(error, OSError):
                raise ContainerError(f"container {container_id} cannot be launched: {error}") from error
            raise
        self._follow(container)
        return pid

    async def _start(
        self, container: _Container, config: ContainerConfig, progress: Callable[[str], None] | None
    ) -> int:
        container_id, user = config.container_id, find_user(config.user)
        if not config.sandbox.is_dir():  # else the runtime would make it, on the host
            raise BadInput(f"the sandbox {config.sandbox} is not a folder")
        self._checkpoints.save(container.record)
        image = None if config.image is None else await self._pull(container, config.image, progress)
        says = False if image is None else ImageManifest(image.config.env, image.config.labels)
        plan = self._isolator.prepare(container_id, config.gpus, image=says, labels=config.labels)
        bundle = self._bundles / container_id
        bundle.mkdir(parents=True)
        root = None
        if config.image is None or image is None:
            _check_mounts(config, plan)
        else:
            root, user = await self._provision(container_id, config.image, image, user)
            own_sandbox(config.sandbox, user)
        prepare_volumes(config, user)
        document = compose(config, plan, user, self._host, root)
        (bundle / "config.json").write_bytes(msgspec.json.encode(document))
        stdout = open_output(config.sandbox / "stdout", user)
        try:
            stderr = open_output(config.sandbox / "stderr", user)
            try:
                supervised = await self._conmon.start(config.container_id, bundle, stdout, stderr)
            finally:
                os.close(stderr)
        finally:
            os.close(stdout)
        # What is not in the container's cgroup is not its init any more: that has ended, and the pid may be another's.
        cgroup = f"/{self._host.cgroups_root}/{config.container_id}"
        container.init, container.conmon = Process.open(supervised.pid, cgroup=cgroup), supervised.conmon
        container.record = msgspec.structs.replace(
            container.record,
            step="running",
            pid=supervised.pid,
            pid_start_time=container.init.start_time if container.init else None,
            conmon_pid=supervised.conmon.pid,
            conmon_start_time=supervised.conmon.start_time,
        )
        self._checkpoints.save(container.record)
        return supervised.pid

    async def _pull(self, container: _Container, ask: ImageAsk, progress: Callable[[str], None] | None) -> Image:
        container_id = container.record.container_id
        if self._provisioner is None:
            raise BadInput(f"this agent runs no images (--image_providers), so not {ask.name} either")
        container.pulling = asyncio.ensure_future(self._provisioner.fetch(container_id, ask, progress))
        try:
            return await container.pulling
        except asyncio.CancelledError:
            container.pulling.cancel()
            if container.doomed:
                raise ContainerError(f"container {container_id} was ended while its image was pulled") from None
            raise
        finally:
            container.pulling = None

    async def _provision(
        self, container_id: str, ask: ImageAsk, image: Image, user: HostUser
    ) -> tuple[ImageRoot, HostUser]:
        """Mount an image; return it and whom its container runs as."""
        if self._provisioner is None:
            raise ValueError("an image came from nowhere")
        root = await self._provisioner.mount(container_id, image)
        own = None if ask.user_wins else await self._provisioner.user(root)
        return root, own or user

    def _give_back(self, container_id: str) -> None:
        """Free what a container held that has no process any more. Raises MesosGpuError, OSError."""
        try:
            if self._provisioner is not None:
                self._provisioner.release(container_id)
        finally:
            self._isolator.cleanup(container_id)

    async def _undo(self, container: _Container) -> None:
        container_id = container.record.container_id
        try:
            await self._releaser.release_strays([container_id])
            self._give_back(container_id)
            self._checkpoints.forget(container_id)
        finally:
            self._drop(container)

    def _follow(self, container: _Container) -> None:
        watch = self._cgroups.watch_oom(container.record.container_id)
        if watch is not None:
            container.oom_watch = watch
            asyncio.get_running_loop().add_reader(watch.fileno(), self._on_memory_event, container, watch)
        container.watcher = asyncio.create_task(self._watch(container))
        container.started.set()

    def _on_memory_event(self, container: _Container, watch: OomWatch) -> None:
        """End a container that ran out of memory whole, as Mesos does: what is left of it is of no use."""
        if watch.drain():
            container.ran_out_of_memory = True
            self._kill_now(container)

    async def _watch(self, container: _Container) -> None:
        container_id = container.record.container_id
        if container.init is not None:
            await container.init.wait()
        status = await self._conmon.exit_status(container_id, container.conmon)
        self._stop_timers(container)
        termination = self._judge(container, status)
        container.record = msgspec.structs.replace(container.record, step="ended", termination=termination)
        try:
            self._checkpoints.save(container.record)
        except OSError as error:  # still a container that ended; only a crash right now would forget how
            log.error("cannot record the end of container %s: %s", container_id, error)
        await self._releaser.release(container_id, container.conmon)
        try:
            self._give_back(container_id)
        except (MesosGpuError, OSError) as error:  # its GPUs and image stay held, which is the safe side
            log.error("cannot give back what container %s held: %s", container_id, error)
        self._ended[container_id] = container.termination = termination
        self._drop(container)
        while len(self._ended) > REMEMBERED:
            self._forget(next(iter(self._ended)))

    def _judge(self, container: _Container, status: int | None) -> Termination:
        if status is None:
            message = "how the container ended is not known: conmon, which would have told, is gone too"
            termination = Termination(message=message)
        else:
            termination = read_status(status)
        container_id = container.record.container_id
        killed = container.ran_out_of_memory or self._cgroups.oom_kills(container_id) > 0
        if not killed or termination.exit_code == 0:
            return termination
        limit, most = container.record.mem_bytes, self._cgroups.mem_max_bytes(container_id)
        used = f" Maximum Used: {most >> 20}MB" if most is not None else ""
        return Termination(
            exit_code=termination.exit_code,
            signal=termination.signal,
            oom=True,
            mem_limit_bytes=limit,
            mem_max_bytes=most,
            message=f"Memory limit exceeded: Requested: {limit >> 20}MB{used}",
        )

    async def wait(self, container_id: str) -> Termination:
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

    async def update(self, container_id: str, gpus: int, release: Collection[Gpu] | None = None) -> Change:
        """Make `gpus` the number of GPUs that a running container holds; what it can open has changed on return.

        One that shrinks gives back `release`, else GPUs that no process of it has open. Raises NotFound for a container
        that does not run, and what the isolator's update raises; it then holds what it held.
        """
        container = self._find(container_id)
        await container.started.wait()
        if container.init is None or container.ended.is_set():
            raise NotFound(f"container {container_id} does not run")
        self._isolator.isolate(container_id, container.init.pid)
        # Now that its cgroup was looked up by this pid: was it still its own?
        same = Process.open(container.init.pid, start_time=container.init.start_time)
        if same is None:
            raise NotFound(f"container {container_id} has ended")
        same.close()
        change = self._isolator.update(container_id, gpus, release)
        container.record = msgspec.structs.replace(container.record, gpus=gpus)
        self._checkpoints.save(container.record)
        return change

    async def execute(self, container_id: str, execution: Execution) -> int:
        """Run one more command in a container that runs; return its exit status, 128 + N for signal N.

        Raises NotFound for a container that does not run, ContainerError when the command takes too long.
        """
        container = self._find(container_id)
        await container.started.wait()
        if container.init is None or container.ended.is_set():
            raise NotFound(f"container {container_id} does not run")
        return await self._executor.run(container_id, self._bundles / container_id, execution)

    async def kill(self, container_id: str, grace_s: float) -> None:
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
        if grace_s <= 0:
            self._kill_now(container)
            return
        self._terminate(container)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        if container.kill_timer is not None:
            deadline = min(deadline, container.kill_timer.when())
            container.kill_timer.cancel()
        container.kill_timer = loop.call_at(deadline, self._kill_now, container)

    async def destroy(self, container_id: str) -> None:
        """End the container now and forget it; returns when nothing of it is left. Unknown containers are fine."""
        container = self._containers.get(container_id)
        if container is not None:
            container.doomed = True
            container.give_up_pull()
            await container.started.wait()
            self._kill_now(container)
            await container.ended.wait()
        self._forget(container_id)

    def containers(self) -> Collection[str]:
        """Return the ids of the containers that are being launched, run, or are being released."""
        return frozenset(self._containers)

    async def usage(self, container_id: str) -> Statistics:
        """Return Mesos' ResourceStatistics of a container, as far as its cgroup knows them. Raises NotFound."""
        record = self._find(container_id).record
        limits: Statistics = {"cpus_limit": record.cpus_milli / 1000, "mem_limit_bytes": record.mem_bytes}
        return {"timestamp": time.time(), **limits, **self._cgroups.usage(container_id)}

    async def close(self) -> None:
        """Stop watching; containers run on, and `recover` of a later process finds them."""
        watchers = []
        for container in self._containers.values():
            self._stop_timers(container)
            if container.watcher is not None:
                container.watcher.cancel()
                watchers.append(container.watcher)
        await asyncio.gather(*watchers, return_exceptions=True)
        for container in self._containers.values():
            container.close()
        self._containers.clear()
        self._cgroups.remove_root()
        self._mounts.close()

    def _find(self, container_id: str) -> _Container:
        try:
            return self._containers[container_id]
        except KeyError:
            raise NotFound(f"there is no container {container_id}") from None

    def _terminate(self, container: _Container) -> None:
        """SIGTERM to all but the init, which would pass it on a second time; as soon as there is another process."""
        container_id, told = container.record.container_id, {container.record.pid}
        while fresh := self._cgroups.pids(container_id) - told:  # again: a process may have forked meanwhile
            for pid in fresh:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass
            told |= fresh
        if len(told) == 1:  # killed within milliseconds of its launch, before the init has started the command
            loop = asyncio.get_running_loop()
            container.term_timer = loop.call_later(INIT_ALONE_S, self._terminate, container)

    def _kill_now(self, container: _Container) -> None:
        """SIGKILL; the kernel ends every process of a pid namespace with its first."""
        if container.init is not None and not container.ended.is_set():
            container.init.kill()
            self._cgroups.kill(container.record.container_id)

    def _stop_timers(self, container: _Container) -> None:
        for timer in (container.term_timer, container.kill_timer):
            if timer is not None:
                timer.cancel()
        if container.oom_watch is not None:
            asyncio.get_running_loop().remove_reader(container.oom_watch.fileno())
            container.oom_watch.close()
            container.oom_watch = None

    def _drop(self, container: _Container) -> None:
        """Let go of a container in this process and wake who waits for it."""
        container.close()
        self._containers.pop(container.record.container_id, None)
        container.started.set()
        container.ended.set()

    def _forget(self, container_id: str) -> None:
        if self._ended.pop(container_id, None) is not None:
            self._checkpoints.forget(container_id)


def _check_mounts(config: ContainerConfig, plan: LaunchPlan) -> None:
    """Refuse mount points that the runtime would make on the host itself."""
    volumes = [Path(v.destination) for v in config.volumes if Path(v.destination).is_absolute()]
    for path in (*(Path(mount.destination) for mount in plan.mounts), *volumes):
        if not path.exists() and not path.is_relative_to(config.sandbox):
            raise ContainerError(f"{path} is not on this host; mounting there would make it on the host")
