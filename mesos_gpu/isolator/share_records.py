"""Which containers share which cards, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.isolator.reach import HeldGpu
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
    """One JSON file per container with a share, in a directory of its own that is made when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, container_id: ContainerId, share: Share, gpus: Iterable[HeldGpu] = ()) -> None:
        """Record a share, and the cards that the container can open; it lasts when this returns.

        Raises BadInput for an id that names no file, Unavailable.
        """
        path = self._path(container_id)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(_Document(container_id, share, list(gpus))), mode=0o600)
        except OSError as error:
            raise Unavailable(f"cannot record the GPU share of container {container_id} in {path}: {error}") from error

    def remove(self, container_id: ContainerId) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput."""
        path = self._path(container_id)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot remove {path}: {error}") from error

    def load(self) -> Mapping[ContainerId, Recorded]:
        """Return every share. Raises Unavailable naming the file that cannot be read or understood."""
        found: dict[ContainerId, Recorded] = {}
        try:
            for half_written in self._directory.glob(".*.tmp"):
                half_written.unlink(missing_ok=True)
            for path in sorted(self._directory.glob(f"[!.]*{_SUFFIX}")):
                document = msgspec.json.decode(path.read_bytes(), type=_Document)
                found[document.container_id] = Recorded(document.share, tuple(document.gpus))
        except OSError as error:
            raise Unavailable(f"cannot read {self._directory}: {error}") from error
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{path} does not say what its container shares ({error}); once that container is gone, remove the "
                "file and start again"
            ) from error
        return found

    def _path(self, container_id: ContainerId) -> Path:
        if not container_id or container_id.startswith(".") or "/" in container_id or "\0" in container_id:
            raise BadInput(f"'{container_id}' cannot be the id of a container")
        return self._directory / f"{container_id}{_SUFFIX}"
