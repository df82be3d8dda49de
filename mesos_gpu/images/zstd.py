"""Layers that are compressed by zstd: the standard library's module, or what brings it to Pythons before 3.14."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_WINDOW_LOG = 27
"""How much memory a layer may ask for: 128 MiB, what the zstd tool takes at most without being told."""


def unzstd(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    """Yield what is in a file, in pieces of at most so many bytes. Raises ValueError when it is damaged, EOFError."""
    reader = zstd.ZstdFile(file, options={int(zstd.DecompressionParameter.window_log_max): MAX_WINDOW_LOG})
    try:
        while piece := reader.read(piece_bytes):
            yield piece
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error
