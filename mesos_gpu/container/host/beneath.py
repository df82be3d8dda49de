"""Opening, making and giving away what lies in a folder that a task may change at any moment.

Between a look at a path and its use a task can put a link in the place of a folder. So a path is looked up once, with
no link followed below a folder that is ours, and everything after that is done to what was opened: openat2(2) with
RESOLVE_NO_SYMLINKS where the kernel has it (Linux 5.6), else folder by folder with O_NOFOLLOW.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.libc import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
from mesos_gpu.container.host.users import HostUser

_RESOLVE = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_MODE, PRIVATE = 0o755, 0o700


class _Kernel:
    """What this kernel can; tests take it away."""

    has_openat2 = True


def open_beneath(folder: int, path: str, flags: int = FOLDER, mode: int = 0) -> int:
    """Open `path`, relative, below the open `folder`, following no link at all; the caller closes what is returned.

    Raises OSError: ELOOP or ENOTDIR for a link on the way, EXDEV for a path that leads upwards.
    """
    found = _open(folder, path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    if stat.S_ISLNK(os.fstat(found).st_mode):  # O_PATH opens a link itself
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return found


def _open(folder: int, path: str, flags: int, mode: int) -> int:
    if _Kernel.has_openat2:
        try:
            return libc.openat2(folder, path, flags, mode, resolve=_RESOLVE)
        except OSError as error:
            # EPERM: the filters of containers that an agent may run in refuse calls that they do not know.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
            _Kernel.has_openat2 = False
    return _walk(folder, path, flags, mode)


def _walk(folder: int, path: str, flags: int, mode: int) -> int:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.dup(folder)
    try:
        for part in parts[:-1]:
            inner = os.open(part, FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(parts[-1] if parts else ".", flags, mode, dir_fd=at)
    finally:
        os.close(at)


@contextmanager
def folder_at(root: Path, path: str = "") -> Iterator[int]:
    """Open the folder `path` below `root`, which is ours; yields its descriptor. Raises OSError."""
    around = os.open(root, FOLDER)
    try:
        found = open_beneath(around, path) if path else os.dup(around)
    finally:
        os.close(around)
    try:
        yield found
    finally:
        os.close(found)


def make_folders(folder: int, path: str, owner: HostUser, mode: int = FOLDER_MODE) -> bool:
    """Make the folder `path` below the open `folder`, with those above it that are missing, all of them the `owner`'s.

    Returns whether the last one is new; one that was there keeps its owner and mode. Raises OSError, also for a link
    on the way and for what is there and no folder.
    """
    at, made = os.dup(folder), False
    try:
        for part in (part for part in path.split("/") if part):
            made = False
            try:
                # Nobody but us gets in before it has its owner.
                os.mkdir(part, 0o700, dir_fd=at)
                made = True
            except FileExistsError:
                pass
            inner = open_beneath(at, part)
            os.close(at)
            at = inner
            if made:
                _take(at)
                os.fchmod(at, mode)
                os.fchown(at, owner.uid, owner.gid)
    finally:
        os.close(at)
    return made


def _take(folder: int) -> None:
    """Refuse a folder that another has put in the place of the one we just made: that one is ours, and empty."""
    if os.fstat(folder).st_uid != os.geteuid() or os.listdir(folder):
        raise OSError(errno.EEXIST, "another folder took the place of the one that was made")


def give(folder: int, owner: HostUser) -> None:
    """Give an open folder and all in it to a user; links are given and not followed.

    A file with a second name stays whose it is, unless all its names are in here: the other may be a file of the host.
    The folder itself comes last, so that one that is ours alone stays so until all is done. Raises OSError.
    """
    names: Counter[tuple[int, int]] = Counter()
    for entry in _entries(folder):
        found = os.fstat(entry)
        if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1:
            libc.change_owner(entry, owner.uid, owner.gid)
        else:
            names[found.st_dev, found.st_ino] += 1
    if names:
        for entry in _entries(folder):
            found = os.fstat(entry)
            if not stat.S_ISDIR(found.st_mode) and found.st_nlink == names[found.st_dev, found.st_ino]:
                libc.change_owner(entry, owner.uid, owner.gid)
    os.fchown(folder, owner.uid, owner.gid)


def _entries(folder: int) -> Iterator[int]:
    """Yield what is in a folder, at any depth, opened as what it is (O_PATH): no link leads anywhere."""
    for _, folders, files, around in os.fwalk(".", dir_fd=folder):
        for name in (*folders, *files):
            try:
                entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=around)
            except FileNotFoundError:
                continue
            try:
                yield entry
            finally:
                os.close(entry)
