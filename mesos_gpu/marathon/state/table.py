"""A mapping in the making: copied at the first change, and it knows what changed."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, ValuesView
from typing import Generic, TypeVar

V = TypeVar("V")


class Table(Generic[V]):
    """A mapping that is copied at the first change and remembers what changed."""

    def __init__(self, base: Mapping[str, V]) -> None:
        self._base = base
        self._copy: dict[str, V] | None = None
        self.changes: dict[str, V | None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.result

    def __getitem__(self, key: str) -> V:
        return self.result[key]

    @property
    def result(self) -> Mapping[str, V]:
        """Return the mapping with all changes."""
        return self._base if self._copy is None else self._copy

    def get(self, key: str) -> V | None:
        """Return the value of `key`, None when there is none."""
        return self.result.get(key)

    def values(self) -> ValuesView[V]:
        """Return a view of the values; not to be walked over while changing the table."""
        return self.result.values()

    def items(self) -> ItemsView[str, V]:
        """Return a view of the items; not to be walked over while changing the table."""
        return self.result.items()

    def put(self, key: str, value: V) -> None:
        """Set `key`."""
        self._own()[key] = value
        self.changes[key] = value

    def drop(self, key: str) -> None:
        """Remove `key`; nothing happens when it is not there."""
        if key in self.result:
            del self._own()[key]
            self.changes[key] = None

    def _own(self) -> dict[str, V]:
        if self._copy is None:
            self._copy = dict(self._base)
        return self._copy
