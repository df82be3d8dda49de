"""Who comes when: a sorted sequence as a value, of which a change copies a small part alone. Pure.

What waits may be thousands, of which one event changes a few: a sorted list would be copied whole for each such event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Turn = tuple[float, str]
"""Since when something waits, and its id."""

_BLOCK = 256
"""Turns that lie together, at most: so many are copied at a change, and a reference to each other such block."""


class Turns:
    """Turns in their order, each once. It never changes: `added` and `without` return others that share most of it."""

    __slots__ = ("_blocks", "_firsts", "_size")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        ordered = sorted(set(turns))
        blocks = [tuple(ordered[at : at + _BLOCK]) for at in range(0, len(ordered), _BLOCK)]
        self._blocks, self._firsts, self._size = blocks, [block[0] for block in blocks], len(ordered)

    @property
    def first(self) -> Turn:
        """Return the first. Raises IndexError when there is none."""
        return self._firsts[0]

    def added(self, turn: Turn) -> Turns:
        """Return these with one more; the same when it is one of them."""
        if not self._blocks:
            return Turns((turn,))
        at = self._block_of(turn)
        block = self._blocks[at]
        place = bisect_left(block, turn)
        if place < len(block) and block[place] == turn:
            return self
        longer = (*block[:place], turn, *block[place:])
        half = len(longer) // 2
        return self._with(at, [longer] if len(longer) <= _BLOCK else [longer[:half], longer[half:]], self._size + 1)

    def without(self, turn: Turn) -> Turns:
        """Return these without one; the same when it is none of them."""
        if not self._blocks:
            return self
        at = self._block_of(turn)
        block = self._blocks[at]
        place = bisect_left(block, turn)
        if place == len(block) or block[place] != turn:
            return self
        shorter = (*block[:place], *block[place + 1 :])
        return self._with(at, [shorter] if shorter else [], self._size - 1)

    def _block_of(self, turn: Turn) -> int:
        return max(0, bisect_right(self._firsts, turn) - 1)

    def _with(self, at: int, blocks: list[tuple[Turn, ...]], size: int) -> Turns:
        made = Turns.__new__(Turns)
        made._blocks = [*self._blocks[:at], *blocks, *self._blocks[at + 1 :]]
        made._firsts = [*self._firsts[:at], *(block[0] for block in blocks), *self._firsts[at + 1 :]]
        made._size = size
        return made

    def __iter__(self) -> Iterator[Turn]:
        for block in self._blocks:
            yield from block

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Turns({list(self)!r})"


NO_TURNS = Turns()


class Line:
    """The ids of some turns, in order, from which whoever has had its turn leaves."""

    __slots__ = ("_gone", "_head", "_rest", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns, self._gone = turns, set[str]()
        self._rest = iter(turns)
        self._head: str | None = None

    @property
    def first(self) -> str:
        """Return who is next. Raises IndexError when nobody is there."""
        while self._head is None or self._head in self._gone:
            turn = next(self._rest, None)
            if turn is None:
                raise IndexError("nobody waits")
            self._head = turn[1]
        return self._head

    def leave(self, key: str) -> None:
        """Let somebody go who is there."""
        self._gone.add(key)

    def __iter__(self) -> Iterator[str]:
        gone = self._gone
        return (key for _, key in self._turns if key not in gone)

    def __len__(self) -> int:
        return len(self._turns) - len(self._gone)
