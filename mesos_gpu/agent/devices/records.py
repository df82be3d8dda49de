"""Which devices containers hold, and what their plugins answered, on disk: written before a container may have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.base.records import Record
from mesos_gpu.mesos.ids import ContainerId


class Held(msgspec.Struct, frozen=True):
    """What a container holds of one resource; `answer`: the plugin's ContainerAllocateResponse, None before it."""

    ids: list[str]
    answer: dict[str, Any] | None = None


Records = Mapping[ContainerId, Mapping[str, Held]]


class DeviceRecords:
    """One JSON file with all containers that hold devices."""

    def __init__(self, path: Path) -> None:
        self._record = Record(
            path,
            dict[ContainerId, dict[str, Held]],
            what="the list of devices that containers hold",
            advice="remove the file once no container uses devices",
        )

    def load(self) -> dict[ContainerId, dict[str, Held]]:
        """Return what is held. Raises Unavailable when that cannot be read: guessing could give a device to two."""
        return self._record.load() or {}

    def save(self, records: Records) -> None:
        """Write what is held; it lasts when this returns. Raises Unavailable, and then the record is as it was."""
        self._record.save({container_id: dict(held) for container_id, held in records.items()})
