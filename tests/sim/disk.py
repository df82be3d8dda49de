"""Disks that lose what was not synced when the power goes, and processes that die between two writes.

Files are real ones, in a folder for each host. What has to be known beside them is what a disk would have kept: the
content of a file at its last fsync, and the names in a folder at the folder's. A process that is killed loses nothing
that it has written (the page cache is the kernel's); a host whose power goes loses each thing that was not synced, or
keeps it, as chance has it. A name that was removed is there again, unless its folder was synced since; what was renamed
has its new name or its old one.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.sim.world import PROCESS, Killed

if TYPE_CHECKING:
    from tests.sim.world import World


_SQLITE = (".db", ".db-wal", ".db-shm", ".db-journal")


class _Name(NamedTuple):
    """What a name in a folder is of."""

    inode: int
    kind: str | None
    """Where a symbolic link leads to; nothing for a folder, None for a file."""


def _kind_of(entry: os.DirEntry[str]) -> str | None:
    if entry.is_symlink():
        return str(Path(entry.path).readlink())
    return "" if entry.is_dir() else None


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (it is read in a third of a Path's time)
        return file.read()


def _look(folder: str, mtimes: dict[str, int], inodes: set[int]) -> None:
    """Add when each folder from this one down was changed, in ns, and which files and folders are in them."""
    mtimes[folder] = os.lstat(folder).st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            inodes.add(entry.inode())
            if entry.is_dir(follow_symlinks=False):
                _look(entry.path, mtimes, inodes)


class Disk:
    """The files of one host, below `root`; those below `volatile` are in memory only, as /run is."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root = world, root
        self.volatile = root / "run"
        self.refuse: Callable[[str], None] | None = None
        """Asked before each change, by the name of the call; raises OSError where the disk fails. None: all is well."""
        self.refused_s = -inf
        """When it failed a change last, by the world's time."""
        self._contents: dict[int, bytes] = {}
        self._folders: dict[str, tuple[int, dict[str, _Name]]] = {}
        """By path, the number and the names of each folder, as they were when it was synced."""
        root.mkdir(parents=True)

    def synced(self, path: str) -> None:
        """Take note that a file, or the names in a folder, are on the disk."""
        try:
            found = os.lstat(path)
        except OSError:
            return
        if stat.S_ISDIR(found.st_mode):
            names = {entry.name: _Name(entry.inode(), _kind_of(entry)) for entry in os.scandir(path)}
            self._folders[path] = (found.st_ino, names)
        elif stat.S_ISREG(found.st_mode):
            self._contents[found.st_ino] = _content(path)

    def power_cut(self) -> None:
        """Lose what a disk would lose."""
        root, before, there = str(self.root), dict[str, int](), set[int]()
        changed_ns = os.lstat(root).st_mtime_ns
        shutil.rmtree(self.volatile, ignore_errors=True)
        _look(root, before, there)
        before[root] = changed_ns
        lost: set[int] = set()
        removed: list[tuple[str, _Name]] = []
        self._lose(root, lost, removed)
        for path, name in removed:
            # What was renamed has one of its names; what was removed may be there again.
            if name.inode in lost or (name.inode not in there and self._chance(0.5)):
                self._bring_back(Path(path), name)
        for folder, _, _ in os.walk(root):
            if folder in before:
                os.utime(folder, ns=(before[folder],) * 2)
        self._took_note()

    def replaced(self) -> None:
        """It is another disk, with nothing on it."""
        for entry in self.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self._took_note()

    def _took_note(self) -> None:
        """What is there now is on the disk, and nothing else."""
        self._contents.clear()
        self._folders.clear()
        for folder, _, files in os.walk(self.root):
            self.synced(folder)
            for name in files:
                self.synced(f"{folder}/{name}")

    def _names_of(self, folder: str, inode: int) -> dict[str, _Name]:
        """Return the names in a folder that are on the disk; another folder at this place had others."""
        known, names = self._folders.get(folder, (0, {}))
        return names if known == inode else {}

    def _lose(self, folder: str, lost: set[int], removed: list[tuple[str, _Name]]) -> None:
        """Lose what is in a folder; add to `lost` what is, and to `removed` the names that it has had on the disk."""
        synced = self._names_of(folder, os.lstat(folder).st_ino)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        gone = synced.keys() - {entry.name for entry in entries}
        removed += [
            (f"{folder}/{name}", synced[name])
            for name in sorted(gone)
            if not name.endswith(_SQLITE) and f"{folder}/{name}" != str(self.volatile)
        ]
        for entry in entries:
            path = entry.path
            if entry.name.endswith(_SQLITE):
                continue  # SQLite syncs by itself, and SQLite's own tests try its promises
            before = synced.get(entry.name)
            if (before is None or before.inode != entry.inode()) and self._chance(0.5):
                # Its name was not synced: it may be gone, or the file that had the name before be back.
                lost.add(entry.inode())
                was = None if before is None else self._contents.get(before.inode)
                shutil.rmtree(path) if entry.is_dir(follow_symlinks=False) else Path(path).unlink()
                if was is not None:
                    Path(path).write_bytes(was)
                continue
            if entry.is_dir(follow_symlinks=False):
                self._lose(path, lost, removed)
            elif entry.is_file(follow_symlinks=False):
                self._cut_short(path, entry.inode())

    def _bring_back(self, path: Path, name: _Name) -> None:
        """A name that was removed is there again, with what the disk has of it; of a folder, with some of its names."""
        if not path.parent.is_dir() or os.path.lexists(path):
            return
        self.world.tell(self.root.name, f"{path} is there again")
        if name.kind is None:
            path.write_bytes(self._contents.get(name.inode, b""))
        elif name.kind:
            path.symlink_to(name.kind)
        else:
            path.mkdir()
            for inner, known in sorted(self._names_of(str(path), name.inode).items()):
                if self._chance(0.5):
                    self._bring_back(path / inner, known)

    def _cut_short(self, path: str, inode: int) -> None:
        data, synced = _content(path), self._contents.get(inode)
        if data == synced or self._chance(0.5):
            return
        least = len(synced) if synced is not None and data.startswith(synced) else 0
        Path(path).write_bytes(data[: self.world.random.randint(least, len(data))])

    def _chance(self, probability: float) -> bool:
        return self.world.random.random() < probability


def install() -> None:
    """Count what processes write, and take note of what they sync. For good: this program does nothing else."""
    real_open, real_fsync, real_utime = os.open, os.fsync, os.utime

    def open_(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if not (flags & (os.O_WRONLY | os.O_RDWR) and flags & os.O_CREAT):
            return real_open(path, flags, *args, **more)
        step("open")
        new = PROCESS.get() is not None and not _is_there(path, more.get("dir_fd"))
        descriptor = real_open(path, flags, *args, **more)
        if new:
            _touch(_around(path), more.get("dir_fd"))
        return descriptor

    def fsync(descriptor: int) -> None:
        process = PROCESS.get()
        if process is None:
            real_fsync(descriptor)
            return
        step("fsync")
        process.host.disk.synced(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 (as above)

    def utime(path: Any, times: Any = None, **more: Any) -> None:
        process = PROCESS.get()
        if process is not None and times is None and "ns" not in more:
            times = (process.host.wall(),) * 2
        real_utime(path, times, **more)

    # mypy takes a function that is replaced for a mistake.
    for name, replacement in (("open", open_), ("fsync", fsync), ("utime", utime)):
        setattr(os, name, replacement)
    for name in ("replace", "rename", "unlink", "symlink", "mkdir", "rmdir"):
        setattr(os, name, _counted(getattr(os, name)))


def _counted(call: Callable[..., Any]) -> Callable[..., Any]:
    name, of_two = call.__name__, call.__name__ in ("replace", "rename")

    def counted(*args: Any, **more: Any) -> Any:
        step(name)
        result = call(*args, **more)
        if PROCESS.get() is not None:
            if of_two:
                _touch(_around(args[0]), more.get("src_dir_fd"))
                _touch(_around(args[1]), more.get("dst_dir_fd"))
            else:
                made = args[1] if name == "symlink" else args[0]
                _touch(_around(made), more.get("dir_fd"))
                if name == "mkdir":
                    _touch(made, more.get("dir_fd"))
        return result

    return counted


def _is_there(path: Any, around: int | None) -> bool:
    try:
        os.stat(path, dir_fd=around, follow_symlinks=False)
    except OSError:
        return False
    return True


def _around(path: Any) -> str:
    """Return the folder that a name is in."""
    return os.fspath(path).rstrip("/").rpartition("/")[0] or ("/" if os.fspath(path).startswith("/") else ".")


def _touch(folder: Any, around: int | None) -> None:
    """Have a folder be as old as its host says: by the real clock it is as old as what it was changed with."""
    process = PROCESS.get()
    if process is not None:
        os.utime(folder, dir_fd=around)


def step(call: str) -> None:
    """A process is about to change its disk. Raises Killed when it does not live to do it, OSError where that fails."""
    process = PROCESS.get()
    if process is None:
        return
    if not process.alive:
        raise Killed
    if process.fatal_in is not None:
        process.fatal_in -= 1
        if process.fatal_in <= 0:
            process.host.world.kill(process, why="kill -9 between two writes")
            raise Killed
    disk = process.host.disk
    if disk.refuse is not None:
        try:
            disk.refuse(call)
        except OSError:
            disk.refused_s = disk.world.now_s
            raise
