"""Which instances each app has: added and taken away one by one while an event is handled, thousands of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from typing_extensions import Self

from mesos_gpu.marathon.state.table import Table

_NOBODY: frozenset[str] = frozenset()


class Members(Table[frozenset[str]]):
    """Ids of instances by the id of their app, of apps that have some.

    The set of an app is copied at its first change. While the table is open it is asked with `of`; what its rows say
    is from before.
    """

    __slots__ = ("_changed",)

    def __init__(self, rows: Mapping[str, frozenset[str]] | None = None) -> None:
        super().__init__(rows)
        self._changed: dict[str, set[str]] = {}

    def _again(self) -> Self:
        table = super()._again()
        table._changed = {}
        return table

    def of(self, app_id: str) -> Collection[str]:
        """Return the ids of an app's instances; not to be walked over while they change."""
        changed = self._changed.get(app_id)
        return self.get(app_id, _NOBODY) if changed is None else changed

    def add(self, app_id: str, instance_id: str) -> None:
        """Let an app have an instance."""
        if instance_id not in self.of(app_id):
            self._set(app_id).add(instance_id)

    def discard(self, app_id: str, instance_id: str) -> None:
        """Take an instance from an app; nothing happens when it does not have it."""
        if instance_id in self.of(app_id):
            self._set(app_id).discard(instance_id)

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        for app_id, ids in self._changed.items():
            if ids:
                self.put(app_id, frozenset(ids))
            else:
                self.drop(app_id)
        return super().closed()

    def _set(self, app_id: str) -> set[str]:
        changed = self._changed.get(app_id)
        if changed is None:
            changed = self._changed[app_id] = set(self.get(app_id, ()))
        return changed
