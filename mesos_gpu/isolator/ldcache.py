"""Where the loader finds libraries: /etc/ld.so.cache, as glibc >= 2.2 writes it (`dl-cache.h`). Pure: bytes in."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_OLD_MAGIC, _OLD_HEADER, _OLD_ENTRY_BYTES = b"ld.so-1.7.0\0", 16, 12
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER_BYTES = 48
_ENTRY = struct.Struct("=iIIIQ")
_ELF_LIBC6 = 3
_KIND_MASK = 0xFF


def libraries(cache: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and path of every ELF library in the cache, in its order; nothing when it is not understood.

    Entries of several architectures and hardware levels have the same name; the ELF files themselves tell them apart.
    """
    start = 0
    if cache.startswith(_OLD_MAGIC) and len(cache) >= _OLD_HEADER:
        (count,) = struct.unpack_from("=I", cache, len(_OLD_MAGIC))
        start = (_OLD_HEADER + count * _OLD_ENTRY_BYTES + 7) // 8 * 8
    if cache[start : start + len(_MAGIC)] != _MAGIC or len(cache) < start + _HEADER_BYTES:
        return
    (count,) = struct.unpack_from("=I", cache, start + len(_MAGIC))
    for number in range(count):
        at = start + _HEADER_BYTES + number * _ENTRY.size
        if at + _ENTRY.size > len(cache):
            return
        flags, name, path, _, _ = _ENTRY.unpack_from(cache, at)
        if flags & _KIND_MASK == _ELF_LIBC6:
            yield _text(cache, start + name), _text(cache, start + path)


def _text(cache: bytes, at: int) -> str:
    return cache[at : cache.find(b"\0", at)].decode(errors="surrogateescape")
