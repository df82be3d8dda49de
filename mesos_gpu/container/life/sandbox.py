"""The files of a sandbox that a container writes to."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from mesos_gpu.container.host.beneath import folder_at, give, make_folders, open_beneath
from mesos_gpu.container.host.sources import Source
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.container.spec.user_namespace import Numbers, on_the_host, own
from mesos_gpu.errors import BadInput, ContainerError

SHOWN, SANDBOX = "shown", "sandbox"
"""Where in a bundle sources of volumes are held while the runtime mounts them, and the sandbox of one in an image."""


def open_output(path: Path, user: HostUser, *, root: Path | None = None) -> int:
    """Open `path` for appending, made if need be, owned by `user`, and return the descriptor.

    Nothing is followed below `root`, by default the folder that the file is in. The sandbox is the user's to change, so
    a link there must not lead us, who are root, elsewhere, and a file that was there and is another's is not given
    away: it may be the second name of a file of the host. Raises ContainerError when it is not a regular file.
    """
    around = path.parent if root is None else root
    try:
        with folder_at(around, str(path.parent.relative_to(around))) as folder:
            return _open_output(folder, path.name, user)
    except OSError as error:
        kind = "a link" if error.errno == errno.ELOOP else error.strerror
        raise ContainerError(f"cannot write the container's output to {path}: {kind}") from error


def _open_output(folder: int, name: str, user: HostUser) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd, new = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder), True
    except FileExistsError:
        fd, new = os.open(name, flags, dir_fd=folder), False
    try:
        os.set_blocking(fd, True)
        found, where = os.fstat(fd), os.fstat(folder)
        ours = where.st_uid == os.geteuid() and not where.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_nlink > 1 or not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EPERM, "not a file of its own")
        if (found.st_uid, found.st_gid) != (user.uid, user.gid):
            if not new and not ours:
                raise OSError(errno.EPERM, "it belongs to another user")
            os.fchown(fd, user.uid, user.gid)
    except BaseException:
        os.close(fd)
        raise
    return fd


def own_sandbox(path: Path, user: HostUser) -> None:
    """Give a folder, itself no link, to whom the container runs as. Raises ContainerError."""
    try:
        entry = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(entry)
            if (found.st_uid, found.st_gid) != (user.uid, user.gid):
                os.fchown(entry, user.uid, user.gid)
        finally:
            os.close(entry)
    except OSError as error:
        raise ContainerError(f"cannot give {path} to user {user.uid}: {error.strerror}") from error


def own_all(folder: Path, user: HostUser, *, root: Path | None = None) -> None:
    """Give a folder and all in it to a user; no link is followed below `root`, by default itself.

    Raises ContainerError.
    """
    around = folder if root is None else root
    try:
        with folder_at(around, str(folder.relative_to(around))) as opened:
            give(opened, user)
    except OSError as error:
        raise ContainerError(f"cannot give {folder} to user {user.uid}: {error.strerror}") from error


def own_ways(config: ContainerConfig, user: HostUser, root: Path) -> None:
    """Give to whom a container writes as the agent's own folders below `root` that lead to its sandbox and volumes.

    In a user namespace what is the host's root's is nobody's, and nobody gets in. Only folders are given, and none that
    a link leads to: a task has none of root's, and cannot give a folder a second name. Raises ContainerError.
    """
    ends = (config.sandbox, *(config.sandbox / volume.source for volume in config.volumes))
    ways = dict.fromkeys(way for end in ends for way in (*reversed(end.parents), end) if way.is_relative_to(root))
    for way in ways:
        if way == root:
            continue
        try:
            with folder_at(root, str(way.relative_to(root))) as folder:
                if os.fstat(folder).st_uid == os.geteuid():
                    os.fchown(folder, user.uid, user.gid)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # said where it is mounted
                raise ContainerError(f"cannot give {way} to user {user.uid}: {error.strerror}") from error


def check_sandbox(path: Path, roots: Sequence[Path]) -> None:
    """Raise BadInput unless a sandbox is a folder that no link leads to from where tasks may write."""
    try:
        with folder_at(*_root_of(path, roots)):
            pass
    except OSError as error:
        raise BadInput(f"the sandbox {path} is not a folder: {error.strerror}") from error


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


def prepare_volumes(config: ContainerConfig, user: HostUser, roots: Sequence[Path] = ()) -> None:
    """See to it that what volumes show in the sandbox is there, and that no link leads there or to where they are put.

    `roots` are folders that tasks of its family may write to, the one around the sandbox among them; by default it is
    the sandbox. Raises BadInput, ContainerError.
    """
    root, inside = _root_of(config.sandbox, roots or (config.sandbox,))
    for volume in config.volumes:
        try:
            with folder_at(root, inside) as sandbox:
                if not volume.source.startswith("/") and not _is_there(sandbox, volume.source):
                    make_folders(sandbox, volume.source, user)
                if not volume.destination.startswith("/"):
                    _is_there(sandbox, volume.destination)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
                raise BadInput(
                    f"a volume from {volume.source} to {volume.destination}: a link is in its way, which leads out of "
                    "the sandbox or may do so at any moment"
                ) from error
            raise ContainerError(f"cannot make the volume {volume.source} in the sandbox: {error.strerror}") from error
        if volume.owned and not volume.in_use:
            own_sandbox(config.sandbox / volume.source, user)


def _is_there(folder: int, path: str) -> bool:
    """Return whether a path is in an open folder. Raises OSError for one that a link is in."""
    try:
        os.close(open_beneath(folder, path, os.O_PATH))
    except FileNotFoundError:
        return False
    return True


def _root_of(path: Path, roots: Sequence[Path]) -> tuple[Path, str]:
    """Return which of `roots` a path lies in, and its path from there."""
    root = next(root for root in roots if path.is_relative_to(root))
    return root, str(path.relative_to(root))


def sources(
    config: ContainerConfig, bundle: Path, roots: Sequence[Path], user: HostUser, ids: Numbers | None
) -> tuple[ContainerConfig, dict[Path, Source]]:
    """Return the container with every source of a volume, and its sandbox where it is mounted, in its bundle.

    And what has to be held at those places. `roots` as for `prepare_volumes`. In a user namespace of these `ids` all in
    the task's own folders is its users'; of the host's files what is the `user`'s, as whom it runs here.
    """
    around = roots or (config.sandbox,)
    held: dict[Path, Source] = {}
    volumes = []
    for number, volume in enumerate(config.volumes):
        path = config.sandbox / volume.source
        root = next((root for root in around if path.is_relative_to(root)), path.parent if volume.owned else None)
        seen = None if ids is None else on_the_host(user, ids) if root is None else own(user, ids)
        held[bundle / SHOWN / str(number)] = Source(path, root, volume.read_only, seen)
        volumes.append(replace(volume, source=str(bundle / SHOWN / str(number))))
    if config.image is not None or ids is not None:
        seen = None if ids is None else own(user, ids)
        held[bundle / SHOWN / SANDBOX] = Source(
            shown_folder(config, around), _root_of(config.sandbox, around)[0], ids=seen
        )
    return replace(config, volumes=tuple(volumes)), held


def shown_folder(config: ContainerConfig, roots: Sequence[Path]) -> Path:
    """Return which folder is mounted for a container to have its sandbox.

    On the host's files in a user namespace a nested one needs its family's whole, of which `roots` are: that folder is
    closed to who has its numbers elsewhere, so that nothing below it could be mounted on.
    """
    return config.sandbox if config.image is not None else _root_of(config.sandbox, roots)[0]
