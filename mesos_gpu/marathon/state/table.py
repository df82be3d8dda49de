"""Mappings that one event changes: copied at the first change, and they know what changed."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, ClassVar, TypeVar, cast, overload

from typing_extensions import Self

V = TypeVar("V")
D = TypeVar("D")


_FEW = 256
"""Rows that are copied at the first change; of more, so many changes are kept beside the rows."""
_PART = 160
"""And of very many, as many as one in so many."""
_GONE: Any = object()
_ABSENT: Any = object()
_NOTHING, _BESIDE, _ROWS = range(3)
"""What of an open table is its own: nothing yet, what lies beside the rows, or the rows."""


class Table(Mapping[str, V]):
    """A mapping that only changes while it is open; then what changes is copied, and it remembers each.

    Opening and closing leave the table at hand as it was. Whoever has a closed one has a value, in whichever thread. A
    change of a large table costs no copy of it: the rows are shared, and what has changed of late lies beside them
    until that is much. Then whoever walks over a closed one puts it into its rows, `_rows` first and `_beside` after
    that; so all others look at `_beside` first, once.
    """

    _few: ClassVar[int] = _FEW
    __slots__ = ("_before", "_beside", "_mine", "_rows", "_size", "changes")

    def __init__(self, rows: Mapping[str, V] | None = None) -> None:
        self._rows: dict[str, V] = {} if rows is None else cast("dict[str, V]", rows)
        self._beside: dict[str, V] = {}
        """Rows that are otherwise than in `_rows`, and `_GONE` for those that are not there any more."""
        self._size = len(self._rows)
        self._before: Self | None = None
        self._mine = _NOTHING
        self.changes: dict[str, V | None] = {}
        """What was put since the table was opened; None under a key that was dropped."""

    def opened(self) -> Self:
        """Return a table of the same rows that can be changed."""
        table = self._again()
        table._before = self
        return table

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        if self._before is None:
            return self
        return self._again() if self.changes else self._before

    def put(self, key: str, value: V) -> None:
        """Set `key`. Raises TypeError when the table is not open."""
        self._own()
        self._size += not self._has(key)
        if self._mine is _ROWS:
            self._rows[key] = value
        elif self._beside.get(key) is _GONE:
            self._merge()  # it goes to the end, as in a dict
            self._rows[key] = value
        else:
            self._beside[key] = value
        self.changes[key] = value

    def drop(self, key: str) -> None:
        """Remove `key`; nothing happens when it is not there. Raises TypeError when the table is not open."""
        if not self._has(key):
            return
        self._own()
        self._size -= 1
        if self._mine is _ROWS:
            del self._rows[key]
        elif key in self._rows:
            self._beside[key] = _GONE
        else:
            del self._beside[key]
        self.changes[key] = None

    def _again(self) -> Self:
        table = object.__new__(type(self))  # twice for each table that an event changes: no detour by the constructor
        table._beside = self._beside
        table._rows, table._size = self._rows, self._size
        table._before, table._mine, table.changes = None, _NOTHING, {}
        return table

    def _own(self) -> None:
        """Have rows of our own, or a mapping beside them."""
        if self._before is None:
            raise TypeError("a table changes only while an event is handled")
        if self._mine is _ROWS:
            return
        if len(self._rows) < self._few or len(self._beside) >= max(self._few, len(self._rows) // _PART):
            self._merge()
        elif self._mine is _NOTHING:
            self._beside, self._mine = dict(self._beside), _BESIDE

    def _merge(self) -> None:
        """Make rows of our own, with what lies beside them."""
        rows = dict(self._rows)
        for key, value in self._beside.items():
            if value is _GONE:
                rows.pop(key, None)
            else:
                rows[key] = value
        self._rows = rows
        self._beside, self._mine = {}, _ROWS

    def _whole(self) -> dict[str, V]:
        """Return all rows in one mapping, for who walks over them."""
        if self._beside:
            before = self._before
            if before is not None and self._mine is _NOTHING:
                # Merged once, for all who come after: it is the same value.
                before._whole()
                self._rows, self._beside = before._rows, before._beside
            else:
                self._merge()
        return self._rows

    # A mapping's own ways, without the detours that collections.abc.Mapping takes.

    def __getitem__(self, key: str) -> V:
        beside = self._beside
        value: Any = beside.get(key, _ABSENT) if beside else _ABSENT
        if value is _ABSENT:
            return self._rows[key]
        if value is _GONE:
            raise KeyError(key)
        return cast("V", value)

    def __contains__(self, key: object) -> bool:
        return self._has(key)

    def _has(self, key: object) -> bool:
        beside: dict[Any, V] = self._beside
        if key in beside:
            return beside[key] is not _GONE
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Table({dict(self._whole())!r})"

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, default: V, /) -> V: ...
    @overload
    def get(self, key: str, default: D, /) -> V | D: ...
    def get(self, key: str, default: V | D | None = None, /) -> V | D | None:
        """Return the value of `key`, `default` when there is none."""
        beside = self._beside
        if key in beside:
            value = beside[key]
            return default if value is _GONE else value
        return self._rows.get(key, default)

    def keys(self) -> KeysView[str]:
        """Return a view of the keys; not to be walked over while changing the table."""
        return self._whole().keys()

    def values(self) -> ValuesView[V]:
        """Return a view of the values; not to be walked over while changing the table."""
        return self._whole().values()

    def items(self) -> ItemsView[str, V]:
        """Return a view of the items; not to be walked over while changing the table."""
        return self._whole().items()
