"""A blob on its way to disk: counted, hashed, and gone on with after an interruption. Synchronous, for threads."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from mesos_gpu.errors import ImageError
from mesos_gpu.images.manifest import Descriptor

CHUNK = 1 << 20

Received = Callable[[int], None]
"""Told how many bytes of a blob are here; called in the event loop's thread."""


class Document(Struct, frozen=True):
    """A manifest as it was sent."""

    data: bytes
    media_type: str | None
    digest: str


class WrongContent(ImageError):
    """What came is not what its digest promises."""


class Partial:
    """The file of one blob, from empty to verified. Close it in any case; what is there is of use to the next try."""

    def __init__(self, path: Path, blob: Descriptor) -> None:
        self.path, self.blob, self.size = path, blob, 0
        self._hash = hashlib.new(blob.digest.partition(":")[0])
        self._file: BinaryIO | None = None

    def open(self) -> int:
        """Take up what is there already; return its size. Raises ImageError."""
        with disk_errors(self.path):
            self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
            if os.fstat(self._file.fileno()).st_size > self.blob.size:
                self._file.truncate(0)
            while chunk := self._file.read(CHUNK):
                self._hash.update(chunk)
                self.size += len(chunk)
        return self.size

    def restart(self) -> None:
        """Forget what is there."""
        with disk_errors(self.path):
            self._opened.seek(0)
            self._opened.truncate(0)
        self.size, self._hash = 0, hashlib.new(self.blob.digest.partition(":")[0])

    def write(self, chunk: bytes) -> int:
        """Add bytes; return how many there are now. Raises WrongContent for more than promised, ImageError."""
        if self.size + len(chunk) > self.blob.size:
            raise WrongContent(f"{self.blob.digest} has more than the {self.blob.size} bytes that its manifest says")
        with disk_errors(self.path):
            view = memoryview(chunk)
            while view:
                view = view[self._opened.write(view) :]
        self._hash.update(chunk)
        self.size += len(chunk)
        return self.size

    def finish(self) -> None:
        """Make sure that all is there and is what was promised. Raises WrongContent."""
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if self.size != self.blob.size:
            raise WrongContent(f"{self.blob.digest} has {self.size} bytes; its manifest says {self.blob.size}")
        if found != self.blob.digest:
            raise WrongContent(f"bad digest: asked for {self.blob.digest}, got content of {found}")

    def discard(self) -> None:
        """Remove the file: its content is of no use."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    @property
    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("not open")
        return self._file


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise what the disk refuses as ImageError, in words."""
    try:
        yield
    except OSError as error:
        raise ImageError(disk_problem(path, error)) from error


def disk_problem(path: Path, error: OSError) -> str:
    """Say what the disk refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the disk of {path.parent}: free some, or see --docker_store_dir"
    return f"cannot write {path}: {error.strerror}"


class Readable(Protocol):
    """Where a blob is read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""
        ...


async def copy_in_thread(copy: Callable[[Received], None], received: Received) -> None:
    """Run `copy` in a thread, and end it soon after this is cancelled. Raises what `copy` raises."""
    loop, stopped = asyncio.get_running_loop(), threading.Event()

    def told(size: int) -> None:
        if stopped.is_set():
            raise ImageError("stopped")
        loop.call_soon_threadsafe(received, size)

    try:
        await asyncio.to_thread(copy, told)
    finally:
        stopped.set()


def copy_blob(source: Readable, partial: Partial, told: Received) -> None:
    """Copy a blob that is on this machine, from its start. Raises ImageError."""
    try:
        if partial.open():
            partial.restart()
        while chunk := source.read(CHUNK):
            told(partial.write(chunk))
        partial.finish()
    except WrongContent:
        partial.discard()
        raise
    finally:
        partial.close()
