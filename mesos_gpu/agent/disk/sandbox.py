"""A task's sandbox: the folder it starts in, with its stdout and stderr. Source: Mesos src/slave/paths.cpp."""

from __future__ import annotations

import os
from pathlib import Path

from mesos_gpu.agent.disk.checkpoints import point_latest
from mesos_gpu.container.host.users import find_user
from mesos_gpu.errors import ContainerError

SANDBOX_MODE = 0o750
FILES = ("stdout", "stderr")


def make_sandbox(path: Path, user: str | None) -> None:
    """Make the sandbox of a run, its two files, and the link `latest` beside it; `user` owns them.

    Raises BadInput for a user that this host does not know, ContainerError when the folder cannot be made.
    """
    owner = find_user(user)
    try:
        path.mkdir(parents=True, mode=SANDBOX_MODE)
        path.chmod(SANDBOX_MODE)  # whatever the umask
        for name in FILES:
            (path / name).touch(mode=0o644)
        if owner.uid != os.geteuid():
            for entry in (path, *(path / name for name in FILES)):
                os.chown(entry, owner.uid, owner.gid)
        point_latest(path.parent, path.name)
    except OSError as error:
        raise ContainerError(f"cannot make the sandbox {path}: {error.strerror}") from None
