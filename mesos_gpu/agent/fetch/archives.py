"""Archives from strangers, unpacked by us: every name stays in the folder, and the disk is not filled.

Nobody else may write to the folder meanwhile: what was looked at must still be so when it is used.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import tarfile
import threading
import zipfile
import zlib
from pathlib import Path
from typing import Protocol

from mesos_gpu.agent.model.fetch_uris import Archive
from mesos_gpu.errors import BadInput, ContainerError

CHUNK = 1 << 20
MAX_ENTRIES = 1_000_000
KEEP_FREE_BYTES = 64 << 20
"""What is always left free of the disk that things are fetched to."""

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, NotImplementedError)


def check_room(folder: Path, more: int) -> None:
    """Raise ContainerError when the disk of `folder` would be full with `more` bytes in it."""
    found = os.statvfs(folder)
    if found.f_bavail * found.f_frsize < more + KEEP_FREE_BYTES:
        raise ContainerError(f"the disk of {folder} is full")


def unpack(kind: Archive, archive: Path, name: str, into: Path, stop: threading.Event) -> None:
    """Unpack `archive`, which was fetched as `name`, into a folder; what is there by the same name is replaced.

    `stop`, once set, ends it. Raises BadInput for an archive that is damaged or wants out of the folder, ContainerError
    when the disk is full or it was stopped.
    """
    writer = _Writer(into, stop)
    try:
        if kind == "tar":
            _untar(archive, writer)
        elif kind == "zip":
            _unzip(archive, writer)
        else:
            with gzip.open(archive) as stream:
                writer.file(name.removesuffix(".gz"), stream, 0o644)
    except _DAMAGED as error:
        raise BadInput(f"cannot unpack {name}: {error}") from error
    except RuntimeError as error:  # how zipfile says that it needs a password
        raise BadInput(f"cannot unpack {name}: {error}") from error


class Readable(Protocol):
    """What content is read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""


class _Writer:
    """Writes into one folder and nowhere else."""

    def __init__(self, root: Path, stop: threading.Event) -> None:
        self._root, self._stop = root.resolve(), stop
        self._entries = 0

    def file(self, name: str, stream: Readable, mode: int) -> None:
        path = self._fresh(name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            while data := stream.read(CHUNK):
                if self._stop.is_set():
                    raise ContainerError("stopped while unpacking")
                check_room(self._root, len(data))
                file.write(data)
            os.fchmod(file.fileno(), mode & 0o777)

    def folder(self, name: str, mode: int) -> None:
        path = self._place(name)
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
            path.mkdir()
        path.chmod((mode & 0o777) | 0o700)

    def link(self, name: str, target: str) -> None:
        self._fresh(name).symlink_to(target)

    def hard_link(self, name: str, target: str) -> None:
        source = self._place(target)
        if not stat.S_ISREG(source.lstat().st_mode):
            raise BadInput(f"{name} is a hard link to {target}, which is not a file of the archive")
        path = self._place(name)
        if path != source:
            self._fresh(name).hardlink_to(source)

    def _fresh(self, name: str) -> Path:
        """Return where a new entry goes, with nothing there."""
        path = self._place(name)
        if path.is_dir() and not path.is_symlink():
            raise BadInput(f"{name} is a folder already")
        path.unlink(missing_ok=True)
        return path

    def _place(self, name: str) -> Path:
        """Return the path of an entry, its folder made. Raises BadInput when it would lie elsewhere."""
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise BadInput(f"it has more than {MAX_ENTRIES} entries")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise BadInput(f"the name {name!r} leads out of the folder")
        if not parts:
            return self._root
        folder = self._root.joinpath(*parts[:-1])
        if len(parts) > 1:
            if not folder.resolve().is_relative_to(self._root):
                raise BadInput(f"{name!r} leads out of the folder, over a link")
            folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve() / parts[-1]


def _untar(archive: Path, writer: _Writer) -> None:
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            if member.isdir():
                writer.folder(member.name, member.mode)
            elif member.isreg():
                content = tar.extractfile(member)
                if content is not None:
                    writer.file(member.name, content, member.mode)
            elif member.issym():
                writer.link(member.name, member.linkname)
            elif member.islnk():
                writer.hard_link(member.name, member.linkname)
            else:
                raise BadInput(f"{member.name} is a device or a pipe, which no task may bring")


def _unzip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as found:
        for member in found.infolist():
            mode = member.external_attr >> 16
            if member.is_dir():
                writer.folder(member.filename, stat.S_IMODE(mode) or 0o755)
            elif stat.S_ISLNK(mode):
                writer.link(member.filename, os.fsdecode(found.read(member)[:4096]))
            else:
                with found.open(member) as content:
                    writer.file(member.filename, content, stat.S_IMODE(mode) or 0o644)
