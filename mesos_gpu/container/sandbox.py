"""The files of a sandbox that a container writes to."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mesos_gpu.container.users import HostUser
from mesos_gpu.errors import ContainerError


def open_output(path: Path, user: HostUser) -> int:
    """Open `path` for appending, made if need be, owned by `user`, and return the descriptor.

    Raises ContainerError when it is no regular file. The sandbox is the user's to change, so a link there must not
    lead us, who are root, elsewhere.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o644)
    except OSError as error:
        kind = "a link" if error.errno == errno.ELOOP else error.strerror
        raise ContainerError(f"cannot write the container's output to {path}: {kind}") from error
    try:
        os.set_blocking(fd, True)
        found = os.fstat(fd)
        if found.st_nlink > 1 or not path.is_file():
            raise ContainerError(f"cannot write the container's output to {path}: not a file of its own")
        if (found.st_uid, found.st_gid) != (user.uid, user.gid):
            os.fchown(fd, user.uid, user.gid)
    except BaseException:
        os.close(fd)
        raise
    return fd
