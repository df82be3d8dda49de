"""The entries behind /v2/queue, of apps by the thousand that one offer does not suit: counted when somebody asks."""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from typing_extensions import Self

from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.state.queue_entry import QueueEntry, UnusedOffer
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId

_MOST = 64
"""So many offers are kept uncounted; then all are counted, so that what was offered is not kept for ever."""


@dataclass(frozen=True, slots=True)
class Unsuited:
    """An offer, and why it did not do for each app that was tried on it."""

    agent_id: AgentId
    offer: OfferDocument
    at_s: float
    apps: Mapping[str, tuple[Reason, ...]]
    _shared: dict[tuple[Reason, ...], UnusedOffer] = field(default_factory=dict, compare=False, repr=False)

    def for_reasons(self, reasons: tuple[Reason, ...]) -> UnusedOffer:
        """Return it as it is kept for each app that it did not do for, for the same reasons: one for all of these."""
        found = self._shared.get(reasons)
        if found is None:
            found = self._shared[reasons] = UnusedOffer(self.offer, reasons, self.at_s)
        return found


class Queue(Table[QueueEntry]):
    """Entries by app id. Offers that did not suit are noted as they come, once for all apps (`note`).

    What is asked for is counted then; whatever way it is read, nothing of this shows.
    """

    # What was noted is put into the rows behind the table's back: they are one mapping, and copied at a change.
    _few = sys.maxsize
    __slots__ = ("_noted", "_passed")

    def __init__(self, rows: Mapping[str, QueueEntry] | None = None) -> None:
        super().__init__(rows)
        self._noted: tuple[Unsuited, ...] = ()
        self._passed: Mapping[str, int] = {}
        """How many of those that were noted are in an app's entry, or came before it was forgotten."""

    def opened(self) -> Self:
        """Return a table of the same entries that can be changed."""
        return self._with_notes(super().opened())

    def closed(self) -> Self:
        """Return the table with all changes; the one that was opened when there are none."""
        before = self._before
        if before is None:
            return self
        if len(self._noted) >= _MOST:
            self._count()
        closed = super().closed()
        mine, theirs = (self._noted, self._passed, self._rows), (before._noted, before._passed, before._rows)
        if closed is before and any(one is not other for one, other in zip(mine, theirs, strict=True)):
            closed = type(self)(self._rows)
        return closed if closed is before else self._with_notes(closed)

    def note(self, unsuited: Unsuited) -> None:
        """Take note of an offer that did not do. Raises TypeError when the table is not open."""
        if self._before is None:
            raise TypeError("a table changes only while an event is handled")
        if unsuited.apps:
            self._noted = (*self._noted, unsuited)

    def put(self, key: str, value: QueueEntry) -> None:
        """Set an app's entry, with all that was noted. Raises TypeError when the table is not open."""
        super().put(key, value)
        self._pass(key)

    def drop(self, key: str) -> None:
        """Forget an app, and what was noted of it. Raises TypeError when the table is not open."""
        super().drop(key)
        self._pass(key)

    def get(self, key: str, default: Any = None, /) -> Any:
        """Return an app's entry, `default` when there is none."""
        found = self._counted(key, self._rows.get(key))
        return default if found is None else found

    def __getitem__(self, key: str) -> QueueEntry:
        found = self._counted(key, self._rows.get(key))
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._count())

    def __len__(self) -> int:
        return len(self._count())

    def keys(self) -> KeysView[str]:
        """Return a view of the ids."""
        return self._count().keys()

    def values(self) -> ValuesView[QueueEntry]:
        """Return a view of the entries."""
        return self._count().values()

    def items(self) -> ItemsView[str, QueueEntry]:
        """Return a view of ids and entries."""
        return self._count().items()

    def _count(self) -> Mapping[str, QueueEntry]:
        """Return the entries with all that was noted; of a table that is open they are put into it."""
        if not self._noted:
            return self._rows
        ids = dict.fromkeys((*self._rows, *(key for each in self._noted for key in each.apps)))
        found = {key: self._counted(key, self._rows.get(key)) for key in ids}
        entries = {key: entry for key, entry in found.items() if entry is not None}
        if self._before is not None:
            self._rows, self._noted, self._passed = entries, (), {}
        return entries

    def _counted(self, key: str, entry: QueueEntry | None) -> QueueEntry | None:
        new = [each for each in self._noted[self._passed.get(key, 0) :] if key in each.apps]
        return counted(entry, key, new) if new else entry

    def _pass(self, key: str) -> None:
        if self._noted:
            self._passed = {**self._passed, key: len(self._noted)}

    def _with_notes(self, table: Self) -> Self:
        table._noted, table._passed = self._noted, self._passed
        return table


def counted(entry: QueueEntry | None, app_id: str, unsuited: Sequence[Unsuited]) -> QueueEntry:
    """Return an app's entry after offers that did not do, a new one where there was none."""
    entry = entry or QueueEntry(unsuited[0].at_s)
    rejected, last_offers = dict(entry.rejected), entry.last_offers.opened()
    for each in unsuited:
        reasons = each.apps[app_id]
        rejected[reasons[0]] = rejected.get(reasons[0], 0) + 1
        last_offers.put(each.agent_id, each.for_reasons(reasons))
    return replace(
        entry,
        processed=entry.processed + len(unsuited),
        unused=entry.unused + len(unsuited),
        last_unused_s=unsuited[-1].at_s,
        rejected=rejected,
        last_offers=last_offers.closed(),
    )
