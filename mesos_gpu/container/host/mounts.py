"""A private view of mounts, and in it the one copy of the host's file system that all containers share.

The host never sees what is mounted here, and it is gone when the agent and its containers are. A mount namespace
belongs to a thread: `namespace.MountNamespace` calls these functions in one that does nothing else.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.libc import (
    CLONE_NEWNS,
    MNT_DETACH,
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
from mesos_gpu.errors import ContainerError, Unavailable

PINNED = "/isolators/network/cni/"
"""What the path of a network namespace has in it that an agent has pinned."""

_unified: list[tuple[int, str]] = []
"""The cgroup2 tree that was taken out of the view of this process, held open before that, and where it was."""
TREE = ".tree"
"""Where runtimes find it in what is put in its place."""
_first: list[int] = []
"""The mounts that this process was started with, held before any of its threads left them."""


def mounted_below(folder: Path) -> list[Mount]:
    """Return what this thread sees mounted below a folder, outermost first, without what another mount lies over."""
    last = {mount.path: mount for mount in current_mounts() if Path(mount.path).is_relative_to(folder)}
    last.pop(str(folder), None)
    return sorted(last.values(), key=lambda mount: mount.path.count("/"))


def enter_private_mounts() -> None:
    """Give this thread a mount namespace of its own that still follows the host's.

    Where a cgroup2 tree `unified` lies beside v1 controllers, it is taken out of this view: crun refuses such hybrids,
    and with it gone the view is plain v1. In a chroot, the root also becomes a mount: runtimes need that to leave it.
    Raises Unavailable without the permission (CAP_SYS_ADMIN).
    """
    first_mounts()
    try:
        libc.call("unshare", CLONE_NEWNS)
        try:
            libc.mount("none", "/", None, MS_REC | MS_SLAVE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _turn_chroot_into_mount()
        mounts = current_mounts()
        if any(mount.kind == "cgroup" for mount in mounts):
            for mount in mounts:
                if mount.kind == "cgroup2" and Path(mount.path).name == "unified":
                    unified_tree()
                    libc.call("umount2", os.fsencode(mount.path), MNT_DETACH)
        # Pinned network namespaces would live on in this copy when they are given up outside.
        for mount in mounts:
            if mount.kind == "nsfs" and PINNED in mount.path:
                unmount(mount.path)
    except OSError as error:
        raise Unavailable(
            f"containers need a mount namespace of their own, and the kernel said: {error.strerror}; "
            "run the agent as root (sudo), and inside another container only with its CAP_SYS_ADMIN"
        ) from error


def unmount(path: str | Path) -> None:
    """Take a mount away, with what is below it; nothing happens to what is not mounted (any more). Raises OSError."""
    try:
        libc.call("umount2", os.fsencode(path), MNT_DETACH)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise


def unified_tree() -> Path | None:
    """Return a path to the cgroup2 tree that lies beside v1 controllers, for as long as this process runs; else None.

    Containers have a cgroup there, too: else one of them that gets at the tree would find itself at its root, where
    all of the host's processes can be ended.
    """
    if not _unified:
        for mount in current_mounts():
            if mount.kind == "cgroup2" and Path(mount.path).name == "unified":
                _unified.append((os.open(mount.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), mount.path))
                break
    return Path(f"/proc/{os.getpid()}/fd/{_unified[0][0]}") if _unified else None


def show_unified(cgroups_root: str) -> None:
    """Put our part of the cgroup2 tree, and nothing else of it, where the tree was taken out of this thread's view.

    Runtimes that find no such tree, crun among them, still make a container's cgroup there, and put it in. Without
    this those would be folders and files in a tmpfs of the host's, under the mount, where nobody sees them. Nothing
    happens where there was no tree. After `mount_host_root`, so that containers do not have it. Raises Unavailable.
    """
    if unified_tree() is None:
        return
    place = Path(_unified[0][1])
    try:
        libc.mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700,size=1m")
        (place / TREE).mkdir()
        libc.mount("cgroup2", place / TREE, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        first = cgroups_root.partition("/")[0]
        (place / first).symlink_to(f"{TREE}/{first}")
    except OSError as error:
        raise Unavailable(f"cannot show the cgroup2 tree at {place} to runtimes: {error.strerror}") from error


def first_mounts() -> int | None:
    """Return a descriptor of the mount namespace that this process was started in, None when the kernel gives none."""
    if not _first:
        try:
            _first.append(os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return None
    return _first[0]


def mount_host_root(path: Path) -> None:
    """Mount the host's file system at `path`, as root of every container without an image. Once per agent.

    /proc and /dev are left out, each container brings its own; /sys, with the cgroups in it, is read-only, so that no
    task moves itself out of its cgroup. Nothing happens when it is mounted already. Raises ContainerError when the
    mounts of this thread are shared with the host (enter_private_mounts was not called), or the kernel refuses.
    """
    path.mkdir(parents=True, exist_ok=True)
    mounts = current_mounts()
    if any(mount.path == str(path) for mount in mounts):
        return
    # The mount that `path` lies in is the one that would pass ours on to the host.
    around = max((m for m in mounts if path.is_relative_to(m.path)), key=lambda m: len(m.path))
    if around.shared:
        raise ContainerError(f"{around.path} is shared with the host: call enter_private_mounts() first")
    try:
        libc.mount("/", path, None, MS_BIND | MS_REC)
        libc.mount("none", path, None, MS_SLAVE | MS_REC)
        for name in ("proc", "dev"):
            if any(mount.path == str(path / name) for mount in current_mounts()):
                libc.call("umount2", os.fsencode(path / name), MNT_DETACH)
        _make_read_only(path / "sys")
    except OSError as error:
        raise ContainerError(f"cannot mount the host's file system at {path}: {error.strerror}") from error


def _make_read_only(path: Path) -> None:
    mounts = [mount for mount in current_mounts() if Path(mount.path).is_relative_to(path)]
    for mount in mounts:
        # Private first: a controller that the host mounts later must not appear here writable.
        libc.mount("none", mount.path, None, MS_PRIVATE)
        flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        libc.mount("none", mount.path, None, flags)


def _turn_chroot_into_mount() -> None:
    """Leave the chroot this thread is in, make its folder a mount, and come back.

    Joining one's own namespace makes its root the thread's root; a bind of a folder on itself is a mount.
    """
    here = Path.cwd()
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    namespace = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    try:
        libc.call("setns", namespace, CLONE_NEWNS)
        path = str(Path(f"/proc/thread-self/fd/{root}").readlink())
        libc.mount("none", "/", None, MS_REC | MS_SLAVE)
        libc.mount(path, path, None, MS_BIND | MS_REC)
        os.chroot(path)
        os.chdir(here)
    finally:
        os.close(root)
        os.close(namespace)
