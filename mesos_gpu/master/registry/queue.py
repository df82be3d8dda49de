"""Which changes of the registry wait, which are being written, and what may follow now. Pure: it writes nothing.

All that was asked for while a write was under way goes into the next one. What follows a change does so after the
write that holds it, in the order in which the changes were asked for, whether or not each changed anything.
Source: Mesos src/master/registrar.cpp (apply, update, _update).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from mesos_gpu.master.model.record import Record
from mesos_gpu.master.registry.operations import Operation

Follows = TypeVar("Follows")


class Batch(Struct, Generic[Follows], frozen=True):
    """Changes that become durable together: with `record` written, or at once where that is None."""

    record: Record | None
    follows: tuple[Follows, ...]


class RegistryQueue(Generic[Follows]):
    """The order of changes over one durable record. One batch at a time is out."""

    def __init__(self, record: Record) -> None:
        """Begin with what is durable."""
        self.durable = record
        self._waiting: deque[tuple[Operation, Follows]] = deque()
        self._out: Batch[Follows] | None = None

    def __len__(self) -> int:
        """Return how many changes are not durable yet."""
        return len(self._waiting) + (0 if self._out is None else len(self._out.follows))

    def ask(self, operation: Operation, follows: Follows) -> None:
        """Put a change at the end."""
        self._waiting.append((operation, follows))

    def take(self) -> Batch[Follows] | None:
        """Return what is to be written now, None while a batch is out or nothing waits."""
        if self._out is not None or not self._waiting:
            return None
        record, changed, follows = self.durable.copy(), False, []
        for operation, after in self._waiting:
            changed = operation.apply(record) or changed
            follows.append(after)
        self._waiting.clear()
        self._out = Batch(record if changed else None, tuple(follows))
        return self._out

    def done(self) -> Iterable[Follows]:
        """The batch is durable: return what follows, in order. Raises ValueError when none is out."""
        if self._out is None:
            raise ValueError("nothing is being written")
        batch, self._out = self._out, None
        if batch.record is not None:
            self.durable = batch.record
        return batch.follows
