"""Which GPUs are lent to whom, on disk: written before a holder may use them, removed when it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from mesos_gpu.agent.model.leases import Watch
from mesos_gpu.base.records import Record
from mesos_gpu.isolator.reach import HeldGpu


class LeaseRecord(msgspec.Struct, frozen=True):
    """A lease as it is written."""

    id: str
    door: str
    holder: str
    container: str
    gpus: list[HeldGpu]
    since: float
    watch: Watch


class LeaseRecords:
    """One JSON file with every lease of an agent."""

    def __init__(self, path: Path) -> None:
        self._record = Record(
            path,
            list[LeaseRecord],
            what="the list of leased GPUs",
            advice="remove the file once no process outside Mesos uses a GPU",
        )

    def load(self) -> list[LeaseRecord]:
        """Return the leases. Raises Unavailable when they cannot be read: guessing could give one GPU to two."""
        return self._record.load() or []

    def save(self, leases: Iterable[LeaseRecord]) -> None:
        """Write every lease; it lasts when this returns. Raises Unavailable, and then the record is as it was."""
        self._record.save(list(leases))
