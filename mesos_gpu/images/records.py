"""What the store writes down of images, layers and who uses them: one JSON file each, replaced whole."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is whole. Times are Unix time; `used_at_s` is when it was last pulled, used or released.

    `boot_id` names the boot in which it was pulled; empty once it is known to outlast a power failure.
    """

    reference: str
    digest: str
    config: ImageConfig
    pulled_at_s: float
    used_at_s: float
    boot_id: str


class LayerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that is whole, at least until the boot `boot_id` ends."""

    diff_id: str
    bytes: int
    entries: int
    boot_id: str


class UseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A container uses an image, so its layers must stay."""

    container_id: ContainerId
    reference: str
    digest: str
    diff_ids: tuple[str, ...]


Record = TypeVar("Record", bound=msgspec.Struct)


class Records(Generic[Record]):
    """The records of one kind in a folder, by a name of any characters."""

    def __init__(self, folder: Path, kind: type[Record], name_of: Callable[[Record], str]) -> None:
        self._folder, self._decoder, self._name_of = folder, msgspec.json.Decoder(kind), name_of

    def save(self, name: str, record: Record) -> None:
        """Replace a record; after a kill at any moment the old or the new one is there, whole. Raises OSError."""
        write_record(self._path(name), record)

    def forget(self, name: str) -> None:
        """Remove a record; nothing happens without one. Raises OSError."""
        self._path(name).unlink(missing_ok=True)

    def load(self, wanted: Collection[str] = ()) -> tuple[list[Record], list[str]]:
        """Return all that can be read, and those of `wanted` whose record is there but cannot be.

        Other records that cannot be read are removed. Makes the folder if need be. Raises OSError.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        names = {self._path(name): name for name in wanted}
        found, damaged = [], []
        for path in sorted(self._folder.iterdir()):
            try:
                if path.suffix != ".json":
                    raise msgspec.DecodeError
                record = self._decoder.decode(path.read_bytes())
                if path != self._path(self._name_of(record)):
                    raise msgspec.DecodeError
                found.append(record)
            except msgspec.DecodeError:
                if path.suffix == ".json":
                    log.warning("%s is damaged", path)
                if path in names:
                    damaged.append(names[path])
                else:
                    path.unlink()
        return found, damaged

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Write a record whole. Raises OSError."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(record))
    os.replace(new, path)  # noqa: PTH105 - as in every other atomic write
