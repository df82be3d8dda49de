"""Removes folders that were strangers' to fill: follows no link, enters no mount, however deep they are.

A folder is first renamed aside, so that its name is free at once and nobody finds it half removed. What lies deeper is
renamed up before it is looked into: the kernel refuses that for a mount, and no path becomes too long.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.container.host.beneath import open_beneath

ASIDE = ".gc"
"""Where folders wait for their removal, in the first folder of their path: always on the same disk."""
ASIDE_MODE = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NoFolderError(NotADirectoryError):
    """What was to be removed is a link or a file."""


@contextmanager
def folder_in(root: Path, path: str) -> Iterator[int]:
    """Open a folder below `root`, following no link on the way. Raises OSError."""
    around = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = open_beneath(around, path)
    finally:
        os.close(around)
    try:
        yield found
    finally:
        os.close(found)


def put_aside(root: Path, path: str) -> Path:
    """Rename a folder below `root` to where it waits for `remove`; return its new path.

    A link beside it that named it, such as `runs/latest`, goes too. Raises OSError, NoFolderError for a link.
    """
    parent, _, name = path.rpartition("/")
    aside = root / parent.partition("/")[0] / ASIDE
    aside.mkdir(mode=ASIDE_MODE, exist_ok=True)
    with folder_in(root, parent) as around:
        if not stat.S_ISDIR(os.stat(name, dir_fd=around, follow_symlinks=False).st_mode):
            raise NoFolderError(f"{root / path} is not a folder")
        new = aside / uuid.uuid4().hex
        _unlock(name, around)
        os.rename(name, new, src_dir_fd=around)
        try:
            if os.readlink("latest", dir_fd=around) == name:
                os.unlink("latest", dir_fd=around)
        except OSError:
            pass  # there is none, or it is no link
    return new


class Remover:
    """Removes what lies in an ASIDE folder. For a thread; `stop` makes it leave off soon."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def remove(self, folder: Path) -> OSError | None:
        """Remove a folder that was put aside, as far as that can be; return what first kept it from it.

        That is an InterruptedError when it was stopped.
        """
        problems: list[OSError] = []
        try:
            aside = os.open(folder.parent, _FOLDER)
        except OSError as error:
            return error
        try:
            waiting = [folder.name]
            while waiting:
                name = waiting.pop()
                try:
                    waiting += self._empty(aside, name, problems)
                    os.rmdir(name, dir_fd=aside)
                except InterruptedError as stopped:
                    return stopped
                except OSError as error:
                    problems.append(error)
        finally:
            os.close(aside)
        return problems[0] if problems else None

    def _empty(self, aside: int, name: str, problems: list[OSError]) -> list[str]:
        """Remove the files of a folder and put its folders beside it; return what those are called now."""
        moved: list[str] = []
        folder = os.open(name, _FOLDER, dir_fd=aside)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._stop.is_set():
                        raise InterruptedError(errno.EINTR, "stopped")
                    try:
                        if not entry.is_dir(follow_symlinks=False):
                            os.unlink(entry.name, dir_fd=folder)
                            continue
                        _unlock(entry.name, folder)
                        new = uuid.uuid4().hex
                        os.rename(entry.name, new, src_dir_fd=folder, dst_dir_fd=aside)
                        moved.append(new)
                    except InterruptedError:
                        raise
                    except OSError as error:
                        problems.append(OSError(error.errno, error.strerror, entry.name))
        finally:
            os.close(folder)
        return moved


def _unlock(name: str, around: int) -> None:
    """Let ourselves into a folder, and move it: what a task forbade its own user is for that user to allow again."""
    if os.geteuid() != 0:  # and root needs no leave, so nothing can be put in the folder's place to gain by it
        os.chmod(name, 0o700, dir_fd=around)


def left_aside(root: Path) -> list[Path]:
    """Return what an earlier process put aside below `root` and did not get to remove."""
    return [entry for aside in root.glob(f"*/{ASIDE}") if not aside.is_symlink() for entry in aside.iterdir()]
