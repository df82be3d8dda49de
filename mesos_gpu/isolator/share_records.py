"""Which containers share which cards, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.isolator.arguments import container_id_of, lost_gpus_of, share_of
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.record_folder import RecordFolder
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share

_SUFFIX = ".json"


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
        self._records = RecordFolder(directory)
        self._directory = self._records.path

    def claim(self, owner: object) -> None:
        """Reserve the directory for `owner`, an isolator, until `close`. Raises Conflict, Unavailable."""
        self._records.claim(owner)

    def close(self) -> None:
        """Unlock the directory; the records stay."""
        self._records.close()

    def save(self, container_id: str, share: Share, gpus: Iterable[HeldGpu] = ()) -> None:
        """Record a share, and the cards that the container can open; it lasts when this returns.

        Raises BadInput for an id that names no file, Unavailable.
        """
        opens = sorted(lost_gpus_of(gpus), key=lambda was: (was.minor, was.uuid))
        document = _Document(container_id_of(container_id), share_of(share), opens)
        path = self._path(document.container_id)
        with self._records:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, msgspec.json.encode(document), mode=0o600)
            except OSError as error:
                raise Unavailable(
                    f"cannot record the GPU share of container {container_id} in {path}: {error}"
                ) from error

    def remove(self, container_id: str) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput."""
        path = self._path(container_id_of(container_id))
        with self._records:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise Unavailable(f"cannot remove {path}: {error}") from error

    def load(self) -> Mapping[ContainerId, Recorded]:
        """Return every share. Raises Unavailable naming the file that cannot be read or understood."""
        found: dict[ContainerId, Recorded] = {}
        with self._records:
            try:
                for half_written in self._directory.glob(".*.tmp"):
                    half_written.unlink(missing_ok=True)
                for path in sorted(self._directory.glob(f"[!.]*{_SUFFIX}")):
                    document = msgspec.json.decode(path.read_bytes(), type=_Document)
                    if f"{container_id_of(document.container_id)}{_SUFFIX}" != path.name:
                        raise msgspec.ValidationError(f"it is about container {document.container_id}")
                    found[document.container_id] = Recorded(document.share, tuple(document.gpus))
            except OSError as error:
                raise Unavailable(f"cannot read {self._directory}: {error}") from error
            except (msgspec.DecodeError, BadInput) as error:
                raise Unavailable(
                    f"{path} does not say what its container shares ({error}); once that container is gone, remove the "
                    "file and start again"
                ) from error
        return found

    def _path(self, container_id: ContainerId) -> Path:
        return self._directory / f"{container_id}{_SUFFIX}"
