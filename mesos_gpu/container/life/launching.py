"""From what is asked of a container to its running processes: image, GPUs, bundle, files, runtime."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu import stages
from mesos_gpu.base.files import private_folder, write_whole
from mesos_gpu.container.attached import terminals
from mesos_gpu.container.attached.sessions import first_pid, start_on_terminal, start_piped
from mesos_gpu.container.attached.switchboard import Attachment
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.beneath import PRIVATE
from mesos_gpu.container.host.idmaps import UserNamespaces
from mesos_gpu.container.host.inside import resolve
from mesos_gpu.container.host.mounts import unmount
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.host.sources import Source, hold
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.container.life.output import STDERR, STDOUT, open_streams
from mesos_gpu.container.life.profiles import Profiles
from mesos_gpu.container.life.provisioner import Provisioner
from mesos_gpu.container.life.remapping import Remapping, mapped_output, submounts
from mesos_gpu.container.life.sandbox import (
    SANDBOX,
    SHOWN,
    check_sandbox,
    own_all,
    own_ways,
    place_secrets,
    prepare_volumes,
    shown_folder,
    sources,
)
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.bundle import HostSetting, ImageRoot, NetworkView, compose
from mesos_gpu.container.spec.config import ContainerConfig, ImageAsk, Ready, SessionConfig, is_ours, one_slash
from mesos_gpu.container.spec.isolation import Isolator
from mesos_gpu.container.spec.nesting import (
    cgroup_of,
    entering,
    is_nested,
    parent_of,
    top_level,
    without_gpus,
)
from mesos_gpu.container.spec.submounts import with_mounts
from mesos_gpu.container.spec.user_namespace import Numbers, on_disk
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.container.supervisor.conmon import Conmon, Supervised
from mesos_gpu.errors import BadInput, ContainerError
from mesos_gpu.images.store import Image
from mesos_gpu.isolator.injection import ImageManifest
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId

AT_ONCE = 16
"""So many containers are started at once: were it all of 200, each step would wait for 199, and so would who asks."""


class Launcher:
    """Starts what `Containerizer` has admitted; what it began and could not finish, its caller releases."""

    def __init__(
        self,
        *,
        host: HostSetting,
        conmon: Conmon,
        cgroups: Cgroups,
        isolator: Isolator,
        checkpoints: ContainerRecords,
        bundles: Path,
        mounts: MountNamespace,
        provisioner: Provisioner | None,
        networks: Networks,
        profiles: Profiles,
        remapping: Remapping,
        containers: Mapping[ContainerId, LiveContainer],
    ) -> None:
        self._remapping, self._containers = remapping, containers
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._networks, self._profiles = networks, profiles
        self._host, self._conmon, self._cgroups, self._isolator = host, conmon, cgroups, isolator
        self._checkpoints, self._bundles, self._mounts, self._provisioner = checkpoints, bundles, mounts, provisioner

    async def start(
        self,
        container: LiveContainer,
        config: ContainerConfig,
        progress: Callable[[str], None] | None,
        outermost: LiveContainer | None = None,
        ready: Ready | None = None,
    ) -> int:
        """Start a container, perhaps nested in one `outermost`, when it is `ready`; return the pid of its init.

        Raises MesosGpuError, OSError.
        """
        async with self._turns:
            self._cgroups.expect()
            user, roots = find_user(config.user), _written_by_tasks(config, outermost)
            check_sandbox(config.sandbox, roots)  # else the runtime would make it, on the host
            live = self._containers.values()
            ids = self._remapping.admit(container, outermost, live, host_users=config.host_users)
            self._checkpoints.save(container.record)
            stages.mark("on record")
        image = None
        if config.image is not None:
            image = await self._pull(container, config.image, progress)
        async with self._turns:
            self._cgroups.expect()  # again: a pull takes its time
            return await self._start(container, config, image, outermost, user, roots, ids, ready)

    async def _start(
        self,
        container: LiveContainer,
        config: ContainerConfig,
        image: Image | None,
        outermost: LiveContainer | None,
        user: HostUser,
        roots: tuple[Path, ...],
        ids: Numbers | None,
        ready: Ready | None,
    ) -> int:
        """Start what is on record, and has its image; return the pid of its init."""
        plan = self._plan(container, config, image, outermost)
        stages.mark("GPUs given")
        bundle = self._bundles / config.container_id
        private_folder(self._bundles)
        bundle.mkdir(mode=PRIVATE)
        config = place_secrets(config, bundle)
        asked = user
        root, user, owner = await self._root(config, plan, image, user, roots, ids)
        stages.mark("root there")
        prepare_volumes(config, owner, roots)
        if ids is not None:
            await asyncio.to_thread(own_ways, config, owner, roots[0])
        config, held = sources(config, bundle, roots, asked, ids)
        network = await self._network(config, outermost)
        host = self._profiles.fitted(self._host, config.linux)
        users = None
        if ids is not None:
            at = host.rootfs if root is None else root.path
            around = shown_folder(config, roots)
            users = await self._remapping.prepare(config, ids, plan, outermost, at, around)
        document = compose(config, plan, user, host, root, network, str(bundle / SHOWN / SANDBOX), users)
        compiling = self._conmon.filters.shorten(document, self._conmon.runtime)
        enter = self._share_limits(config.container_id, document) if container.record.shares_cgroup else ()
        try:
            if held:
                await self._mounts.run(partial(_hold_all, held, self._host.private, self._remapping.namespaces))
                stages.mark("volumes held")
            if ids is not None:
                below = await self._mounts.run(partial(submounts, held, ids.running))
                document["mounts"] = list(with_mounts(document["mounts"], below))
            write_whole(bundle / "config.json", msgspec.json.encode(document), durable=False)  # with all its variables
            stages.mark("bundle written")
            if ready is not None:
                await ready()
                stages.mark("ready to run")
            supervised = await self._supervise(container, config, owner, roots, enter)
        finally:
            if held:
                await self._mounts.run(partial(_let_go, held))
        if compiling is not None:
            self._conmon.filters.learn(compiling, self._conmon.runtime.filter_file(bundle, config.container_id))
        self._note_running(container, supervised)
        stages.mark("on record as running")
        if container.holder is not None:
            container.board = await terminals.connect(bundle)
        return supervised.pid

    def _plan(
        self, container: LiveContainer, config: ContainerConfig, image: Image | None, outermost: LiveContainer | None
    ) -> LaunchPlan:
        """Have the isolator prepare; a nested container with limits of its own has no GPU, and no other device."""
        container_id = config.container_id
        says = False if image is None else ImageManifest(image.config.env, image.config.labels)
        # An isolator without shares (NvidiaGpuIsolator by itself) need not know of them.
        share = {} if config.share is None else {"share": config.share}
        plan = self._isolator.prepare(container_id, config.gpus, image=says, labels=config.labels, **share)
        devices = config.device_plan if outermost is None else outermost.record.device_plan
        if devices is not None:  # hooks are about the container that asked
            plan = plan.joined(devices if outermost is None else replace(devices, hooks=()))
        if not is_nested(container_id) or container.record.shares_cgroup:
            return plan
        if self._cgroups.version != 1:
            raise BadInput(
                f"container {container_id}: share_cgroups=false needs cgroup v1; with v2 a container with "
                "processes cannot hold another with limits"
            )
        return without_gpus(plan)

    async def _root(
        self,
        config: ContainerConfig,
        plan: LaunchPlan,
        image: Image | None,
        user: HostUser,
        roots: tuple[Path, ...],
        ids: Numbers | None,
    ) -> tuple[ImageRoot | None, HostUser, HostUser]:
        """Return what the container has for its root, None for the host's files; whom it runs as; whom on disk."""
        root, whom = None, user
        if config.image is None or image is None:
            _check_mounts(config, plan)
        else:
            root, whom = await self._provision(config.container_id, config.image, image, user, ids)
            await self._mounts.run(partial(_check_destinations, Path(root.path), config))
        owner = whom
        if ids is not None:
            ids.running.check_user(user)
            ids.running.check_user(whom)
            owner = on_disk(whom, user, ids)
        if owner != user or ids is not None:
            await asyncio.to_thread(own_all, config.sandbox, owner, root=roots[0])  # with what was fetched into it
        return root, whom, owner

    def _share_limits(self, container_id: ContainerId, document: dict[str, Any]) -> tuple[Path, ...]:
        """Put a container under its parent's limits; return the files that its process enters its cgroup by."""
        if self._conmon.runtime.leaves_cgroup:
            del document["linux"]["cgroupsPath"], document["linux"]["resources"]
            return self._cgroups.make(container_id)
        # runc makes its own, and refuses one of version 2 that is threaded already.
        document["linux"]["resources"] = self._policy_of(parent_of(container_id) or container_id)
        return ()

    async def _supervise(
        self,
        container: LiveContainer,
        config: ContainerConfig,
        user: HostUser,
        roots: Sequence[Path],
        enter: tuple[Path, ...],
    ) -> Supervised:
        """Have conmon run the bundle, saying everything to the sandbox's `stdout` and `stderr`."""
        bundle, console = self._bundles / config.container_id, None
        around = shown_folder(config, roots)
        with ExitStack() as closing:
            stdout, stderr, container.rotator = open_streams(config, bundle, user, roots[0], closing)
            if container.record.users and container.rotator is None:
                seen = bundle / SHOWN / SANDBOX / config.sandbox.relative_to(around)
                stdout = await self._mounts.run(partial(mapped_output, seen, STDOUT, stdout))
                closing.callback(os.close, stdout)
                stderr = await self._mounts.run(partial(mapped_output, seen, STDERR, stderr))
                closing.callback(os.close, stderr)
            if config.terminal:
                console, container.holder = Path(terminals.CONSOLE), terminals.start_holder(bundle, stdout)
            beside = () if enter or self._conmon.thorough else self._cgroups.beside(config.container_id)
            return await self._conmon.start(
                config.container_id, bundle, stdout, stderr, enter=enter, console=console, beside=beside
            )

    def _note_running(self, container: LiveContainer, supervised: Supervised) -> None:
        # What is not in the container's cgroup is not its init any more: that has ended, and the pid may be another's.
        cgroup = f"/{self._host.cgroups_root}/{cgroup_of(container.record.container_id)}"
        container.init, container.conmon = Process.open(supervised.pid, cgroup=cgroup), supervised.conmon
        container.record = msgspec.structs.replace(
            container.record,
            step="running",
            pid=supervised.pid,
            pid_start_time=container.init.start_time if container.init else None,
            conmon_pid=supervised.conmon.pid,
            conmon_start_time=supervised.conmon.start_time,
            holder_pid=container.holder.pid if container.holder else None,
            holder_start_time=container.holder.start_time if container.holder else None,
            rotator_pid=container.rotator.pid if container.rotator else None,
            rotator_start_time=container.rotator.start_time if container.rotator else None,
        )
        self._checkpoints.save(container.record)

    async def start_session(self, container: LiveContainer, parent: LiveContainer, config: SessionConfig) -> Attachment:
        """Start a command inside `parent`; return what it says. Raises MesosGpuError, OSError."""
        parent_id, user = parent.record.container_id, None if config.user is None else find_user(config.user)
        if config.terminal and not self._conmon.runtime.leaves_cgroup:
            raise BadInput(f"a session with a terminal needs crun: {self._conmon.runtime.name} gives none away")
        self._checkpoints.save(container.record)
        inside = msgspec.json.decode((self._bundles / parent_id / "config.json").read_bytes())["process"]
        document = entering(inside, config.command, config.environment, user, terminal=config.terminal)
        bundle = self._bundles / config.container_id
        private_folder(self._bundles)
        bundle.mkdir(mode=PRIVATE)
        write_whole(bundle / "process.json", msgspec.json.encode(document), durable=False)
        runtime, files = self._conmon.runtime, self._cgroups.make(config.container_id)
        enter = files if runtime.leaves_cgroup else ()
        cgroup = None
        if not (is_nested(parent_id) and runtime.leaves_cgroup):  # of such a container crun knows no cgroup to go below
            cgroup = cgroup_of(config.container_id)[len(cgroup_of(parent_id)) + 1 :]
        command = runtime.entering(self._bundles / parent_id, parent_id, bundle, enter, cgroup)
        if config.terminal:
            command.append(f"--console-socket={bundle / 'console'}")
            starting = start_on_terminal([*command, parent_id], bundle, self._mounts, config.window)
        else:
            starting = start_piped([*command, parent_id], self._mounts)
        child, container.board = await starting
        container.init = child
        attachment = container.board.attach()
        pid = await first_pid(bundle / "pid", child)
        container.first = None if pid is None else Process.open(pid)
        if pid is not None and not runtime.leaves_cgroup:
            # runc stays, to relay, where it was started: what the session ends with must not be in its cgroup.
            for file in self._cgroups.beside(config.container_id):
                with suppress(OSError):  # it has ended
                    file.write_text(str(pid))
        container.record = msgspec.structs.replace(container.record, step="running", pid=pid)
        self._checkpoints.save(container.record)
        return attachment

    async def _network(self, config: ContainerConfig, outermost: LiveContainer | None) -> NetworkView | None:
        """Join the container's networks, or share its outermost parent's; None: it has the host's and its name."""
        uts = None
        if outermost is not None and outermost.init is not None:
            joined = self._networks.joined(top_level(config.container_id))
            uts = f"/proc/{outermost.init.pid}/ns/uts"
        elif config.networks or config.hostname is not None:
            joined = await self._networks.prepare(config.container_id, config.networks, config.hostname)
        else:
            return None
        if joined is None:
            return None
        # The runtime does not see where the namespace is pinned: that is outside of our private mounts.
        namespace = None if joined.namespace is None else f"/proc/{os.getpid()}/fd/{joined.namespace}"
        files = tuple((path, str(source)) for path, source in joined.files)
        return NetworkView(joined.hostname, namespace, uts, files)

    def _policy_of(self, container_id: ContainerId) -> dict[str, Any]:
        """Return what a container that shares the limits of this one may use: the same devices."""
        document = msgspec.json.decode((self._bundles / container_id / "config.json").read_bytes())
        return {"devices": document["linux"]["resources"]["devices"]}

    async def _pull(self, container: LiveContainer, ask: ImageAsk, progress: Callable[[str], None] | None) -> Image:
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
        self, container_id: ContainerId, ask: ImageAsk, image: Image, user: HostUser, ids: Numbers | None
    ) -> tuple[ImageRoot, HostUser]:
        """Mount an image; return it and whom its container runs as.

        Root may become whom the image names, who has fewer rights. Every other user stays who it is, as in Mesos, where
        an image's USER does not count: else who writes an image could be root where the ACL `run_tasks` says nobody.
        """
        if self._provisioner is None:
            raise ValueError("an image came from nowhere")
        root = await self._provisioner.mount(container_id, image, None if ids is None else ids.running)
        own = await self._provisioner.user(root) if user.uid == 0 and not ask.user_wins else None
        return root, own or user


def _written_by_tasks(config: ContainerConfig, outermost: LiveContainer | None) -> tuple[Path, ...]:
    """Return the folders, the one around its sandbox first, in which tasks may change what lies on a path of ours."""
    if outermost is None:
        return (config.sandbox,)
    around = Path(outermost.record.sandbox)
    root = around if config.sandbox.is_relative_to(around) else config.sandbox
    return (root, *(Path(volume.source) for volume in outermost.record.volumes))


def _hold_all(held: Mapping[Path, Source], private: Collection[str], namespaces: UserNamespaces) -> None:
    for target, source in held.items():
        hold(source, target, private, namespaces)


def _let_go(held: Collection[Path]) -> None:
    """Take away what the runtime has mounted by now, or what is left of a launch that failed."""
    for target in held:
        unmount(target)


def _check_destinations(root: Path, config: ContainerConfig) -> None:
    """Refuse volumes that a link of the image leads to what is the container's own."""
    for volume in config.volumes:
        if volume.destination.startswith("/"):
            place = f"/{resolve(root, volume.destination).relative_to(root)}"
            if place != "/." and is_ours(place):
                raise BadInput(f"a volume at {volume.destination}: the image has a link there to {place}")


def _check_mounts(config: ContainerConfig, plan: LaunchPlan) -> None:
    """Refuse mount points that the runtime would make on the host itself, and what leads to the container's own."""
    volumes = [Path(one_slash(v.destination)) for v in config.volumes if v.destination.startswith("/")]
    for path in (*(Path(mount.destination) for mount in plan.mounts), *volumes):
        if not path.exists() and not path.is_relative_to(config.sandbox):
            raise ContainerError(f"{path} is not on this host; mounting there would make it on the host")
    for path in volumes:
        if is_ours(str(path.resolve())):
            raise BadInput(f"a volume at {path}: it leads to {path.resolve()}, which is the container's own")
