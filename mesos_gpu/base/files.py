"""Files that are replaced whole, and names that outlive a power failure. Standard library only.

A reader, and a restart after a kill or a power failure, finds either the previous content or the new content of a file,
never a part of it: the content is written to a new file in the same folder, which then takes the name (rename(2)). With
`durable` the file is synced before it takes the name, and the folder after it, so that neither can be lost when the
call has returned. Without it, the file outlives the process but not the machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE, PUBLIC = 0o600, 0o644
"""Modes of files that only their owner reads, and of files that every user reads."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_whole(
    path: Path,
    data: bytes,
    *,
    mode: int | None = PRIVATE,
    owner: int | None = None,
    durable: bool = True,
    folder_mode: int | None = None,
) -> None:
    """Replace the content of the file `path` by `data`; see `replacing` for `mode`, `owner` and `durable`.

    If `folder_mode` is given, missing folders are created with it. Raises OSError; then the previous content is still
    in place, unless only the final sync of the folder failed.
    """
    new_names = [] if folder_mode is None else make_folders(path.parent, folder_mode)
    with replacing(path, mode=mode, owner=owner, durable=durable) as file:
        file.write(data)
    if durable:
        for folder in new_names:
            sync_folder(folder)


@contextmanager
def replacing(
    path: Path, *, mode: int | None = PRIVATE, owner: int | None = None, durable: bool = True
) -> Iterator[BinaryIO]:
    """Yield a file to write to; it takes the place of `path` when the block ends, and is removed if the block raises.

    `mode` None: the mode and the owner of the file that is replaced, PUBLIC if there is none. `owner` is a user id;
    None: this process's. Only the owner can read the file until it has its mode. If `path` is a symbolic link, the
    link is replaced, not the file that it points to. Raises OSError.
    """
    group = -1
    if mode is None:
        mode, owner, group = _attributes(path, owner)
    # Python's own `open` would follow a link, or write to a file, that another user had put there.
    with _renamed(path) as temporary, os.fdopen(os.open(temporary, _NEW_FILE, PRIVATE), "wb") as file:
        yield file
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), owner, group)
        os.fchmod(file.fileno(), mode)
        if durable:
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)


def _temporary(path: Path) -> Path:
    """Return an unused name in the same folder. It does not contain the name of `path`, which may have 255 bytes."""
    return path.with_name(f".{os.urandom(8).hex()}.tmp")


def _attributes(path: Path, owner: int | None) -> tuple[int, int | None, int]:
    """Return the mode, owner and group for the successor of `path`. Only root can give a file to another user."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return PUBLIC, owner, -1
    if owner is not None or os.geteuid() != 0:
        return stat.S_IMODE(found.st_mode), owner, -1
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


def link_whole(path: Path, target: str | Path) -> None:
    """Make `path` a symbolic link to `target`, in the place of what had that name. Raises OSError."""
    with _renamed(path) as temporary:
        temporary.symlink_to(target)


def hard_link_whole(path: Path, source: Path) -> None:
    """Make `path` another name of the file `source`, in the place of what had that name. Raises OSError."""
    with suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), source.stat()):
            return  # rename(2) would do nothing, and leave both names
    with _renamed(path) as temporary:
        temporary.hardlink_to(source)


@contextmanager
def _renamed(path: Path) -> Iterator[Path]:
    """Yield an unused name in the same folder; what the block puts there becomes `path`. An error names `path`."""
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and (named := _named(error, temporary, path)) is not None:
            raise named from error
        raise


def _named(error: OSError, temporary: Path, path: Path) -> OSError | None:
    """Return an error about the file that the caller named, in the place of one about its temporary name; else None."""
    if str(error.filename) == str(temporary):
        return OSError(error.errno, error.strerror, str(path))
    if str(error.filename2) == str(temporary):  # of a link: the first name is what it leads to
        return OSError(error.errno, error.strerror, error.filename, None, str(path))
    return None


def make_folders(folder: Path, mode: int = 0o777) -> list[Path]:
    """Create a folder and its missing parents with `mode`; return the folders that contain a new name.

    Raises OSError.
    """
    try:
        folder.mkdir(mode)
    except FileExistsError:
        return []
    except FileNotFoundError:
        return [*make_folders(folder.parent, mode), *make_folders(folder, mode)]
    return [folder.parent]


def private_folder(path: Path) -> None:
    """Create a folder that only its owner can enter; one that exists is closed for others. Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o7777 != 0o700:
        path.chmod(0o700)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a power failure. Raises OSError."""
    _sync(folder, os.O_DIRECTORY)


def sync_existing(paths: Iterable[Path]) -> None:
    """Make the content of files and the names in folders outlive a power failure; skip those that were removed.

    Raises OSError.
    """
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            _sync(path)


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_unfinished(name: str) -> bool:
    """Return whether a file with this name is being written by `replacing`, or was when a process was killed."""
    return name.startswith(".") and name.endswith(".tmp")
