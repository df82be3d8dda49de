"""Puts nodes and files into the root of a container that is being made, by descriptors and never by name.

An image, or a container that shares a volume, may have put a link anywhere, and may put one there at any moment. So
every path is looked up once, with openat2(2) in the container's root, and mounts go on what was opened: a link leads
nowhere but into the container (CVE-2024-0132, CVE-2025-23359). No program of the image is run, nor ldconfig on its
files (CVE-2025-23266, CVE-2025-23267).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesos_gpu.base.linux import libc
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.driver_files import stem, wanted_binaries, wanted_libraries
from mesos_gpu.isolator.live_access import make_node

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")
"""Where the loader looks without being told, and without a cache."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A file or folder of the host, and where the container is to see it, read-only."""

    source: Path
    destination: str


def inject(
    pid: int, root: Path, nodes: Sequence[DeviceNode], shown: Sequence[Shown], capabilities: Sequence[str]
) -> None:
    """Make `nodes` in the container's /dev and show it the driver's files, before its first program runs.

    `pid` is its first process, which has made its mounts and not yet entered its `root`. What is `shown` is at its
    place; the programs and libraries of `capabilities` in it are also where programs look without being told. This
    process is in the container's mounts afterwards. Raises ContainerError.
    """
    try:
        with ExitStack() as closing:
            host_dev = Path("/dev").stat()
            trees = [(_tree(one.source, closing), one) for one in shown]
            files = [
                (_tree(source, closing), source.name, library)
                for one in shown
                for source, library in _usual(one.source, capabilities)
            ]
            _enter_mounts(pid)
            top = os.open(root, _FOLDER)
            closing.callback(os.close, top)
            dev = _open(top, "dev", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            closing.callback(os.close, dev)
            if (os.fstat(dev).st_dev, os.fstat(dev).st_ino) == (host_dev.st_dev, host_dev.st_ino):
                raise ContainerError("the container has the host's /dev; nodes are not made there")
            for node in nodes:
                make_node(dev, node)
            for tree, one in trees:
                _attach(tree, _folder(top, one.destination, closing))
            libraries = next((name for name in LIBRARY_FOLDERS if _is_folder(top, name)), None)
            for tree, name, library in files:
                folder = libraries if library else "usr/bin"
                target = None if folder is None else _file(_folder(top, folder, closing), name, closing)
                if target is not None:
                    _attach(tree, target)
    except OSError as error:
        raise ContainerError(f"cannot give the container of process {pid} its devices and files: {error}") from error


def nodes_of(devices: Sequence[Mapping[str, Any]]) -> list[DeviceNode]:
    """Return nodes as the agent writes them."""
    return [
        DeviceNode(node["path"], node["major"], node["minor"], node["mode"], node["uid"], node["gid"])
        for node in devices
    ]


def _usual(volume: Path, capabilities: Sequence[str]) -> list[tuple[Path, bool]]:
    """Return the programs and (True) libraries of a driver volume that these capabilities want."""
    libraries, programs = wanted_libraries(capabilities), wanted_binaries(capabilities)
    found = [(path, False) for name in programs if (path := volume / "bin" / name).is_file()]
    folder = volume / "lib64"
    if folder.is_dir():
        found += [(path, True) for path in sorted(folder.iterdir()) if stem(path.name) in libraries and path.is_file()]
    return found


def _tree(source: Path, closing: ExitStack) -> int:
    """Return a mount of `source` that is nowhere yet, read-only."""
    flags = libc.OPEN_TREE_CLONE | libc.OPEN_TREE_CLOEXEC | libc.AT_RECURSIVE
    tree = libc.open_tree(libc.AT_FDCWD, os.fsencode(source), flags)
    closing.callback(os.close, tree)
    attributes = libc.MOUNT_ATTR_RDONLY | libc.MOUNT_ATTR_NOSUID | libc.MOUNT_ATTR_NODEV
    libc.set_mount_attributes(tree, b"", libc.AT_EMPTY_PATH | libc.AT_RECURSIVE, attributes=attributes)
    return tree


def _attach(tree: int, target: int) -> None:
    libc.move_mount(tree, target, b"", libc.MOVE_MOUNT_T_EMPTY_PATH)


def _enter_mounts(pid: int) -> None:
    namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc.call("setns", namespace, libc.CLONE_NEWNS)
    finally:
        os.close(namespace)


def _open(top: int, path: str, flags: int) -> int:
    """Open a path in the container's root: its links lead where they would lead inside."""
    return libc.openat2(top, path, flags, resolve=libc.RESOLVE_NO_MAGICLINKS | libc.RESOLVE_IN_ROOT)


def _is_folder(top: int, path: str) -> bool:
    try:
        os.close(_open(top, path, _FOLDER))
    except OSError:
        return False
    return True


def _folder(top: int, path: str, closing: ExitStack) -> int:
    """Return a folder in the container's root, made where it is missing."""
    so_far, around = "", top
    for part in (part for part in path.split("/") if part):
        so_far = f"{so_far}/{part}"
        try:
            found = _open(top, so_far, _FOLDER)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=_readable(around, closing))
            found = _open(top, so_far, _FOLDER)
        closing.callback(os.close, found)
        around = found
    return around


def _file(folder: int, name: str, closing: ExitStack) -> int | None:
    """Return a file to be covered, made where it is missing; None where the image has no plain file of that name."""
    inside = _readable(folder, closing)
    try:
        os.close(
            os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=inside)
        )
    except FileExistsError:
        pass
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    closing.callback(os.close, found)
    return found if stat.S_ISREG(os.fstat(found).st_mode) else None


def _readable(folder: int, closing: ExitStack) -> int:
    """Return the very folder that is open by O_PATH, open for making entries."""
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    closing.callback(os.close, opened)
    return opened
