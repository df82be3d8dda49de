"""Which instances wait for an offer, in the order in which they began to: thousands, of which an event changes few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from typing_extensions import Self

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.marathon.state.turns import NO_TURNS, Turn, Turns


class Waiting(Table[str]):
    """App ids by id of an instance that waits; kept in order for each app as they come and go, and the apps by their
    first. What an event costs here follows how many it changes, not how many wait.
    """

    __slots__ = ("_lines", "_since", "heads", "run_specs")

    def __init__(self, rows: Mapping[str, str] | None = None, since: Mapping[str, float] | None = None) -> None:
        super().__init__(rows)
        self._since: Table[float] = Table(dict(since or {}))
        by_app: dict[str, list[Turn]] = {}
        for key, since_s in self._since.items():
            by_app.setdefault(self[key], []).append((since_s, key))
        self._lines: Table[Turns] = Table({app_id: Turns(turns) for app_id, turns in by_app.items()})
        self.heads = Turns(line.first for line in self._lines.values())
        """The first of each app, in order."""
        self.run_specs: dict[str, RunSpec] = {}
        """What those ask for that are of runs, by id, as far as somebody has looked it up: a run's never changes."""

    @classmethod
    def of(cls, instances: Sequence[Instance]) -> Self:
        """Return a closed table in which these wait."""
        return cls({i.id: i.app_id for i in instances}, {i.id: i.since_s for i in instances})

    @property
    def order(self) -> Sequence[Turn]:
        """Return all that wait, by time; it takes a walk over all."""
        return sorted(chain.from_iterable(self._lines.values()))

    def line(self, app_id: str) -> Turns:
        """Return those of an app, by time."""
        return self._lines.get(app_id, NO_TURNS)

    def apps(self) -> Iterator[str]:
        """Return the ids of the apps of which an instance waits, the one that has waited longest first."""
        return (self[key] for _, key in self.heads)

    def has_app(self, app_id: str) -> bool:
        """Return whether an instance of an app waits."""
        return app_id in self._lines

    def opened(self) -> Self:
        """Return a table of the same rows that can be changed."""
        return self._with_order(super().opened())

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        closed = super().closed()
        if closed is self._before or closed is self:
            return closed
        self._with_order(closed)
        closed._lines, closed._since = self._lines.closed(), self._since.closed()
        return closed

    def add(self, instance: Instance) -> None:
        """Let an instance wait since it says. Raises TypeError when the table is not open."""
        if self._since.get(instance.id) != instance.since_s:
            self._own_order()
            self._leave(instance.id)
            self._since.put(instance.id, instance.since_s)
            line = self.line(instance.app_id)
            self._set_line(instance.app_id, line, line.added((instance.since_s, instance.id)))
        self.put(instance.id, instance.app_id)

    def drop(self, key: str) -> None:
        """Let an instance wait no more, if it does. Raises TypeError when the table is not open."""
        if key in self._since:
            self._own_order()
            self._leave(key)
        super().drop(key)

    def _own_order(self) -> None:
        before = self._before
        if before is None:
            raise TypeError("a table changes only while an event is handled")
        if self._since is before._since:
            self._since, self._lines = self._since.opened(), self._lines.opened()

    def _leave(self, key: str) -> None:
        self.run_specs.pop(key, None)
        since_s = self._since.get(key)
        if since_s is not None:
            self._since.drop(key)
            line = self.line(self[key])
            self._set_line(self[key], line, line.without((since_s, key)))

    def _set_line(self, app_id: str, before: Turns, after: Turns) -> None:
        if after:
            self._lines.put(app_id, after)
        else:
            self._lines.drop(app_id)
        first, now = before.first if before else None, after.first if after else None
        if first != now:
            heads = self.heads if first is None else self.heads.without(first)
            self.heads = heads if now is None else heads.added(now)

    def _with_order(self, table: Self) -> Self:
        table._since, table._lines = self._since, self._lines
        table.heads, table.run_specs = self.heads, self.run_specs
        return table
