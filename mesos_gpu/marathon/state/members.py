"""Which instances each app has, while one event is handled: added and taken away one by one, thousands of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class Members:
    """Ids of instances by the id of their app; the sets of an app are copied at its first change."""

    def __init__(self, base: Mapping[str, frozenset[str]]) -> None:
        self._base = base
        self._own: dict[str, set[str]] = {}

    def of(self, app_id: str) -> Collection[str]:
        """Return the ids of an app's instances; not to be walked over while they change."""
        own = self._own.get(app_id)
        return self._base.get(app_id, frozenset()) if own is None else own

    def add(self, app_id: str, instance_id: str) -> None:
        """Let an app have an instance."""
        if instance_id not in self.of(app_id):
            self._mine(app_id).add(instance_id)

    def discard(self, app_id: str, instance_id: str) -> None:
        """Let an app have an instance no more; nothing happens when it has not."""
        if instance_id in self.of(app_id):
            self._mine(app_id).discard(instance_id)

    @property
    def result(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of every app that has some."""
        if not self._own:
            return self._base
        merged = {**self._base, **{app_id: frozenset(ids) for app_id, ids in self._own.items()}}
        return {app_id: ids for app_id, ids in merged.items() if ids}

    def _mine(self, app_id: str) -> set[str]:
        own = self._own.get(app_id)
        if own is None:
            own = self._own[app_id] = set(self._base.get(app_id, ()))
        return own
