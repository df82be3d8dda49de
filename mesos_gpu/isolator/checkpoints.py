"""Which GPUs each container holds, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import container_id_of, file_name_of, gpus_of, lost_gpus_of
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.record_folder import RecordFolder
from mesos_gpu.mesos.ids import ContainerId

_log = logging.getLogger(__name__)
_SUFFIX = ".json"


class _Document(msgspec.Struct):
    container_id: ContainerId
    gpus: list[HeldGpu]


class Checkpoints:
    """One JSON file per container that holds GPUs, in a directory of its own that is made when it is first needed.

    The first call locks the directory until `close` or the end of the process. Raises Conflict if another process or
    object has locked it, and in a process forked from this one. Thread-safe.

    With a `boot_id` (`mesos_gpu.boot.read_boot_id`) the records are those of this run of the machine, in a folder of
    that name: no container outlasts its machine, so none of them needs to outlast a power failure, and nobody waits
    for the disk. Those of another run are gone with its containers, however much of them is still there.
    """

    def __init__(self, directory: Path, boot_id: str | None = None) -> None:
        self._records = RecordFolder(directory)
        self._boot_id = None if boot_id is None else file_name_of(boot_id, "a boot id")
        self._directory = self._records.path

    def claim(self, owner: object) -> None:
        """Reserve the directory for `owner`, an isolator, until `close`. Raises Conflict, Unavailable."""
        self._records.claim(owner)

    def close(self) -> None:
        """Unlock the directory; the records stay."""
        self._records.close()

    def save(self, container_id: str, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        """Record that the container holds `gpus`, and was given `lost` ones; it lasts as long as containers do.

        Raises BadInput for an invalid id; Unavailable if the file cannot be written, and then the record is unchanged,
        or if the new record might not survive a power failure.
        """
        name = container_id_of(container_id)
        path = self._path(name)
        gone = sorted(lost_gpus_of(lost), key=lambda was: was.uuid)
        held = [*map(HeldGpu.of, sorted(gpus_of(gpus))), *gone]
        durable = self._boot_id is None
        with self._records:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, msgspec.json.encode(_Document(name, held)), mode=0o600, durable=durable)
            except OSError as error:
                raise Unavailable(f"cannot record the GPUs of container {name} in {path}: {error}") from error
            if not durable:
                with suppress(OSError):
                    self._older(path).unlink(missing_ok=True)

    def has(self, container_id: str) -> bool:
        """Return whether the container is on record. Raises BadInput."""
        path = self._path(container_id_of(container_id))
        with self._records:
            return path.exists() or self._older(path).exists()

    def remove(self, container_id: str) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput.

        A record that comes back after a power failure is that of an orphan, and cleaned up as one; once its GPUs are
        on another's record it cannot come back, for both names are in one directory.
        """
        path = self._path(container_id_of(container_id))
        with self._records:
            try:
                # The one that counts last: where the other cannot be removed, all is as it was.
                self._older(path).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
            except OSError as error:
                raise Unavailable(f"cannot remove {path}: {error}") from error

    def load(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        """Return what every container holds. Raises Unavailable naming the file that cannot be read or understood."""
        held: dict[ContainerId, frozenset[HeldGpu]] = {}
        with self._records:
            for path in self._paths():
                document = _read(path)
                held[document.container_id] = frozenset(document.gpus)
        return held

    def _paths(self) -> list[Path]:
        """Return the files of all records; remove incomplete files of killed processes. Raises Unavailable."""
        paths: list[Path] = []
        try:
            self._drop_other_runs()
            # Those of this run of the machine come last, and count where both are there.
            for folder in dict.fromkeys((self._directory, self._folder)):
                for half_written in folder.glob(".*.tmp"):
                    half_written.unlink(missing_ok=True)
                paths += sorted(folder.glob(f"[!.]*{_SUFFIX}"))
        except OSError as error:
            raise Unavailable(f"cannot read {self._directory}: {error}") from error
        return paths

    def _older(self, path: Path) -> Path:
        """Return where a process without boot ids has left the record; it does not count where the other is there."""
        return self._directory / path.name

    def _path(self, container_id: ContainerId) -> Path:
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
        if f"{container_id_of(document.container_id)}{_SUFFIX}" != path.name:
            raise msgspec.ValidationError(f"it is about container {document.container_id}")
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error}") from error
    except (msgspec.DecodeError, BadInput) as error:
        # Guessing here could give one GPU to two containers.
        raise Unavailable(
            f"{path} does not say which GPUs its container holds ({error}); "
            "once that container is gone, remove the file and start again"
        ) from error
    return document
