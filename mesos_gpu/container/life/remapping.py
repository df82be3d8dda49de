"""What is made ready for a container in a user namespace (`--userns_remap`): its root, its devices, its files' owners.

A runtime mounts in the container's own user namespace, as its root, who is nobody on the host. So all that it needs
lies where anybody may go, and is mounted there by us, before, in our own namespace of mounts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from mesos_gpu.base.linux import libc
from mesos_gpu.container.host.idmaps import UserNamespaces, make_node, map_folder, mount_devices
from mesos_gpu.container.host.mounts import mounted_below
from mesos_gpu.container.host.namespace import MountNamespace
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.container.spec.id_pool import IdPool
from mesos_gpu.container.spec.nesting import is_nested
from mesos_gpu.container.spec.submounts import Submount
from mesos_gpu.container.spec.user_namespace import IdRange, Numbers, UserView, everyone, read_range
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.errors import ContainerError
from mesos_gpu.isolator.plan import LaunchPlan, device_nodes
from mesos_gpu.mesos.ids import ContainerId

DEVICES = "devices"
"""Where in a bundle a container's /dev lies."""
ENTERED_BY_ALL = 0o711


def roots_of(bundles: Path) -> Path:
    """Return the folder that roots of containers in user namespaces are shown in, beside that of their bundles."""
    return bundles.parent / "roots"


class Remapping:
    """The user namespaces of one agent's containers. `pool` None: new containers have none."""

    def __init__(self, pool: IdPool | None, mounts: MountNamespace, bundles: Path) -> None:
        self._pool, self._mounts, self._bundles = pool, mounts, bundles
        self._never_free: list[IdRange] = []
        self._lent: IdRange | None = None
        self._borrowers = 0
        self.namespaces = UserNamespaces()
        """Those that owners of files are taken from; for the mounts' own thread."""

    def admit(
        self,
        container: LiveContainer,
        outermost: LiveContainer | None,
        live: Collection[LiveContainer],
        *,
        host_users: bool = False,
    ) -> Numbers | None:
        """Return the numbers of a container, as it is from now on recorded: a nested one has its outermost parent's.

        `live` are all containers that may have some, also those that are being launched or taken away. Raises
        ContainerError when all are held.
        """
        numbers = None
        if outermost is not None:
            numbers = numbers_of(outermost.record)
        elif self._pool is not None and not host_users:
            numbers = self._pool.take(self._held(live))
        running, disk = ("", "") if numbers is None else (str(numbers.running), str(numbers.disk))
        container.record = msgspec.structs.replace(container.record, users=running, users_on_disk=disk)
        return numbers

    def _held(self, live: Collection[LiveContainer]) -> list[IdRange]:
        held = [found.running for one in live if (found := numbers_of(one.record)) is not None]
        return [*held, *self._never_free, *([] if self._lent is None else [self._lent])]

    @contextmanager
    def lend(
        self, outermost: LiveContainer | None, live: Collection[LiveContainer], *, host_users: bool = False
    ) -> Iterator[IdRange | None]:
        """Yield the numbers with which files are opened for a container that is not launched yet; None: the host's.

        No container gets them meanwhile, so none owns a file by them; all that are not launched yet share them. A
        nested container has those of its outermost parent. Raises ContainerError when all are held.
        """
        if outermost is not None:
            found = numbers_of(outermost.record)
            yield None if found is None else found.running
            return
        if self._pool is None or host_users:
            yield None
            return
        if self._lent is None:
            self._lent = self._pool.take(self._held(live)).running
        self._borrowers += 1
        try:
            yield self._lent
        finally:
            self._borrowers -= 1
            if not self._borrowers:
                self._lent = None

    def withhold(self, record: Record) -> None:
        """Give nobody the numbers of a container that could not be taken away whole, until the agent starts again."""
        numbers = numbers_of(record)
        if numbers is not None and not is_nested(record.container_id):
            self._never_free.append(numbers.running)

    async def prepare(
        self,
        config: ContainerConfig,
        ids: Numbers,
        plan: LaunchPlan,
        outermost: LiveContainer | None,
        root: str,
        around: Path,
    ) -> UserView:
        """Make a container's /dev, and see that its user can get to its `root`, and to the folder `around` its sandbox.

        Raises ContainerError.
        """
        reachable(Path(root))
        if config.image is None:
            reachable(around)
        devices = self._bundles / config.container_id / DEVICES
        await self._mounts.run(partial(_devices, devices, ids.running.first, plan, console=config.terminal))
        joined = None
        if outermost is not None and outermost.init is not None:
            joined = f"/proc/{outermost.init.pid}/ns/user"
        return UserView(ids.running, str(devices), joined, str(around))

    def show(self, ids: IdRange, folder: Path, target: Path) -> None:
        """Mount a folder of ours as containers are to see it. In the mounts' own thread only. Raises ContainerError."""
        map_folder(folder, target, self.namespaces.descriptor(everyone(ids)))

    def show_root(self, container_id: ContainerId, root: Path) -> Path:
        """Mount an image's root where its container's user can get to it. In the mounts' own thread only."""
        place = roots_of(self._bundles) / container_id
        try:
            place.parent.mkdir(mode=ENTERED_BY_ALL, exist_ok=True)
            place.parent.chmod(ENTERED_BY_ALL)
            place.mkdir(mode=ENTERED_BY_ALL)
            libc.mount(root, place, None, libc.MS_BIND | libc.MS_REC)
        except OSError as error:
            raise ContainerError(f"cannot show {root} at {place}: {error.strerror}") from error
        return place

    def close(self) -> None:
        """Give up the namespaces."""
        self.namespaces.close()


def numbers_of(record: Record) -> Numbers | None:
    """Return the numbers on record of a container, None for one without a user namespace."""
    if not record.users:
        return None
    return Numbers(read_range(record.users), read_range(record.users_on_disk or record.users))


def reachable(path: Path) -> None:
    """Raise ContainerError when a folder on the way to `path` is closed to users who own nothing."""
    for folder in reversed(path.parents):
        mode = folder.stat().st_mode & 0o7777
        if not mode & 0o001:
            raise ContainerError(
                f"{folder} (mode {mode:04o}) is closed to others, and in a user namespace (--userns_remap) every user "
                f"is one of them, so nobody gets to {path}: chmod o+x {folder}, or give the agent another folder"
            )


def submounts(held: Collection[Path], ids: IdRange) -> dict[str, list[Submount]]:
    """Return what is mounted below folders that are held for a container, where its root gets to it.

    By the folder's path. A runtime could not mount anything elsewhere. In the mounts' own thread only. Raises OSError.
    """
    found: dict[str, list[Submount]] = {}
    for folder in held:
        for mount in mounted_below(folder):
            path = Path(mount.path)
            ways = [parent for parent in path.parents if parent.is_relative_to(folder)]
            if all(_passes(way, ids) for way in ways):
                flags = tuple(name for name in ("ro", "nosuid", "nodev", "noexec") if name in mount.flags)
                found.setdefault(str(folder), []).append(Submount(str(path.relative_to(folder)), flags))
    return found


def _passes(folder: Path, ids: IdRange) -> bool:
    try:
        seen = folder.stat(follow_symlinks=False)
    except OSError:  # hidden by another mount
        return False
    return bool(seen.st_mode & 0o001) or seen.st_uid in ids


def mapped_output(sandbox: Path, name: str, file: int) -> int:
    """Open a file of a sandbox again, as its container's users see it, who may open it by /dev/stdout then.

    `sandbox` is where it is mounted for them. Raises ContainerError when it is not `file` any more.
    """
    try:
        again = os.open(sandbox / name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ContainerError(f"cannot open the container's {name} again: {error.strerror}") from error
    if not os.path.samestat(os.fstat(again), os.fstat(file)):
        os.close(again)
        raise ContainerError(f"another file took the place of the container's {name}")
    os.set_blocking(again, True)
    return again


def _devices(target: Path, owner: int, plan: LaunchPlan, *, console: bool) -> None:
    """Make a container's /dev with the nodes of a plan, and a place for its terminal."""
    mount_devices(target, owner, console=console)
    for node in device_nodes(plan):
        place = target / str(node["path"]).removeprefix("/dev/")
        try:
            for folder in reversed(place.relative_to(target).parents[:-1]):
                with suppress(FileExistsError):
                    (target / folder).mkdir()
                    os.chown(target / folder, owner, owner)
            make_node(place, node["major"], node["minor"], node["fileMode"], owner + node["uid"], owner + node["gid"])
        except OSError as error:
            raise ContainerError(f"cannot make the device node {node['path']}: {error.strerror}") from error
