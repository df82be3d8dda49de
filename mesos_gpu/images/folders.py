"""Where things lie in the store, and how they come and go so that a kill at any moment leaves nothing half there."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import stat
import time
from collections.abc import Collection
from pathlib import Path

from mesos_gpu.base.file_locks import locked
from mesos_gpu.base.linux import libc
from mesos_gpu.base.linux.processes import read_boot_id
from mesos_gpu.errors import Conflict, ImageError
from mesos_gpu.images.records import LayerRecord, load_layer, save_layer
from mesos_gpu.images.unpacked import Extracted

log = logging.getLogger(__name__)

DOWNLOADS_KEPT_S = 24 * 3600.0


class Folders:
    """The files of a store, below a folder that only its owner enters: layers keep set-user-ID bits."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.images, self.uses = self.directory / "images", self.directory / "uses"
        self._layers, self._downloads = self.directory / "layers", self.directory / "downloads"
        self._unpacking, self._trash = self.directory / "unpacking", self.directory / "trash"
        self._numbers = itertools.count()
        self._lock: int | None = None
        self.boot_id = read_boot_id()

    def open(self) -> None:
        """Make the store ours, and remove what an earlier run left unfinished; downloads of the last day are kept.

        Raises Conflict when another process has it, ImageError when it belongs to another user, OSError.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.directory.stat().st_uid != os.geteuid():
            raise ImageError(f"{self.directory} belongs to another user; choose another --docker_store_dir")
        self.directory.chmod(0o700)
        lock = locked(self.directory / "lock")
        if lock is None:
            raise Conflict(f"another process uses the image store {self.directory}; see --docker_store_dir")
        self._lock = lock
        for folder in (self._layers, self._downloads, self._unpacking, self._trash):
            folder.mkdir(mode=0o700, exist_ok=True)
        for path in [*self._unpacking.iterdir(), *self._trash.iterdir()]:
            shutil.rmtree(path)
        self.clean_downloads()

    def close(self) -> None:
        """Let others have the store."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clean_downloads(self) -> None:
        """Remove downloads that no one went on with for a day."""
        for path in self._downloads.iterdir():
            if time.time() - path.stat().st_mtime > DOWNLOADS_KEPT_S:
                path.unlink()

    def root(self, diff_id: str) -> Path:
        """Return the lowerdir of a layer, whether it is there or not."""
        return self._layers / _name(diff_id) / "root"

    def has(self, diff_id: str) -> bool:
        """Say whether a layer is there; then it is whole."""
        return (self._layers / _name(diff_id)).is_dir()

    def layers(self, used: Collection[str] | None = ()) -> list[LayerRecord]:
        """Return all layers; what is not a layer is removed, unless it is among those that are used, by diff ID.

        With None any may be used. A layer is in its place only when it is whole, so the record of one that is used can
        be made anew. Raises OSError.
        """
        found, kept = [], None if used is None else {_name(diff_id) for diff_id in used}
        for path in self._layers.iterdir():
            record = load_layer(path)
            if record is None or _name(record.diff_id) != path.name:
                if not (path / "root").is_dir() or (kept is not None and path.name not in kept):
                    shutil.rmtree(path)
                    continue
                log.warning("%s is damaged, and a container uses the layer: made anew", path / "layer.json")
                record = self._measured(path)
                save_layer(path, record)
            found.append(record)
        return found

    def _measured(self, path: Path) -> LayerRecord:
        """Return the record of a layer that containers of this boot use."""
        sizes = [entry.lstat() for entry in (path / "root").rglob("*")]
        files = {(one.st_dev, one.st_ino): one.st_size for one in sizes if stat.S_ISREG(one.st_mode)}
        diff_id = path.name.replace("-", ":", 1)
        return LayerRecord(diff_id=diff_id, bytes=sum(files.values()), entries=len(sizes), boot_id=self.boot_id)

    def download(self, digest: str) -> Path:
        """Return where a blob is downloaded to."""
        return self._downloads / _name(digest)

    def new_layer(self) -> Path:
        """Return a new folder in which a layer is made."""
        path = self._unpacking / str(next(self._numbers))
        path.mkdir(mode=0o700)
        return path

    def commit_layer(self, made: Path, diff_id: str, extracted: Extracted) -> LayerRecord:
        """Put a finished layer, unpacked to `made`/root, in its place."""
        record = LayerRecord(diff_id=diff_id, bytes=extracted.bytes, entries=extracted.entries, boot_id=self.boot_id)
        save_layer(made, record)
        made.rename(self._layers / _name(diff_id))
        return record

    def sync(self) -> None:
        """Make all that is there outlast a power failure; may take seconds. Raises OSError."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            libc.sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def discard_layer(self, diff_id: str) -> Path:
        """Take a layer out of its place at once; return the folder that is left to be removed."""
        path = self._trash / str(next(self._numbers))
        (self._layers / _name(diff_id)).rename(path)
        return path


def _name(digest: str) -> str:
    return digest.replace(":", "-")
