"""Layers are compressed or not; their first bytes say how, whatever the manifest calls them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from mesos_gpu.errors import ImageError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
OTHERS = {b"BZh": "bzip2", b"\xfd7zX": "xz"}

DECOMPRESSION_ERRORS = (zlib.error, ValueError, EOFError)

_IN, _OUT = 256 << 10, 1 << 20


def is_compressed(head: bytes) -> bool:
    """Say whether a layer with these first four bytes is compressed."""
    return head.startswith((GZIP, ZSTD))


def decompress(file: BinaryIO) -> Iterator[bytes]:
    """Yield the tar inside a layer file that stands at its start, in pieces of at most 1 MiB however small it is.

    Raises ImageError for other compressions, and one of DECOMPRESSION_ERRORS when the content is damaged.
    """
    head = file.read(4)
    file.seek(0)
    for magic, name in OTHERS.items():
        if head.startswith(magic):
            raise ImageError(f"a layer is compressed with {name}; gzip and zstd are supported")
    if head.startswith(GZIP):
        return _gunzip(file)
    if head.startswith(ZSTD):
        # Half a worker's start is imports, and few layers are of zstd.
        from mesos_gpu.images.zstd import unzstd

        return unzstd(file, _OUT)
    return iter(lambda: file.read(_OUT), b"")


def _gunzip(file: BinaryIO) -> Iterator[bytes]:
    # The gzip module reads 8 KiB at a time; this takes half its time.
    data = file.read(_IN)
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if not data and not (data := file.read(_IN)):
                raise EOFError("it ends too early")
            piece = member.decompress(data, _OUT)
            data = member.unconsumed_tail
            if piece:
                yield piece
        data = (member.unused_data or file.read(_IN)).lstrip(b"\0")  # members may be padded with zeros
