"""What a shared library says of itself: its class, SONAME, what it needs, its ABI note. elf(5).

Read from the program headers, as the loader reads them: section headers may be stripped.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mesos_gpu.isolator.driver_files import LibraryFacts

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NEEDED, _DT_STRTAB, _DT_SONAME = 1, 5, 14
_NT_GNU_ABI_TAG, _OS_LINUX = 1, 0
_LONGEST_NAME = 4096


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


class _Layout(NamedTuple):
    """Where the fields lie: 32 and 64 bit differ in widths and in the order of a segment's fields."""

    table: str
    counts: str
    segment: str
    entry: str


_LAYOUTS = {1: _Layout("I", "HH", "IIIIIIII", "iI"), 2: _Layout("Q", "HH", "IIQQQQQQ", "qQ")}
_TABLE_AT, _COUNTS_AT = {1: 28, 2: 32}, {1: 42, 2: 54}


def read_library(path: Path) -> LibraryFacts | None:
    """Return the facts; None for what is not an ELF file (a linker script, say) or is damaged. Raises OSError."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return None
    with data:
        try:
            return _read(data)
        except (struct.error, LookupError, ValueError, OverflowError):
            return None


def _read(data: mmap.mmap) -> LibraryFacts | None:
    if data[:4] != b"\x7fELF":
        return None
    kind, order = data[4], {1: "<", 2: ">"}[data[5]]
    segments = list(_segments(data, kind, order))
    soname, needed = _dynamic(data, kind, order, segments)
    return LibraryFacts({1: 32, 2: 64}[kind], soname, needed, _abi(data, order, segments))


def _segments(data: mmap.mmap, kind: int, order: str) -> Iterator[_Segment]:
    layout = _LAYOUTS[kind]
    (table,) = struct.unpack_from(order + layout.table, data, _TABLE_AT[kind])
    size, count = struct.unpack_from(order + layout.counts, data, _COUNTS_AT[kind])
    for number in range(count):
        fields = struct.unpack_from(order + layout.segment, data, table + number * size)
        if kind == 1:
            segment, offset, address, _, in_file = fields[:5]
        else:
            segment, _, offset, address, _, in_file = fields[:6]
        yield _Segment(segment, offset, address, in_file)


def _dynamic(data: mmap.mmap, kind: int, order: str, segments: list[_Segment]) -> tuple[str | None, tuple[str, ...]]:
    entry = struct.Struct(order + _LAYOUTS[kind].entry)
    entries: list[tuple[int, int]] = []
    for segment in segments:
        if segment.kind == _PT_DYNAMIC:
            part = data[segment.offset : segment.offset + segment.size // entry.size * entry.size]
            entries += entry.iter_unpack(part)
    strings = next((value for tag, value in entries if tag == _DT_STRTAB), None)
    if strings is None:
        return None, ()
    inside = (one for one in segments if one.kind == _PT_LOAD and one.address <= strings < one.address + one.size)
    start = next((strings - one.address + one.offset for one in inside), strings)
    names = [(tag, _text(data, start + value)) for tag, value in entries if tag in (_DT_NEEDED, _DT_SONAME)]
    soname = next((name for tag, name in names if tag == _DT_SONAME), None)
    return soname, tuple(name for tag, name in names if tag == _DT_NEEDED)


def _abi(data: mmap.mmap, order: str, segments: list[_Segment]) -> tuple[int, int, int] | None:
    """Return the oldest Linux that the GNU ABI note asks for."""
    for segment in segments:
        at, end = segment.offset, segment.offset + segment.size
        while segment.kind == _PT_NOTE and at + 12 <= end:
            name_size, size, kind = struct.unpack_from(order + "III", data, at)
            name = data[at + 12 : at + 12 + name_size]
            content = at + 12 + (name_size + 3) // 4 * 4
            if name == b"GNU\0" and kind == _NT_GNU_ABI_TAG and size >= 16:
                system, major, minor, patch = struct.unpack_from(order + "IIII", data, content)
                return (major, minor, patch) if system == _OS_LINUX else None
            at = content + (size + 3) // 4 * 4
    return None


def _text(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at, at + _LONGEST_NAME)
    if end < 0:
        raise IndexError("a name without an end")
    return data[at:end].decode()
