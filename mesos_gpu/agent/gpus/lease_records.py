"""Which GPUs are lent to whom, on disk: written before a holder may use them, removed when it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from mesos_gpu.agent.model.leases import Watch
from mesos_gpu.errors import Unavailable
from mesos_gpu.isolator.files import write_whole
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
        self._path = path

    def load(self) -> list[LeaseRecord]:
        """Return the leases. Raises Unavailable when they cannot be read: guessing could give one GPU to two."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[LeaseRecord])
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            raise Unavailable(
                f"{self._path} does not say which GPUs are lent ({error}); remove it once nobody outside Mesos has any"
            ) from error

    def save(self, leases: Iterable[LeaseRecord]) -> None:
        """Write down every lease; it lasts when this returns. Raises Unavailable, and then the record is as it was."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(list(leases)), mode=0o600)
        except OSError as error:
            raise Unavailable(f"cannot write down which GPUs are lent: {error}") from error
