"""Which GPUs each container holds, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.mesos.ids import ContainerId

_SUFFIX = ".json"


class _Document(msgspec.Struct):
    container_id: ContainerId
    gpus: list[HeldGpu]


class Checkpoints:
    """One JSON file per container that holds GPUs, in a directory of its own that is made when it is first needed.

    With a `boot_id` (`mesos_gpu.boot.read_boot_id`) the records are those of this run of the machine, in a folder of
    that name: no container outlasts its machine, so none of them needs to outlast a power failure, and nobody waits
    for the disk. Those of another run are gone with its containers, however much of them is still there.
    """

    def __init__(self, directory: Path, boot_id: str | None = None) -> None:
        self._directory, self._boot_id = directory, boot_id

    def save(self, container_id: ContainerId, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        """Record that the container holds `gpus`, and was given `lost` ones; it lasts as long as containers do.

        Raises BadInput when the id cannot be a file's name, Unavailable when the file cannot be written (and then the
        record is as it was).
        """
        path = self._path(container_id)
        held = [*map(HeldGpu.of, sorted(gpus)), *sorted(lost, key=lambda was: was.uuid)]
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            durable = self._boot_id is None
            write_whole(path, msgspec.json.encode(_Document(container_id, held)), mode=0o600, durable=durable)
        except OSError as error:
            raise Unavailable(f"cannot record the GPUs of container {container_id} in {path}: {error}") from error
        if not durable:
            with suppress(OSError):
                self._older(path).unlink(missing_ok=True)

    def has(self, container_id: ContainerId) -> bool:
        """Return whether the container is on record. Raises BadInput."""
        path = self._path(container_id)
        return path.exists() or self._older(path).exists()

    def remove(self, container_id: ContainerId) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput.

        A record that comes back after a power failure is that of an orphan, and cleaned up as one; once its GPUs are
        on another's record it cannot come back, for both names are in one directory.
        """
        path = self._path(container_id)
        try:
            # The one that counts last: where the other cannot be removed, all is as it was.
            self._older(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot remove {path}: {error}") from error

    def load(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        """Return what every container holds. Raises Unavailable naming the file that cannot be read or understood."""
        held: dict[ContainerId, frozenset[HeldGpu]] = {}
        try:
            self._drop_other_runs()
            paths: list[Path] = []
            # Those of this run of the machine come last, and count where both are there.
            for folder in dict.fromkeys((self._directory, self._folder)):
                for half_written in folder.glob(".*.tmp"):
                    half_written.unlink(missing_ok=True)
                paths += sorted(folder.glob(f"[!.]*{_SUFFIX}"))
        except OSError as error:
            raise Unavailable(f"cannot read {self._directory}: {error}") from error
        for path in paths:
            document = _read(path)
            held[document.container_id] = frozenset(document.gpus)
        return held

    def _older(self, path: Path) -> Path:
        """Return where a process without boot ids has left the record; it does not count where the other is there."""
        return self._directory / path.name

    def _path(self, container_id: ContainerId) -> Path:
        if not container_id or container_id.startswith(".") or "/" in container_id or "\0" in container_id:
            raise BadInput(f"'{container_id}' cannot be the id of a container")
        return self._folder / f"{container_id}{_SUFFIX}"

    @property
    def _folder(self) -> Path:
        return self._directory if self._boot_id is None else self._directory / self._boot_id

    def _drop_other_runs(self) -> None:
        """Remove the folders of other runs of the machine. Raises OSError."""
        if self._boot_id is None or not self._directory.is_dir():
            return
        for entry in self._directory.iterdir():
            if entry.name != self._boot_id and entry.suffix != _SUFFIX and entry.is_dir():
                shutil.rmtree(entry)


def _read(path: Path) -> _Document:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        if f"{document.container_id}{_SUFFIX}" != path.name:
            raise msgspec.ValidationError(f"it is about container {document.container_id}")
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error}") from error
    except msgspec.DecodeError as error:
        # Guessing here could give one GPU to two containers.
        raise Unavailable(
            f"{path} does not say which GPUs its container holds ({error}); "
            "once that container is gone, remove the file and start again"
        ) from error
    return document
