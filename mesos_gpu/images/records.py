"""What the store records of images, layers and the containers that use them: one JSON file each."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import msgspec

from mesos_gpu.base.files import write_whole
from mesos_gpu.base.records import SUFFIX, Records, decoded
from mesos_gpu.errors import DamagedRecord
from mesos_gpu.images.manifest import ImageConfig
from mesos_gpu.mesos.ids import ContainerId

log = logging.getLogger(__name__)

T = TypeVar("T")
_ADVICE = "it is fetched again if it is needed"


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


def image_records(folder: Path) -> Records[ImageRecord]:
    """Return the records of images, by reference."""
    return _records(folder, ImageRecord, lambda record: record.reference, "an image")


def use_records(folder: Path) -> Records[UseRecord]:
    """Return the records of the containers that use images, by container id."""
    return _records(folder, UseRecord, lambda record: record.container_id, "the image that a container uses")


def save_layer(folder: Path, record: LayerRecord) -> None:
    """Write the record of a layer to its folder. Raises OSError."""
    write_whole(folder / "layer.json", msgspec.json.encode(record), durable=False)


def load_layer(folder: Path) -> LayerRecord | None:
    """Return the record in the folder of a layer; None if it is missing, damaged or cannot be read."""
    try:
        return decoded(folder / "layer.json", msgspec.json.Decoder(LayerRecord), "a layer", _ADVICE)
    except (OSError, DamagedRecord):
        return None


def load_or_remove(records: Records[T], wanted: Collection[str] = ()) -> tuple[list[T], list[str]]:
    """Return all values that can be read, and the names of `wanted` whose record is damaged.

    Other damaged records, and other files, are removed. Creates the folder if needed. Raises OSError.
    """
    records.folder.mkdir(mode=0o700, exist_ok=True)
    names = {records.path(name): name for name in wanted}
    for path in records.folder.iterdir():
        if path.suffix != SUFFIX:
            path.unlink()
    found, damaged = records.load()
    for one in damaged:
        log.warning("%s", one)
        if one.path not in names:
            one.path.unlink()
    return list(found.values()), [names[one.path] for one in damaged if one.path in names]


def _records(folder: Path, kind: type[T], name_of: Callable[[T], str], what: str) -> Records[T]:
    # Not durable: `boot_id` says whether a record is known to outlive a power failure.
    return Records(folder, kind, name_of, what=what, advice=_ADVICE, durable=False, file_name=_digest)


def _digest(name: str) -> str:
    """Return the file name of a name, which may contain any characters."""
    return hashlib.sha256(name.encode()).hexdigest()
