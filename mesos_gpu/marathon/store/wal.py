"""Whether a write-ahead log of SQLite's is as SQLite or a power failure leaves one, or was damaged otherwise. Pure.

SQLite reads such a log up to the first frame that does not fit, and takes all that follows for what was never written:
right after a power failure, and the loss of what was committed where the log itself was damaged. What tells the two
apart: a transaction is written only when the one before it is on the disk (`synchronous=FULL`), so at most the last one
can be torn; and a frame behind the last one is of an earlier round of the log, or zeros.

Not to be seen: a log that was cut off, and damage within the last transaction alone. Both look as a power failure does.
Source: https://www.sqlite.org/fileformat2.html, section 4, "The Write-Ahead Log".
"""

from __future__ import annotations

import struct
from functools import cache
from operator import mul

HEADER, FRAME = 32, 24
"""Bytes of the log's header, and of the header of each frame, which a page follows."""
_MAGIC = 0x377F0682
"""With the lowest bit set, checksums are reckoned over big-endian words."""
_BEGINS = tuple(struct.pack(">I", magic) for magic in (_MAGIC, _MAGIC | 1))
_NONE = "it does not begin as a write-ahead log of SQLite's"
_ROUNDS = 1 << 24
"""How many rounds back the frames left of an earlier one may be: each round counts its first salt up by one."""
_WORD = 0xFFFFFFFF


def damage(log: bytes) -> str:
    """Return what is wrong with a log that no process has open; empty when SQLite loses nothing that was committed."""
    if len(log) <= HEADER:
        # A header that nothing follows may be torn: it is on the disk before the first frame is written.
        return "" if not any(log) or any(begin.startswith(log[:4]) for begin in _BEGINS) else _NONE
    magic, _, page, _, *salts, first, second = struct.unpack(">8I", log[:HEADER])
    if magic & ~1 != _MAGIC or page.bit_count() != 1 or not 512 <= page <= 65536:
        return _NONE
    order = ">" if magic & 1 else "<"
    if _checksum(log[: HEADER - 8], order, (0, 0)) != (first, second):
        return "the checksum of its header is wrong"
    return _damaged_frames(log, page, order, (salts[0], salts[1]), (first, second))


def _damaged_frames(log: bytes, page: int, order: str, salts: tuple[int, int], before: tuple[int, int]) -> str:
    broken, committed = 0, False
    for number, at in enumerate(range(HEADER, len(log) - FRAME - page + 1, FRAME + page), 1):
        _, size, *salted, first, second = struct.unpack_from(">6I", log, at)
        ours = (salted[0], salted[1]) == salts
        summed = log[at : at + 8] + log[at + FRAME : at + FRAME + page]
        follows = ours and _checksum(summed, order, before) == (first, second)
        broken = broken or (0 if follows else number)
        if broken and follows and committed:
            return f"its frame {broken} is damaged, and transactions that were committed after it follow"
        if not ours and any(salted) and not 0 < (salts[0] - salted[0]) & _WORD <= _ROUNDS:
            return f"its frame {number} is none that SQLite wrote"
        before, committed = (first, second), ours and size > 0
    return ""


def _checksum(data: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    """Go on with a checksum over whole pairs of words.

    SQLite's own loop is `s0 += x[i] + s1; s1 += x[i+1] + s0`: each of the sums is the two before it and a word, as
    Fibonacci's numbers are. So a word counts as often as its number says, and this is two sums of products.
    """
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    count, (s0, s1) = len(words), before
    times = _fibonacci(count + 1)
    last = sum(map(mul, times[1:], words)) + times[1] * s0 + times[0] * s1
    last_but_one = sum(map(mul, times[2:], words)) + times[2] * s0 + times[1] * s1
    return last_but_one & _WORD, last & _WORD


@cache
def _fibonacci(count: int) -> tuple[int, ...]:
    """Return Fibonacci's numbers modulo 2**32 from the one with this number down to that with the number 0."""
    found = [0, 1]
    while len(found) <= count:
        found.append((found[-1] + found[-2]) & _WORD)
    return tuple(reversed(found))
