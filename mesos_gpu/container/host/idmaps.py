"""Mounts in which the owners of files are others than on disk, for containers in user namespaces.

The kernel takes the map from a user namespace, so one is made for each map, with no process left in it.
mount_setattr(2) has the rules: the mount must be new and attached nowhere, and its file system must know of maps (ext4,
xfs and btrfs since Linux 5.15 at the latest, overlayfs' layers since 5.19, tmpfs since 6.3).
"""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from mesos_gpu.base.linux import libc
from mesos_gpu.container.host.runtime import find_program
from mesos_gpu.container.host.users import Extent, IdMap
from mesos_gpu.errors import ContainerError, Unavailable

CANNOT = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP))
"""What the kernel says where it, or a file system, knows no maps."""


class UserNamespaces:
    """User namespaces of the maps that were asked for, held open until `close`; of many the latest."""

    def __init__(self, most: int = 64) -> None:
        self._held: dict[IdMap, int] = {}
        self._most = most

    def descriptor(self, ids: IdMap) -> int:
        """Return the namespace of a map, good until the next is asked for; the caller does not close it.

        Raises Unavailable.
        """
        found = self._held.pop(ids, None)
        if found is None:
            found = make_namespace(ids)
            while len(self._held) >= self._most:
                os.close(self._held.pop(next(iter(self._held))))
        self._held[ids] = found
        return found

    def close(self) -> None:
        """Give all of them up; mounts that have their maps keep them."""
        while self._held:
            os.close(self._held.popitem()[1])


def make_namespace(ids: IdMap) -> int:
    """Make a user namespace with these numbers and return a descriptor of it. Raises Unavailable."""
    unshare = find_program("unshare")
    if unshare is None:
        raise Unavailable("user namespaces need the program unshare: apt install util-linux, or dnf install util-linux")
    # It answers when it is in its new namespace, and ends when its input does.
    with subprocess.Popen(
        [str(unshare), "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("subprocess gave no pipes")
        with suppress(BrokenPipeError):
            process.stdin.write(b"\n")
            process.stdin.flush()
        if not process.stdout.readline():
            said = process.stderr.read().decode(errors="replace").strip()
            raise Unavailable(f"this machine makes no user namespace (see user.max_user_namespaces): {said}")
        try:
            for name, extents in (("uid_map", ids.uids), ("gid_map", ids.gids)):
                Path(f"/proc/{process.pid}/{name}").write_text(_lines(extents))
            return os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(f"this machine's kernel refuses the numbers of a user namespace: {error}") from error
        finally:
            with suppress(OSError):
                process.stdin.close()


def _lines(extents: tuple[Extent, ...]) -> str:
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in extents)


def mount_mapped(entry: int, target: Path | int, namespace: int | None) -> None:
    """Mount what is open (O_PATH) at `target`, a path or open itself, without what is mounted below it.

    Owners are under a namespace's map, or as they are without one. Raises OSError: one of CANNOT where the kernel or
    the file system knows no maps.
    """
    # A mount that was held by hand is in the way of nothing: it is new, and nobody else sees it.
    tree = libc.open_tree(entry, b"", libc.OPEN_TREE_CLONE | libc.OPEN_TREE_CLOEXEC | libc.AT_EMPTY_PATH)
    try:
        if namespace is not None:
            attributes = libc.MOUNT_ATTR_IDMAP
            libc.set_mount_attributes(tree, b"", libc.AT_EMPTY_PATH, attributes=attributes, user_namespace=namespace)
        if isinstance(target, int):
            libc.move_mount(tree, target, b"", libc.MOVE_MOUNT_T_EMPTY_PATH)
        else:
            libc.move_mount(tree, libc.AT_FDCWD, os.fsencode(target), 0)
    finally:
        os.close(tree)


def map_folder(folder: Path, target: Path, namespace: int) -> None:
    """Mount a folder of ours at `target`, which is made, under a namespace's map.

    Raises ContainerError, with what to do where this machine cannot.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        entry = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            mount_mapped(entry, target, namespace)
        finally:
            os.close(entry)
    except OSError as error:
        raise ContainerError(f"cannot show {folder} in a user namespace: {why(error)}") from error


def why(error: OSError) -> str:
    """Return what an error of `mount_mapped` means to who runs the agent."""
    if error.errno in CANNOT:
        return (
            f"{error.strerror}; its file system, or this kernel, cannot map owners (idmapped mounts: Linux 5.19 for "
            "ext4, xfs, btrfs and layers of images, 6.3 for tmpfs); start the agent without --userns_remap"
        )
    return str(error.strerror)


NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
"""What a runtime puts into a /dev of its own; OCI runtime specification, default devices."""


def mount_devices(target: Path, owner: int, *, console: bool = False) -> None:
    """Mount a /dev for one container at `target`, which is made; all in it is `owner`'s. Raises ContainerError.

    A file system that a container mounts in its user namespace opens no device. In this one they open, also those that
    come later, and who may open which is the cgroup's to say. With `console` there is a file that the runtime mounts a
    terminal of the container's on: crun makes none.
    """
    try:
        target.mkdir(parents=True)
        libc.mount("tmpfs", target, "tmpfs", libc.MS_NOSUID | libc.MS_NOEXEC, "mode=755,size=65536k")
        for name, (major, minor) in NODES.items():
            make_node(target / name, major, minor, 0o666, owner, owner)
        if console:
            (target / "console").touch(0o600)
            os.chown(target / "console", owner, owner)
        for name, to in LINKS.items():
            (target / name).symlink_to(to)
            os.chown(target / name, owner, owner, follow_symlinks=False)
        # runc gives what it mounts there the mode of what it is mounted on.
        for name, mode in (("pts", 0o755), ("shm", 0o1777), ("mqueue", 0o1777)):
            (target / name).mkdir()
            (target / name).chmod(mode)
            os.chown(target / name, owner, owner)
        os.chown(target, owner, owner)
    except OSError as error:
        raise ContainerError(f"cannot make a container's /dev: {error.strerror}") from error


_NOSUID, _NOEXEC = 2, 8


def make_node(path: Path, major: int, minor: int, mode: int, uid: int, gid: int) -> None:
    """Make a character device. Raises OSError."""
    os.mknod(path, 0o020000 | mode, os.makedev(major, minor))
    path.chmod(mode)
    os.chown(path, uid, gid)
