"""What of the host is shown in a container: looked up once, held by a mount of our own, and walled in.

A runtime is told paths, and looks them up when it mounts; whoever may change a folder on the way could lead it
elsewhere in between. So each source is opened here, judged by what was opened, and mounted in the container's bundle,
where only root gets; the runtime is told that path. Flags are set on everything that is mounted below a source, too:
a runtime's `ro` is for the topmost mount alone. In the thread of `namespace.MountNamespace` only.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.libc import (
    AT_FDCWD,
    AT_RECURSIVE,
    AT_SYMLINK_NOFOLLOW,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
)
from mesos_gpu.base.linux.mounts import Mount, current_mounts
from mesos_gpu.container.host.beneath import open_beneath
from mesos_gpu.container.host.idmaps import CANNOT, UserNamespaces, mount_mapped, why
from mesos_gpu.container.host.mounts import mounted_below, unmount
from mesos_gpu.container.host.users import IdMap
from mesos_gpu.errors import BadInput, ContainerError

KERNEL = frozenset(
    ("bpf", "cgroup", "cgroup2", "configfs", "debugfs", "efivarfs", "proc", "pstore", "securityfs", "sysfs", "tracefs")
)
"""File systems in which the kernel is told what to do: none of them is shown to a task because it names it."""

_FLAGS = {
    MOUNT_ATTR_RDONLY: MS_RDONLY,
    MOUNT_ATTR_NOSUID: MS_NOSUID,
    MOUNT_ATTR_NODEV: MS_NODEV,
    MOUNT_ATTR_NOEXEC: MS_NOEXEC,
}
_NAMES = {"ro": MS_RDONLY, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}

log = logging.getLogger(__name__)


class Source(Struct, frozen=True):
    """A file or folder of the host to be shown. No link is followed below `root`, which a task may write to.

    Without `root` it is the host's by the path that a task gave, and may lie in nothing that is private. `ids` are the
    owners that a container in a user namespace sees; where a file system of the host's cannot, it sees nobody.
    """

    path: Path
    root: Path | None = None
    read_only: bool = False
    ids: IdMap | None = None


def hold(source: Source, target: Path, private: Collection[str], namespaces: UserNamespaces) -> None:
    """Mount a source at `target`, which is made; `private` are folders of the agent that no task may see.

    Raises BadInput for what must not be shown and what is not there, ContainerError when the kernel refuses.
    """
    entry = _open(source)
    try:
        place = Path(f"/proc/self/fd/{entry}").readlink()
        kind = _kind_of(entry)
        if source.root is None:
            problem = refusal(place, kind, private)
            if problem is not None:
                raise BadInput(f"{source.path} cannot be a volume: {problem}")
        if stat.S_ISDIR(os.fstat(entry).st_mode):
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch(exist_ok=False)
        try:
            _mount(source, entry, target, namespaces)
            # What the host mounts in there later is seen, as in Mesos, unless it would be writable where all is not.
            kind_of_sharing = MS_PRIVATE if source.read_only else MS_SLAVE
            libc.mount("none", target, None, kind_of_sharing | MS_REC)
            restrict(target, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (MOUNT_ATTR_RDONLY if source.read_only else 0))
            for mount in current_mounts():
                if mount.kind in KERNEL and Path(mount.path).is_relative_to(target):
                    restrict(
                        Path(mount.path), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
                    )
        except OSError as error:
            unmount(target)
            raise ContainerError(f"cannot show {source.path} in a container: {error.strerror}") from error
    finally:
        os.close(entry)


def _mount(source: Source, entry: int, target: Path, namespaces: UserNamespaces) -> None:
    """Mount what was opened, with all that is mounted below it. Raises ContainerError, OSError."""
    if source.ids is not None:
        namespace = namespaces.descriptor(source.ids)
        try:
            mount_mapped(entry, target, namespace)
        except OSError as error:
            if source.root is not None or error.errno not in CANNOT:
                raise ContainerError(f"cannot show {source.path} in a user namespace: {why(error)}") from error
            # The container has less than it might: what is open to everybody.
            log.warning("%s is shown without its owners: its file system cannot map them", source.path)
        else:
            if target.is_dir():
                _mount_below(entry, target, namespace)
            return
    libc.mount(f"/proc/thread-self/fd/{entry}", target, None, MS_BIND | MS_REC)


def _mount_below(entry: int, target: Path, namespace: int) -> None:
    """Mount what is mounted below an open folder at the same places below `target`, each under the map if it can be.

    A map of all at once fails by one file system that knows none (proc is one). Raises OSError.
    """
    place = Path(f"/proc/self/fd/{entry}").readlink()
    with ExitStack() as closing:
        around = os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        closing.callback(os.close, around)
        for mount in mounted_below(place):
            path = str(Path(mount.path).relative_to(place))
            try:
                inner = open_beneath(entry, path, os.O_PATH)
                closing.callback(os.close, inner)
                if _mount_of(inner) != mount.number:
                    continue
                at = open_beneath(around, path, os.O_PATH)
                closing.callback(os.close, at)
            except OSError:  # another mount lies over it, or it went meanwhile
                continue
            try:
                mount_mapped(inner, at, namespace)
            except OSError as error:
                if error.errno not in CANNOT:
                    raise
                if mount.kind not in KERNEL:
                    log.warning("%s is shown without its owners: its file system cannot map them", mount.path)
                mount_mapped(inner, at, None)


def _open(source: Source) -> int:
    try:
        if source.root is None:
            return os.open(source.path, os.O_PATH | os.O_CLOEXEC)
        around = os.open(source.root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return open_beneath(around, str(source.path.relative_to(source.root)), os.O_PATH)
        finally:
            os.close(around)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV) and source.root is not None:
            raise BadInput(f"{source.path} is reached by a link, which could lead out of {source.root}") from error
        raise BadInput(f"this host has no {source.path}, which was to be a volume: {error.strerror}") from error


def refusal(place: Path, kind: str | None, private: Collection[str]) -> str | None:
    """Return why a place of the host, on a file system of this kind, is not shown to tasks; None: it may be. Pure."""
    if kind in KERNEL:
        return f"it is the kernel's ({kind}), and what is written there changes the host"
    if any(place.is_relative_to(path) for path in ("/proc", "/sys")):
        return "each container has its own /proc and /sys"
    for folder in private:
        if place.is_relative_to(folder):
            return f"{folder} is the agent's, with other tasks' files and secrets"
    return None


def _kind_of(entry: int) -> str | None:
    """Return the kind of the file system that something open lies on."""
    number = _mount_of(entry)
    return next((mount.kind for mount in current_mounts() if mount.number == number), None)


def _mount_of(entry: int) -> str | None:
    """Return the kernel's number of the mount that something open lies on."""
    lines = Path(f"/proc/thread-self/fdinfo/{entry}").read_text().splitlines()
    return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), None)


def restrict(path: Path, flags: int) -> None:
    """Add flags to the mount at `path` and all below it, at once where the kernel can (Linux 5.12). Raises OSError."""
    below = AT_RECURSIVE | AT_SYMLINK_NOFOLLOW
    try:
        libc.set_mount_attributes(AT_FDCWD, os.fsencode(path), below, attributes=flags)
        return
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    for mount in current_mounts():
        if Path(mount.path).is_relative_to(path):
            _remount(mount, flags)


def _remount(mount: Mount, flags: int) -> None:
    """Add flags to one mount, which keeps those it has."""
    had = sum(flag for name, flag in _NAMES.items() if name in mount.flags)
    added = sum(theirs for ours, theirs in _FLAGS.items() if flags & ours)
    libc.mount("none", mount.path, None, MS_BIND | MS_REMOUNT | had | added)
