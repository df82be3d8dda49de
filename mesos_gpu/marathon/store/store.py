"""Where what lasts is kept: SQLite on one machine (sqlite.py), ZooKeeper on several (zookeeper.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mesos_gpu.marathon.state.actions import Save
from mesos_gpu.marathon.state.state import Lasting


class Store(Protocol):
    """One open store. To be used by one thread at a time, any thread; every method may wait for the disk or network."""

    def load(self) -> Lasting:
        """Return everything that was saved; from now on it is ours. Raises Unavailable when it cannot be read."""

    def refuse(self, change: Save) -> None:
        """Return when the store can hold this. Raises InvalidApp for a document that is too large for it."""

    def save(self, changes: Iterable[Save]) -> None:
        """Write all changes, in order, as one: after a crash either all of them are there or none.

        It returns when that is durable. Raises Unavailable when it cannot be, or the store is another's by now.
        """

    def close(self) -> None:
        """Give the store up."""
