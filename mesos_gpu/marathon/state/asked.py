"""For which tasks to come offers were asked: tens of thousands, of which an event changes few. A value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set

from mesos_gpu.mesos.ids import TaskId

_FEW, _PART = 256, 40
"""So many changes are kept beside the ids, and of very many, as many as one in so many."""


class Asked(Set[TaskId]):
    """Ids of tasks. It never changes: `after` returns another one that shares most of it."""

    __slots__ = ("_gone", "_ids", "_more")

    def __init__(self, ids: Iterable[TaskId] = ()) -> None:
        self._ids = frozenset(ids)
        self._gone: frozenset[TaskId] = frozenset()
        """Those of `_ids` that are not there any more."""
        self._more: frozenset[TaskId] = frozenset()
        """Those that are there beside `_ids`."""

    def after(self, gone: Collection[TaskId], added: Collection[TaskId]) -> Asked:
        """Return these without some, and with others."""
        made = Asked.__new__(Asked)
        ids = self._ids
        made._gone = self._gone.union(key for key in gone if key in ids).difference(added)
        made._more = self._more.difference(gone).union(key for key in added if key not in ids)
        made._ids = ids
        beside = len(made._gone) + len(made._more)
        return made if beside <= max(_FEW, len(ids) // _PART) else Asked(made)

    def __contains__(self, key: object) -> bool:
        return key in self._more or (key in self._ids and key not in self._gone)

    def __iter__(self) -> Iterator[TaskId]:
        yield from self._ids - self._gone
        yield from self._more

    def __len__(self) -> int:
        return len(self._ids) - len(self._gone) + len(self._more)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"Asked({sorted(self)!r})"


NOTHING_ASKED = Asked()
