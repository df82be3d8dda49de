"""What became of the offers while an app waited for one: the numbers behind /v2/queue.

Source: Marathon core/launchqueue/impl/OfferMatchStatistics.scala, raml/QueueInfoConversion.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.state.table import Table
from mesos_gpu.mesos.documents import OfferDocument


class UnusedOffer(Struct, frozen=True):
    """The last offer of one agent that did not fit, and why."""

    offer: OfferDocument
    reasons: tuple[Reason, ...]
    at_s: float


class Place(Struct, frozen=True):
    """How near an app is to its start, where an order of what waits was asked for. The first has `number` 1.

    Of the `size` members of its next gang (1 for an app without) `fits` have a place now.
    """

    number: int
    fits: int
    size: int
    at_s: float | None = None
    """When it will have what it waits for at the latest, infinite for when others end that say no time; None: nobody
    knows."""
    behind: str | None = None
    """The app for which machines are kept before this one."""


class QueueEntry(Struct, frozen=True):
    """One app's time in the queue. `rejected` counts offers by their first reason since the last launch."""

    since_s: float
    processed: int = 0
    unused: int = 0
    last_unused_s: float | None = None
    last_used_s: float | None = None
    rejected: Mapping[Reason, int] = field(default_factory=dict)
    last_offers: Table[UnusedOffer] = field(default_factory=Table)
    """By agent id: of thousands, of which an event changes few."""

    def used(self, now_s: float) -> QueueEntry:
        """Return the entry after an offer that fitted."""
        return replace(self, processed=self.processed + 1, last_used_s=now_s, rejected={})


def funnel(counts: Mapping[Reason, int], processed: int) -> list[dict[str, Any]]:
    """Return Marathon's summary: every reason in order, each seeing what the ones before it let through."""
    rows = []
    for reason in Reason:
        declined = counts.get(reason, 0)
        rows.append({"reason": reason.value, "declined": declined, "processed": processed})
        processed -= declined
    return rows
