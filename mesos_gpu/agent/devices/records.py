"""Which devices containers hold, and what their plugins answered, on disk: written before a container may have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.mesos.ids import ContainerId


class Held(msgspec.Struct, frozen=True):
    """What a container holds of one resource; `answer`: the plugin's ContainerAllocateResponse, None before it."""

    ids: list[str]
    answer: dict[str, Any] | None = None


Records = Mapping[ContainerId, Mapping[str, Held]]


class DeviceRecords:
    """One JSON file with all containers that hold devices."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[ContainerId, dict[str, Held]]:
        """Return what is held. Raises Unavailable when that cannot be read: guessing could give a device to two."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, dict[str, Held]])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"{self._path} does not say which devices containers hold ({error}); remove it once none of them runs"
            ) from error
        return {ContainerId(name): held for name, held in found.items()}

    def save(self, records: Records) -> None:
        """Write down what is held; it lasts when this returns. Raises Unavailable, and then the record is as it was."""
        try:
            write_whole(self._path, msgspec.json.encode(records), mode=0o600)
        except OSError as error:
            raise Unavailable(f"cannot write down which devices are held: {error}") from error
