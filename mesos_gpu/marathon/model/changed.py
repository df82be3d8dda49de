"""A value with some of its fields changed, of which there are many at each event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **changes: Any) -> T:
    """Return what `dataclasses.replace` does, in less than half its time.

    For frozen dataclasses with slots that check nothing when they are made. Raises KeyError for what is no field.
    """
    kind: Any = type(value)
    read, setters, by_name = _access(kind)
    made: T = object.__new__(kind)
    for put, old in zip(setters, read(value), strict=True):
        put(made, old)
    for name, new in changes.items():
        by_name[name](made, new)
    return made


_Put = Callable[[Any, Any], None]


@lru_cache(maxsize=64)
def _access(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], list[_Put], Mapping[str, _Put]]:
    """Return what reads all fields of such a value, and what sets each."""
    by_name = {each.name: getattr(kind, each.name).__set__ for each in fields(kind)}
    return attrgetter(*by_name), list(by_name.values()), by_name
