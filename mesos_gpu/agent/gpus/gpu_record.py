"""Which GPUs are withdrawn, on disk: what an agent found unhealthy is so for its next process too."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mesos_gpu.base.records import Record
from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.health import WITHDRAWN, Condition, Illness

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct):
    condition: Condition
    reason: str
    since: float
    xid: int | None = None


class HealthRecord:
    """One JSON file, an entry per withdrawn GPU by its uuid; also of GPUs that are not here at the moment."""

    def __init__(self, path: Path) -> None:
        self._record = Record(
            path,
            dict[str, _Entry],
            what="the list of unhealthy GPUs",
            advice="remove the file once all GPUs are healthy",
        )

    def load(self) -> dict[str, Illness]:
        """Return what was withdrawn. Raises Unavailable when that cannot be read: a guess might give one."""
        entries = self._record.load() or {}
        return {uuid: Illness(one.condition, one.reason, one.since, one.xid) for uuid, one in entries.items()}

    def save(self, ill: Mapping[str, Illness]) -> None:
        """Write what is withdrawn. A GPU that is merely suspect is not: the next process hears of it again."""
        entries = {
            uuid: _Entry(illness.condition, illness.reason, illness.since, illness.xid)
            for uuid, illness in sorted(ill.items())
            if illness.condition in WITHDRAWN
        }
        try:
            self._record.save(entries)
        except Unavailable as error:
            # Still withdrawn; only a next process would not know.
            log.error("%s", error)
