"""The files of a sandbox that a container writes to."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.errors import BadInput, ContainerError


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


def own_sandbox(path: Path, user: HostUser) -> None:
    """Give a sandbox, or a volume, to whom the container runs as, who is known only when its image is.

    Raises ContainerError.
    """
    try:
        found = path.stat()
        if (found.st_uid, found.st_gid) != (user.uid, user.gid):
            os.chown(path, user.uid, user.gid)
    except OSError as error:
        raise ContainerError(f"cannot give {path} to user {user.uid}: {error.strerror}") from error


def own_all(folder: Path, user: HostUser) -> None:
    """Give a folder and all in it to a user; links are given, not followed. Raises ContainerError."""
    try:
        # fwalk enters no link that takes a folder's place meanwhile.
        for _, folders, files, descriptor in os.fwalk(folder):
            for name in (*folders, *files):
                os.chown(name, user.uid, user.gid, dir_fd=descriptor, follow_symlinks=False)
        os.chown(folder, user.uid, user.gid)
    except OSError as error:
        raise ContainerError(f"cannot give {folder} to user {user.uid}: {error.strerror}") from error


def place_secrets(config: ContainerConfig, bundle: Path) -> ContainerConfig:
    """Write the container's secrets into its bundle, which only root sees; return it with volumes that show them.

    They go with the bundle. Raises OSError.
    """
    folder = bundle / "secrets"
    volumes = []
    for number, secret in enumerate(config.secrets):
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / str(number)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret.content)
        volumes.append(Volume(str(path), secret.destination, read_only=True, owned=True))
    return replace(config, volumes=(*config.volumes, *volumes), secrets=())


def prepare_volumes(config: ContainerConfig, user: HostUser) -> None:
    """See to it that what volumes show is there: the host's must be, those in the sandbox are made.

    The sandbox is new, and nothing of the container's runs yet; but what was fetched into it may have links, and none
    of them leads a volume elsewhere. Raises BadInput, ContainerError.
    """
    home = config.sandbox.resolve()
    for volume in config.volumes:
        source = config.sandbox / volume.source
        for path in (source, config.sandbox / volume.destination):
            if path.is_relative_to(config.sandbox) and not path.resolve().is_relative_to(home):
                raise BadInput(f"{path} is a link that leads out of the sandbox, and was to be a volume")
        try:
            if source.is_relative_to(config.sandbox) and not source.exists():
                source.mkdir(parents=True)
                os.chown(source, user.uid, user.gid)
        except OSError as error:
            raise ContainerError(f"cannot make the volume {volume.source} in the sandbox: {error.strerror}") from error
        if volume.owned and not volume.in_use:
            own_sandbox(source, user)
        if not source.exists():
            raise BadInput(f"this host has no {volume.source}, which was to be a volume at {volume.destination}")
