"""Which GPUs each container holds, on disk: written before a container may use them, removed after it is gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mesos_gpu.base.records import SUFFIX, Records
from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import container_id_of, file_name_of, gpus_of, lost_gpus_of
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.record_folder import RecordFolder
from mesos_gpu.mesos.ids import ContainerId


class _Document(msgspec.Struct):
    container_id: ContainerId
    gpus: list[HeldGpu]


class Checkpoints:
    """One JSON file per container that holds GPUs, in a directory of its own that is made when it is first needed.

    The first call locks the directory until `close` or the end of the process. Raises Conflict if another process or
    object has locked it, and in a process forked from this one. Thread-safe.

    With a `boot_id` (`base.linux.processes.read_boot_id`) the records are those of this run of the machine, in a folder
    of that name: no container outlasts its machine, so none of them needs to outlast a power failure, and nobody waits
    for the disk. Those of another run are gone with its containers, however much of them is still there.
    """

    def __init__(self, directory: Path, boot_id: str | None = None) -> None:
        self._folder = RecordFolder(directory)
        self._boot_id = None if boot_id is None else file_name_of(boot_id, "a boot id")
        self._directory = self._folder.path
        self._older = _records(self._directory, durable=True)
        """What a process without boot ids has left; a record here does not count if `_records` has it too."""
        self._records = self._older
        if self._boot_id is not None:
            self._records = _records(self._directory / self._boot_id, durable=False)

    def claim(self, owner: object) -> None:
        """Reserve the directory for `owner`, an isolator, until `close`. Raises Conflict, Unavailable."""
        self._folder.claim(owner)

    def close(self) -> None:
        """Unlock the directory; the records stay."""
        self._folder.close()

    def save(self, container_id: str, gpus: Iterable[Gpu], lost: Iterable[HeldGpu] = ()) -> None:
        """Record that the container holds `gpus`, and was given `lost` ones; it lasts as long as containers do.

        Raises BadInput for an invalid id; Unavailable if the file cannot be written, and then the record is unchanged,
        or if the new record might not survive a power failure.
        """
        name = container_id_of(container_id)
        gone = sorted(lost_gpus_of(lost), key=lambda was: was.uuid)
        held = [*map(HeldGpu.of, sorted(gpus_of(gpus))), *gone]
        with self._folder:
            try:
                self._records.save(_Document(name, held))
            except OSError as error:
                path = self._records.path(name)
                raise Unavailable(f"cannot record the GPUs of container {name} in {path}: {error}") from error
            if self._older is not self._records:
                with suppress(OSError):
                    self._older.forget(name)

    def has(self, container_id: str) -> bool:
        """Return whether the container is on record. Raises BadInput."""
        name = container_id_of(container_id)
        with self._folder:
            return self._records.has(name) or self._older.has(name)

    def remove(self, container_id: str) -> None:
        """Forget the container; nothing happens when it has no record. Raises Unavailable, BadInput.

        A record that comes back after a power failure is that of an orphan, and cleaned up as one; once its GPUs are
        on another's record it cannot come back, for both names are in one directory.
        """
        name = container_id_of(container_id)
        with self._folder:
            try:
                # Remove the record that counts last: if the other removal fails, the old state is still valid.
                self._older.forget(name)
                self._records.forget(name)
            except OSError as error:
                raise Unavailable(f"cannot remove {self._records.path(name)}: {error}") from error

    def load(self) -> Mapping[ContainerId, frozenset[HeldGpu]]:
        """Return what every container holds. Raises Unavailable naming the file that cannot be read or understood."""
        found: dict[str, _Document] = {}
        with self._folder:
            try:
                self._drop_other_runs()
                # Records of this run of the machine come last, and replace older ones of the same container.
                for records in dict.fromkeys((self._older, self._records)):
                    known, damaged = records.load()
                    if damaged:
                        raise damaged[0]  # guessing could give one GPU to two containers
                    found |= known
            except OSError as error:
                raise Unavailable(f"cannot read the GPU records in {self._directory}: {error}") from error
        return {one.container_id: frozenset(one.gpus) for one in found.values()}

    def _drop_other_runs(self) -> None:
        """Remove the folders of other runs of the machine. Raises OSError."""
        if self._boot_id is None or not self._directory.is_dir():
            return
        for entry in self._directory.iterdir():
            if entry.name != self._boot_id and entry.suffix != SUFFIX and entry.is_dir():
                shutil.rmtree(entry)


def _records(folder: Path, *, durable: bool) -> Records[_Document]:
    return Records(
        folder,
        _Document,
        lambda document: document.container_id,
        what="the GPUs of its container",
        advice="once that container has ended, remove the file and start again",
        durable=durable,
    )
