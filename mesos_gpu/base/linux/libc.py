"""Calls of the C library and of the kernel that Python does not have. Each raises OSError if the kernel refuses.

`call` calls a function of the C library, `syscall` one of the kernel that older C libraries do not know, by its number.
System calls that were added since Linux 5.1 have the same number on every architecture.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, TypeAlias

Name: TypeAlias = "str | bytes | os.PathLike[str]"

CLONE_FS, CLONE_NEWNS, CLONE_NEWNET = 0x00000200, 0x00020000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 1 << 12, 1 << 14, 1 << 18, 1 << 19
MNT_DETACH = 2
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x100, 0x1000, 0x8000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH = 0x04, 0x40
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
MOUNT_ATTR_IDMAP = 0x100000
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_IN_ROOT = 0x02, 0x04, 0x08, 0x10
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
MCL_CURRENT, MCL_FUTURE = 1, 2
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _MountAttributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd"))


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def call(name: str, *arguments: Any) -> int:
    """Call a function that returns -1 and sets errno if it fails; return its result."""
    return _checked(name, getattr(_libc, name)(*map(_converted, arguments)))


def syscall(name: str, number: int, *arguments: Any) -> int:
    """Make a system call by its number; return its result. `name` is for the error message."""
    return _checked(name, _libc.syscall(ctypes.c_long(number), *map(_converted, arguments)))


def _converted(argument: Any) -> Any:
    # ctypes would pass a Python int as a C int, which is too short for flags, lengths and addresses.
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _checked(name: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def mount(source: Name, target: Name, kind: str | None, flags: int, options: Name | None = None) -> None:
    """Mount something, or change a mount: mount(2)."""
    data = None if options is None else os.fsencode(options)
    call("mount", os.fsencode(source), os.fsencode(target), None if kind is None else kind.encode(), flags, data)


def open_tree(folder: int, path: bytes, flags: int) -> int:
    """Return a descriptor of a mount, or with OPEN_TREE_CLONE of a new one that is attached nowhere: open_tree(2)."""
    return syscall("open_tree", _OPEN_TREE, folder, path, flags)


def move_mount(mount_tree: int, folder: int, path: bytes, flags: int) -> None:
    """Attach the open tree of a mount at a path below a folder: move_mount(2)."""
    syscall("move_mount", _MOVE_MOUNT, mount_tree, b"", folder, path, flags | MOVE_MOUNT_F_EMPTY_PATH)


def set_mount_attributes(folder: int, path: bytes, flags: int, *, attributes: int, user_namespace: int = 0) -> None:
    """Add attributes to a mount: mount_setattr(2), since Linux 5.12."""
    wanted = _MountAttributes(attributes, 0, 0, user_namespace)
    syscall("mount_setattr", _MOUNT_SETATTR, folder, path, flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def openat2(folder: int, path: str, flags: int, mode: int = 0, *, resolve: int) -> int:
    """Open a path below an open folder, restricted by RESOLVE flags: openat2(2), since Linux 5.6."""
    how = _OpenHow(flags, mode if flags & os.O_CREAT else 0, resolve)
    while True:
        try:
            name = os.fsencode(path or ".")
            return syscall("openat2", _OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how))
        except OSError as error:
            # EAGAIN: something was renamed meanwhile, so that the kernel cannot tell; openat2(2) says to try again.
            if error.errno not in (errno.EINTR, errno.EAGAIN):
                raise OSError(error.errno, os.strerror(error.errno or 0), path) from None


def change_owner(descriptor: int, uid: int, gid: int) -> None:
    """Change the owner of what is open by O_PATH, which fchown(2) refuses: fchownat(2)."""
    call("fchownat", descriptor, b"", uid, gid, AT_EMPTY_PATH)


def sync_file_system(descriptor: int) -> None:
    """Write everything on the file system of an open file or folder to its disk: syncfs(2)."""
    call("syncfs", descriptor)


def end_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends: prctl(2), PR_SET_PDEATHSIG."""
    call("prctl", PR_SET_PDEATHSIG, signal_number)


def return_free_memory() -> None:
    """Return memory that this process has freed to the system; nothing happens with a C library other than glibc."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
