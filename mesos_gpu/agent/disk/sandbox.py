"""A task's sandbox: the folder it starts in, with its stdout and stderr. Source: Mesos src/slave/paths.cpp."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.agent.disk.checkpoints import LATEST
from mesos_gpu.agent.disk.removal import Remover, put_aside
from mesos_gpu.base.files import link_whole
from mesos_gpu.container.host.beneath import folder_at, make_folders, open_beneath
from mesos_gpu.container.host.users import HostUser, find_user
from mesos_gpu.errors import BadInput, ContainerError

log = logging.getLogger(__name__)

SANDBOX_MODE = 0o750
FILES = ("stdout", "stderr")


def make_sandbox(path: Path, user: str | None) -> None:
    """Make the sandbox of a run, its two files, and the link `latest` beside it; `user` owns them.

    The folder is given away last, and by what was opened: until then nobody else can change what is in it. Raises
    BadInput for a user that this host does not know, ContainerError when the folder cannot be made.
    """
    owner = find_user(user)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
        with folder_at(path) as folder:
            for name in FILES:
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
                try:
                    os.fchmod(file, 0o644)  # whatever the umask
                    os.fchown(file, owner.uid, owner.gid)
                finally:
                    os.close(file)
            os.fchmod(folder, SANDBOX_MODE)
            os.fchown(folder, owner.uid, owner.gid)
        link_whole(path.parent / LATEST, path.name)
    except OSError as error:
        raise ContainerError(f"cannot make the sandbox {path}: {error.strerror}") from None


def make_nested_sandbox(sandbox: Path, root: Path, shown: Sequence[tuple[Path, Path]], user: str | None) -> bool:
    """Make the sandbox of a container that the API launches, below `root`; return whether it is new.

    `shown` are folders of its parent's that it sees, each with the one around it that tasks may write to: those that
    are missing are made, and belong to `user`. No link is followed below those and below `root`. Raises BadInput for
    a link and a user that this host does not know, ContainerError.
    """
    owner = find_user(user)
    path = sandbox
    try:
        for path, home in shown:
            with folder_at(home) as folder:
                _make_missing(folder, str(path.relative_to(home)), owner)
        path = sandbox
        with folder_at(root) as folder:
            return make_folders(folder, str(sandbox.relative_to(root)), owner, SANDBOX_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
            raise BadInput(
                f"{path} leads out of the folder that it is to be in, or may: a link is in its way"
            ) from None
        raise ContainerError(f"cannot make {path}: {error.strerror}") from None


def _make_missing(folder: int, path: str, owner: HostUser) -> None:
    """Make a folder unless something, say a file, is there already."""
    try:
        os.close(open_beneath(folder, path, os.O_PATH))
    except FileNotFoundError:
        make_folders(folder, path, owner)


def remove_sandbox(work_dir: Path, path: Path) -> None:
    """Remove a sandbox below `work_dir`, whatever its task puts in its way; what cannot be removed stays."""
    try:
        aside = put_aside(work_dir, str(path.relative_to(work_dir)))
    except OSError:
        return
    Remover(threading.Event()).remove(aside)


def say_in_sandbox(sandbox: Path, line: str) -> None:
    """Add a line to a task's `stderr`, for it to read and for people; a file that is not there is not made.

    What the task has put in its place is not followed, nor waited for.
    """
    try:
        with folder_at(sandbox) as folder:
            file = open_beneath(folder, "stderr", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        log.debug("%s cannot be reported in its sandbox: %s", sandbox, error)
        return
    try:
        os.write(file, f"{line}\n".encode())
    except OSError as error:
        log.debug("%s cannot be reported in its sandbox: %s", sandbox, error)
    finally:
        os.close(file)
