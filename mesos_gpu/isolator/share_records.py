"""Which containers share which cards, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mesos_gpu.base.records import Records
from mesos_gpu.errors import Unavailable
from mesos_gpu.isolator.arguments import container_id_of, lost_gpus_of, share_of
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.record_folder import RecordFolder
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share


class _Document(msgspec.Struct):
    container_id: ContainerId
    share: Share
    gpus: list[HeldGpu] = msgspec.field(default_factory=list)


class Recorded(msgspec.Struct, frozen=True):
    """What a container shares, and the cards it can open; without `gpus` the record is older than these."""

    share: Share
    gpus: tuple[HeldGpu, ...] = ()


class ShareRecords:
    """One JSON file per container with a share, in a directory of its own that is made when it is first needed.

    The first call locks the directory, as in Checkpoints.
    """

    def __init__(self, directory: Path) -> None:
        self._folder = RecordFolder(directory)
        self._records = Records(
            self._folder.path,
            _Document,
            lambda document: document.container_id,
            what="the GPU share of its container",
            advice="once that container has ended, remove the file and start again",
        )

    def claim(self, owner: object) -> None:
        """Reserve the directory for `owner`, an isolator, until `close`. Raises Conflict, Unavailable."""
        self._folder.claim(owner)

    def close(self) -> None:
        """Unlock the directory; the records stay."""
        self._folder.close()

    def save(self, container_id: str, share: Share, gpus: Iterable[HeldGpu] = ()) -> None:
        """Record a share, and the cards that the container can open; it lasts when this returns.

        Raises BadInput for an id that names no file, Unavailable.
        """
        opens = sorted(lost_gpus_of(gpus), key=lambda was: (was.minor, was.uuid))
        document = _Document(container_id_of(container_id), share_of(share), opens)
        with self._folder:
            try:
                self._records.save(document)
            except OSError as error:
                path = self._records.path(document.container_id)
                raise Unavailable(
                    f"cannot record the GPU share of container {container_id} in {path}: {error}"
                ) from error

    def remove(self, container_id: str) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput."""
        name = container_id_of(container_id)
        with self._folder:
            try:
                self._records.forget(name)
            except OSError as error:
                raise Unavailable(f"cannot remove {self._records.path(name)}: {error}") from error

    def load(self) -> Mapping[ContainerId, Recorded]:
        """Return every share. Raises Unavailable naming the file that cannot be read or understood."""
        with self._folder:
            try:
                found, damaged = self._records.load()
            except OSError as error:
                raise Unavailable(f"cannot read the records of GPU shares in {self._folder.path}: {error}") from error
        if damaged:
            raise damaged[0]
        return {one.container_id: Recorded(one.share, tuple(one.gpus)) for one in found.values()}
