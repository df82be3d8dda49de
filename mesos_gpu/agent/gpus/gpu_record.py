"""Which GPUs are withdrawn, on disk: what an agent found unhealthy is so for its next process too."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.health import WITHDRAWN, Condition, Illness
from mesos_gpu.isolator.files import write_whole

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct):
    condition: str
    reason: str
    since: float
    xid: int | None = None


class HealthRecord:
    """One JSON file, an entry per withdrawn GPU by its uuid; also of GPUs that are not here at the moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, Illness]:
        """Return what was withdrawn. Raises Unavailable when that cannot be read: a guess might give one."""
        try:
            entries = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Entry])
            return {
                uuid: Illness(Condition(entry.condition), entry.reason, entry.since, entry.xid)
                for uuid, entry in entries.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            raise Unavailable(
                f"{self._path} does not say which GPUs are unhealthy ({error}); remove it when all of them are well"
            ) from error

    def save(self, ill: Mapping[str, Illness]) -> None:
        """Write down what is withdrawn. A GPU that is merely suspect is not: the next process hears of it again."""
        entries = {
            uuid: _Entry(illness.condition.value, illness.reason, illness.since, illness.xid)
            for uuid, illness in sorted(ill.items())
            if illness.condition in WITHDRAWN
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(entries), mode=0o600)
        except OSError as error:
            # Still withdrawn; only a next process would not know.
            log.error("cannot write down which GPUs are unhealthy: %s", error)
