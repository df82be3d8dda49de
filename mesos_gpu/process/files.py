"""What /files shows: sandboxes and logs by virtual path, to browse, read and download; nothing outside them.

A path is opened one component at a time beneath the sandbox's own folder, never following a link out of it: what a
task puts into its sandbox cannot make us, who may be root, show it anything else.
Source of the answers: Mesos src/files/files.cpp.
"""

from __future__ import annotations

import codecs
import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path, PurePosixPath

from msgspec import Struct

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.mesos.resource import Document

PAGES_AT_ONCE = 16
MAX_READ = PAGES_AT_ONCE * 4096
"""Bytes that one read returns at most, 64 KiB as Mesos."""
MAX_LINKS = 16
MAX_ENTRIES = 250_000
"""Entries of a folder that are listed; a task can make as many as it likes, and each takes memory here."""
NOT_UTF8 = "\ufffd"
"""What stands, in names that are shown, for bytes that are not UTF-8: JSON has no word for them."""
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(Struct, frozen=True):
    """One entry of a folder, as /files/browse and LIST_FILES show it."""

    path: str
    nlink: int
    size: int
    mtime_s: float
    mode: int
    uid: str
    gid: str

    def to_json(self) -> Document:
        """Return it as /files/browse shows it."""
        return {
            "gid": self.gid,
            "mode": stat.filemode(self.mode),
            "mtime": float(int(self.mtime_s)),
            "nlink": self.nlink,
            "path": self.path,
            "size": self.size,
            "uid": self.uid,
        }

    def to_v1(self) -> Document:
        """Return it as a v1 FileInfo."""
        return {
            "path": self.path,
            "nlink": self.nlink,
            "size": self.size,
            "mtime": {"nanoseconds": int(self.mtime_s) * 10**9},
            "mode": self.mode,
            "uid": self.uid,
            "gid": self.gid,
        }


class Place(Struct, frozen=True):
    """What a virtual path leads to, below `folder`, the real folder or file of `root`. Its methods use the disk."""

    path: str
    root: str
    folder: str

    def browse(self) -> list[Entry]:
        """Return the entries of a folder by name. Raises NotFound, BadInput for a path that leads out, or too many."""
        descriptor = self._open()
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise BadInput(f"'{self.path}' is not a directory.\n")
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
            if len(names) > MAX_ENTRIES:
                raise BadInput(
                    f"'{self.path}' has more than {MAX_ENTRIES} entries, which is too many to list; "
                    "files in it can be read by their names.\n"
                )
            shown = _Shown(self.path, descriptor)
            return [entry for name in sorted(names) if (entry := shown.entry(name)) is not None]
        finally:
            os.close(descriptor)

    def read(self, offset: int, length: int | None) -> tuple[int, bytes, int]:
        """Return (offset, data, file size). `offset` -1 asks for the size alone; `length` None is as much as allowed.

        Raises NotFound, BadInput.
        """
        if offset < -1:
            raise BadInput(f"Negative offset provided: {offset}")
        if length is not None and length < -1:
            raise BadInput(f"Negative length provided: {length}")
        descriptor = self.open()
        try:
            size = os.fstat(descriptor).st_size
            if offset == -1:
                return size, b"", size
            wanted = MAX_READ if length is None or length == -1 else min(length, MAX_READ)
            return offset, os.pread(descriptor, wanted, offset) if offset < size else b"", size
        finally:
            os.close(descriptor)

    def open(self) -> int:
        """Return a descriptor of a regular file, to be closed by the caller. Raises NotFound, BadInput."""
        descriptor = self._open()
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            os.set_blocking(descriptor, True)
            return descriptor
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise BadInput("Cannot read a directory.\n")
        raise BadInput(f"'{self.path}' is not a regular file.\n")

    def _open(self) -> int:
        rest = PurePosixPath(self.path).parts[len(PurePosixPath(self.root).parts) :]
        try:
            top = os.open(self.folder, _DIRECTORY if rest or not Path(self.folder).is_file() else _FILE)
        except OSError:
            raise NotFound("") from None
        if not rest:
            return top
        return _descend(top, list(rest), self.path)


class SandboxFiles:
    """Virtual paths to real ones: `resolve` returns (virtual root, real folder) of the sandbox a path lies in.

    A root may be one file too, as `/master/log` is.
    """

    def __init__(self, resolve: Callable[[str], tuple[str, str] | None]) -> None:
        self._resolve = resolve

    def place(self, path: str) -> Place:
        """Return what a path leads to, without a look at the disk. Raises NotFound."""
        found = None if _unwritable(path) else self._resolve(str(PurePosixPath(path)))
        if found is None:
            raise NotFound("")
        return Place(path, *found)


def _unwritable(path: str) -> bool:
    """Return whether no file can have such a name: a NUL in it, or half a character."""
    try:
        return b"\0" in path.encode()
    except UnicodeEncodeError:
        return True


def as_text(data: bytes) -> str:
    """Return bytes as text whose UTF-8 is exactly as long as what was taken of them, so that offsets add up.

    A character cut off at the end is left for the next read; a byte that is not UTF-8 becomes a question mark.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and error.start > 0:
            return data[: error.start].decode("utf-8")
    return data.decode("utf-8", _ONE_FOR_ONE)


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


_ONE_FOR_ONE = "mesos_gpu.one_for_one"
codecs.register_error(_ONE_FOR_ONE, _question_marks)


def _descend(top: int, parts: list[str], path: str) -> int:
    """Return a descriptor of what `parts` lead to beneath the folder `top`, which is closed.

    Links are followed by hand, and only when they are relative and stay inside; `..` never goes above `top`.
    """
    chain = [top]
    links = 0
    try:
        while parts:
            name = parts.pop(0)
            if name == "..":
                if len(chain) == 1:
                    raise _outside(path)
                os.close(chain.pop())
                continue
            try:
                name = _real_name(name, chain[-1])
                mode = os.stat(name, dir_fd=chain[-1], follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    links += 1
                    target = PurePosixPath(os.readlink(name, dir_fd=chain[-1]))
                    if target.is_absolute() or links > MAX_LINKS:
                        raise _outside(path)
                    parts[:0] = target.parts
                elif stat.S_ISDIR(mode):
                    chain.append(os.open(name, _DIRECTORY, dir_fd=chain[-1]))
                elif parts:
                    raise NotFound("")
                elif stat.S_ISREG(mode):
                    # A pipe put in its place meanwhile must not make us wait; a link is not followed.
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                    chain.append(os.open(name, flags, dir_fd=chain[-1]))
                else:
                    raise BadInput(f"'{path}' is not a regular file.\n")
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise _outside(path) from None
                raise NotFound("") from None
        return chain.pop()
    finally:
        for descriptor in chain:
            os.close(descriptor)


def _outside(path: str) -> BadInput:
    return BadInput(f"'{path}' is inaccessible.\n")


def _real_name(name: str, folder: int) -> str:
    """Return the name, in a folder, of what is shown by `name`: another only where that is not UTF-8."""
    if NOT_UTF8 not in name:
        return name
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MAX_ENTRIES)]
    return name if name in names else next((found for found in names if _shown_name(found) == name), name)


def _shown_name(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


class _Shown:
    """Makes entries of one folder; users and groups are looked up once."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._prefix = str(PurePosixPath(path)).rstrip("/")
        self._descriptor = descriptor
        self._users: dict[int, str] = {}
        self._groups: dict[int, str] = {}

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a name, None when it is gone meanwhile."""
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if found.st_uid not in self._users:
            self._users[found.st_uid] = _user(found.st_uid)
        if found.st_gid not in self._groups:
            self._groups[found.st_gid] = _group(found.st_gid)
        return Entry(
            path=f"{self._prefix}/{_shown_name(name)}",
            nlink=found.st_nlink,
            size=found.st_size,
            mtime_s=found.st_mtime,
            mode=found.st_mode,
            uid=self._users[found.st_uid],
            gid=self._groups[found.st_gid],
        )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
