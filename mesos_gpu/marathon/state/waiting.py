"""Which instances wait for an offer, in the order in which they began to: thousands, of which an event changes few."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from typing_extensions import Self

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.table import Table

Turn = tuple[float, str]
"""Since when an instance waits, and its id."""


class Waiting(Table[str]):
    """App ids by id of an instance that waits. `order` has them by time, kept sorted as they come and go."""

    __slots__ = ("_since", "order", "run_specs")

    def __init__(self, rows: Mapping[str, str] | None = None, since: Mapping[str, float] | None = None) -> None:
        super().__init__(rows)
        self._since: Mapping[str, float] = since or {}
        self.order: Sequence[Turn] = sorted((since_s, key) for key, since_s in self._since.items())
        self.run_specs: dict[str, RunSpec] = {}
        """What those ask for that are of runs, by id, as far as somebody has looked it up: a run's never changes."""

    @classmethod
    def of(cls, instances: Sequence[Instance]) -> Self:
        """Return a closed table in which these wait."""
        return cls({i.id: i.app_id for i in instances}, {i.id: i.since_s for i in instances})

    def opened(self) -> Self:
        """Return a table of the same rows that can be changed."""
        return self._with_order(super().opened())

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        closed = super().closed()
        return closed if closed is self._before else self._with_order(closed)

    def add(self, instance: Instance) -> None:
        """Let an instance wait since it says. Raises TypeError when the table is not open."""
        if self._since.get(instance.id) != instance.since_s:
            since, order = self._own_order()
            self._leave(since, order, instance.id)
            since[instance.id] = instance.since_s
            insort(order, (instance.since_s, instance.id))
        self.put(instance.id, instance.app_id)

    def drop(self, key: str) -> None:
        """Let an instance wait no more, if it does. Raises TypeError when the table is not open."""
        if key in self._since:
            self._leave(*self._own_order(), key)
        super().drop(key)

    def _own_order(self) -> tuple[dict[str, float], list[Turn]]:
        before = self._before
        if before is None:
            raise TypeError("a table changes only while an event is handled")
        if self._since is before._since:
            self._since, self.order = dict(self._since), list(self.order)
        assert isinstance(self._since, dict)
        assert isinstance(self.order, list)
        return self._since, self.order

    def _leave(self, since: dict[str, float], order: list[Turn], key: str) -> None:
        self.run_specs.pop(key, None)
        since_s = since.pop(key, None)
        if since_s is not None:
            del order[bisect_left(order, (since_s, key))]

    def _with_order(self, table: Self) -> Self:
        table._since, table.order, table.run_specs = self._since, self.order, self.run_specs
        return table
