"""A history's memory in large pages: so many places are looked at that small ones cost a sixth of its time.

Each history is a fork, whose pages are small as long as they are those of its parent, too.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

PAGE = 2 << 20
ROOM = 512 << 20
"""What is set aside for the heap to grow into, in bytes: a history of half an hour of faults needs a quarter."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Of mallopt(3)."""
_COLLAPSE = 25
"""MADV_COLLAPSE of madvise(2), of Linux 6.1."""


def heap() -> tuple[int, int]:
    """Return where malloc's heap begins and ends."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            begin, end = line.split()[0].split("-")
            return int(begin, 16), int(end, 16)
    return 0, 0


def enlarge() -> None:
    """Have the heap lie in pages of 2 MiB: what is there, and what will be. Where there are none nothing is different.

    All objects are there where Python takes them from malloc (PYTHONMALLOC).
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    begin, used = heap()
    for option, value in ((_TRIM_THRESHOLD, 2 * ROOM), (_MMAP_MAX, 0)):
        libc.mallopt(option, value)
    libc.free(libc.malloc(ROOM))  # which the heap keeps, as it is not trimmed
    libc.madvise(begin, heap()[1] - begin, mmap.MADV_HUGEPAGE)
    first, last = -(-begin // PAGE) * PAGE, used // PAGE * PAGE
    if first < last:
        libc.madvise(first, last - first, _COLLAPSE)
