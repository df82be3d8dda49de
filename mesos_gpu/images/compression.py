"""Layers are compressed or not; their first bytes say how, whatever the manifest calls them."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from mesos_gpu.errors import ImageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
OTHERS = {b"BZh": "bzip2", b"\xfd7zX": "xz"}

MAX_WINDOW_LOG = 27
"""How much memory a zstd layer may ask for: 128 MiB, what the zstd tool takes at most without being told."""

DECOMPRESSION_ERRORS = (zlib.error, zstd.ZstdError, EOFError)

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
        options = {int(zstd.DecompressionParameter.window_log_max): MAX_WINDOW_LOG}
        reader = zstd.ZstdFile(file, options=options)
        return iter(lambda: reader.read(_OUT), b"")
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
