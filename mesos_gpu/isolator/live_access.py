"""What a running container can open, changed while it runs: its device policy and the nodes in its own /dev."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.base.linux.processes import open_devices
from mesos_gpu.errors import ContainerError, NotFound
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.access import BASE_RULES, rule_for
from mesos_gpu.isolator.device_access import DeviceAccess, find_device_access
from mesos_gpu.isolator.plan import DeviceRule

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A link is never followed: the container may have put one there that leads out of it."""


class LiveAccess(Protocol):
    """What an isolator asks of one running container."""

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        """Let the container open `nodes`; `opened` are new among them, `closed` are gone. Raises MesosGpuError."""

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Return those of `nodes` that a process of the container has open."""


class RunningAccess:
    """The container whose process `pid` is. Files and the cgroup are looked up again for each change."""

    def __init__(self, pid: int, *, base_rules: Sequence[DeviceRule] = BASE_RULES) -> None:
        self._pid, self._base_rules = pid, tuple(base_rules)
        self._cgroup = find_device_access(pid).folder

    def change(
        self, nodes: Collection[DeviceNode], *, opened: Collection[DeviceNode], closed: Collection[DeviceNode]
    ) -> None:
        """Let the container open `nodes` beside its base rules; `opened` are new among them, `closed` are gone.

        Every container without a /dev of its own would change the host's: that is refused. Raises ContainerError when
        the kernel refuses (then some of it may have been done), NotFound when the process is gone.
        """
        try:
            with self._dev() as dev:
                for node in closed:
                    _unlink(dev, node)
                rules = (*self._base_rules, *map(rule_for, nodes))
                self._access().change(rules, map(rule_for, opened), map(rule_for, closed))
                for node in opened:
                    make_node(dev, node)
        except OSError as error:
            raise ContainerError(f"cannot change the devices of process {self._pid}'s container: {error}") from error

    def using(self, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Return those of `nodes` that a process of the container has open.

        Raises ContainerError where that cannot be seen, as for want of descriptors; NotFound when the process is gone.
        """
        numbers = {os.makedev(node.major, node.minor): node for node in nodes}
        try:
            return frozenset(numbers[number] for number in self._open_devices() if number in numbers)
        except OSError as error:
            raise ContainerError(f"cannot see what process {self._pid}'s container has open: {error}") from error

    def _access(self) -> DeviceAccess:
        """Return the policy. Raises NotFound when the pid is by now that of a process elsewhere."""
        access = find_device_access(self._pid)
        if access.folder != self._cgroup:
            raise NotFound(f"process {self._pid} is not in {self._cgroup} any more")
        return access

    @contextmanager
    def _dev(self) -> Iterator[int]:
        """Yield a descriptor of the container's /dev."""
        try:
            root = os.open(f"/proc/{self._pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            raise NotFound(f"there is no process {self._pid}") from None
        try:
            dev = os.open("dev", _FOLDER, dir_fd=root)
        finally:
            os.close(root)
        try:
            self._access()  # after the folder was opened: it is then that of a process in the container's cgroup
            here = Path("/dev").stat()
            if os.fstat(dev).st_dev == here.st_dev and os.fstat(dev).st_ino == here.st_ino:
                raise ContainerError(f"process {self._pid} has no /dev of its own; its nodes are the host's")
            yield dev
        finally:
            os.close(dev)

    def _open_devices(self) -> Iterator[int]:
        for pid in processes_in(self._access().folder):
            yield from open_devices(pid)


def make_node(dev: int, node: DeviceNode) -> None:
    """Make a node in the open /dev of a container, in the place of what is there. Raises OSError."""
    with _folder_of(dev, node, make=True) as (folder, name):
        _remove(folder, name)
        os.mknod(name, stat.S_IFCHR | 0o600, os.makedev(node.major, node.minor), dir_fd=folder)
        # Through a descriptor of the node itself: by name it might be something else by now.
        made = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if os.fstat(made).st_rdev != os.makedev(node.major, node.minor):
                raise OSError(0, f"the container replaced {node.path} while it was made")
            os.chown(f"/proc/self/fd/{made}", node.uid, node.gid)
            Path(f"/proc/self/fd/{made}").chmod(node.mode)
        finally:
            os.close(made)


def _unlink(dev: int, node: DeviceNode) -> None:
    try:
        with _folder_of(dev, node, make=False) as (folder, name):
            _remove(folder, name)
    except FileNotFoundError:
        pass


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


@contextmanager
def _folder_of(dev: int, node: DeviceNode, *, make: bool) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that the node lies in, and its name there."""
    *folders, name = PurePosixPath(node.path).relative_to("/dev").parts
    current = os.dup(dev)
    try:
        for folder in folders:
            if make:
                try:
                    os.mkdir(folder, 0o755, dir_fd=current)
                except FileExistsError:
                    pass
            below = os.open(folder, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)
