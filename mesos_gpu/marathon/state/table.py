"""Mappings that one event changes: copied at the first change, and they know what changed."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar, overload

from typing_extensions import Self

V = TypeVar("V")
D = TypeVar("D")


class Table(Mapping[str, V]):
    """A mapping that only changes while it is open; then it is copied at the first change and remembers each.

    Opening and closing leave the table at hand as it was. Whoever has a closed one has a value.
    """

    __slots__ = ("_before", "_rows", "changes")

    def __init__(self, rows: Mapping[str, V] | None = None) -> None:
        self._rows: Mapping[str, V] = {} if rows is None else rows
        self._before: Self | None = None
        self.changes: dict[str, V | None] = {}
        """What was put since the table was opened; None under a key that was dropped."""

    def opened(self) -> Self:
        """Return a table of the same rows that can be changed."""
        table = type(self)(self._rows)
        table._before = self
        return table

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        if self._before is None:
            return self
        return type(self)(self._rows) if self.changes else self._before

    def put(self, key: str, value: V) -> None:
        """Set `key`. Raises TypeError when the table is not open."""
        self._own()[key] = value
        self.changes[key] = value

    def drop(self, key: str) -> None:
        """Remove `key`; nothing happens when it is not there. Raises TypeError when the table is not open."""
        if key in self._rows:
            del self._own()[key]
            self.changes[key] = None

    def _own(self) -> dict[str, V]:
        if self._before is None:
            raise TypeError("a table changes only while an event is handled")
        if self._rows is self._before._rows:
            self._rows = dict(self._rows)
        assert isinstance(self._rows, dict)
        return self._rows

    # A mapping's own ways, without the detours that collections.abc.Mapping takes.

    def __getitem__(self, key: str) -> V:
        return self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Table({dict(self._rows)!r})"

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, default: V, /) -> V: ...
    @overload
    def get(self, key: str, default: D, /) -> V | D: ...
    def get(self, key: str, default: V | D | None = None, /) -> V | D | None:
        """Return the value of `key`, `default` when there is none."""
        return self._rows.get(key, default)

    def keys(self) -> KeysView[str]:
        """Return a view of the keys; not to be walked over while changing the table."""
        return self._rows.keys()

    def values(self) -> ValuesView[V]:
        """Return a view of the values; not to be walked over while changing the table."""
        return self._rows.values()

    def items(self) -> ItemsView[str, V]:
        """Return a view of the items; not to be walked over while changing the table."""
        return self._rows.items()
