"""The process that opens files of the host with a container's rights; `task_files` starts it. Standard library only.

It is started as root. It makes the folder ROOT its root, where there is no /proc and no /dev of the host, enters the
user namespace NAMESPACE and takes the user's numbers. After that the kernel decides what it can open. It then answers
each path that comes over CHANNEL: with OPENED and a descriptor, or with the reason why it opened nothing.

Only regular files are opened, and nothing of the kernel's own file systems. The path is looked up once, without opening
(O_PATH), so that opening a FIFO does not wait and opening a device has no effect.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import sys
from collections.abc import Sequence

OPENED = b"+"
MAX_PATH = 1 << 16
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 4, 8
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522

KERNEL_FILE_SYSTEMS = {
    "bpf": 0xCAFE4A11,
    "cgroup": 0x27E0EB,
    "cgroup2": 0x63677270,
    "configfs": 0x62656570,
    "debugfs": 0x64626720,
    "efivarfs": 0xDE5E81E4,
    "proc": 0x9FA0,
    "pstore": 0x6165676C,
    "securityfs": 0x73636673,
    "sysfs": 0x62656572,
    "tracefs": 0x74726163,
}
"""statfs(2), `f_type`, of the file systems that `sources.KERNEL` names."""

_libc = ctypes.CDLL(None, use_errno=True)


def main(words: Sequence[str]) -> None:
    """Run with the arguments CHANNEL ROOT NAMESPACE UID GID GROUPS OVERRIDES; the first three are descriptors.

    NAMESPACE is empty for the host's users; GROUPS are separated by commas; OVERRIDES is 1 for CAP_DAC_OVERRIDE.
    """
    channel = socket.socket(fileno=int(words[0]))
    own_descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fchdir(int(words[1]))
    os.chroot(".")
    os.close(int(words[1]))
    groups = [int(group) for group in words[5].split(",") if group]
    _become(words[2], int(words[3]), int(words[4]), groups, overrides=words[6] == "1")
    while path := channel.recv(MAX_PATH):
        try:
            opened = _open(path, own_descriptors)
        except OSError as error:
            channel.send((error.strerror or str(error)).encode())
            continue
        socket.send_fds(channel, [OPENED], [opened])
        os.close(opened)


def _become(namespace: str, uid: int, gid: int, groups: Sequence[int], *, overrides: bool) -> None:
    """Take the rights of a container's user, and no others."""
    if namespace:
        _check("setns", _libc.setns(int(namespace), CLONE_NEWUSER))
        os.close(int(namespace))
    _check("prctl", _libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    held = 1 << CAP_DAC_OVERRIDE if overrides else 0
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(held, held, 0, 0, 0, 0)
    _check("capset", _libc.capset(header, data))
    _check("prctl", _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))


def _open(path: bytes, own_descriptors: int) -> int:
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if _file_system(found) in KERNEL_FILE_SYSTEMS.values():
            raise OSError(errno.EINVAL, "it is on a file system of the kernel, of which each container has its own")
        # Opens what was looked at, with the kernel's check of permissions: a path could lead elsewhere by now.
        return os.open(str(found), os.O_RDONLY | os.O_CLOEXEC, dir_fd=own_descriptors)
    finally:
        os.close(found)


def _file_system(descriptor: int) -> int:
    answer = (ctypes.c_long * 64)()
    _check("fstatfs", _libc.fstatfs(descriptor, answer))
    return answer[0] & 0xFFFFFFFF


def _check(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
