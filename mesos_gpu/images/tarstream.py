"""A tar that is read once from its start to its end, hashed on the way, and cannot make us read or hold too much."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, cast

MAX_HEADER = (1 << 20) + tarfile.BLOCKSIZE
"""How large one header (a long name, extended attributes) may be, in bytes; Go's archive/tar takes 1 MiB."""


class TarStream:
    """Members in order. `digest` is of what was read so far; `drain` reads the rest."""

    def __init__(self, pieces: Iterator[bytes], *, algorithm: str, max_bytes: int) -> None:
        self._pieces, self._max_bytes = pieces, max_bytes
        self._hash = hashlib.new(algorithm)
        self._buffer, self._at, self._position, self._fetched = b"", 0, 0, 0

    @property
    def digest(self) -> str:
        """The digest of what was fetched."""
        return f"{self._hash.name}:{self._hash.hexdigest()}"

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Yield each member, with the stream at its data. Raises tarfile.TarError for anything but a good tar."""
        # TarFile.next() takes a damaged header for the end, and keeps every member in memory.
        archive = tarfile.TarFile(fileobj=cast("BinaryIO", self), mode="r", errors="surrogateescape")
        member = cast("tarfile.TarInfo | None", archive.firstmember)  # type: ignore[attr-defined]
        while member is not None:
            archive.members.clear()  # type: ignore[attr-defined]
            following = archive.offset
            if following < member.offset_data:
                raise tarfile.ReadError("a member of negative size")
            self.seek(member.offset_data)
            yield member
            self.seek(following)
            try:
                archive.offset = following
                member = tarfile.TarInfo.fromtarfile(archive)
            except (tarfile.EOFHeaderError, tarfile.EmptyHeaderError):  # type: ignore[attr-defined]
                return

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes. Raises tarfile.ReadError when there are fewer."""
        while size > 0:
            piece = self._take(size)
            if not piece:
                raise tarfile.ReadError("unexpected end of data")
            size -= len(piece)
            yield piece

    def drain(self) -> None:
        """Read what is left, so that the digest is that of all."""
        while self._take(1 << 20):
            pass

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end. Raises tarfile.ReadError for more than a header has."""
        if not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        pieces = []
        while size > 0 and (piece := self._take(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def tell(self) -> int:
        """Return how many bytes were handed out."""
        return self._position

    def seek(self, position: int) -> None:
        """Go forward. Raises tarfile.ReadError: backward, or beyond the end."""
        if position < self._position:
            raise tarfile.ReadError("members overlap")
        for _ in self.data(position - self._position):
            pass

    def _take(self, size: int) -> bytes:
        if self._at == len(self._buffer):
            self._buffer, self._at = next(self._pieces, b""), 0
            self._fetched += len(self._buffer)
            if self._fetched > self._max_bytes:
                raise tarfile.ReadError(f"it unpacks to more than {self._max_bytes} bytes")
            self._hash.update(self._buffer)
        piece = self._buffer[self._at : self._at + size]
        self._at += len(piece)
        self._position += len(piece)
        return piece
