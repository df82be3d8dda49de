"""What programs that list GPUs are told in a container with a part of a simulated card: the size of that part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import container_id_of
from mesos_gpu.isolator.driver_tree import gpu_table
from mesos_gpu.isolator.plan import BindMount
from mesos_gpu.isolator.volume import CONTAINER_PATH, NvidiaVolume

_NAME = "gpus"


class ShareTables:
    """One table per container in `directory`, shown in the place of the one that is in the driver's volume."""

    def __init__(self, directory: Path, volume: NvidiaVolume, gpus: Iterable[Gpu], version: str | None) -> None:
        self._directory, self._volume, self._version = directory, volume, version
        self._gpus = tuple(gpus)

    def show(self, container_id: str, memory_mib: Mapping[int, int], *, image: bool) -> BindMount:
        """Write the table in which cards, by index, have so much memory; return its mount. Raises Unavailable."""
        path = self._path(container_id)
        try:
            # Not durable: it is written for a container, which ends with the machine.
            write_whole(path, self._table(memory_mib), mode=PUBLIC, durable=False, folder_mode=0o755)
        except OSError as error:
            raise Unavailable(f"cannot write {path}: {error}") from error
        return BindMount(str(path), f"{CONTAINER_PATH if image else self._volume.host_path}/{_NAME}")

    def change(self, container_id: str, memory_mib: Mapping[int, int]) -> None:
        """Show a container other parts: in the file that it sees, which another of that name would not be.

        Raises Unavailable.
        """
        path = self._path(container_id)
        try:
            if path.exists():
                path.write_bytes(self._table(memory_mib))
        except OSError as error:
            raise Unavailable(f"cannot write {path}: {error}") from error

    def _table(self, memory_mib: Mapping[int, int]) -> bytes:
        told = [replace(gpu, memory_mib=memory_mib.get(gpu.index, gpu.memory_mib)) for gpu in self._gpus]
        return gpu_table(told, self._version).encode()

    def remove(self, container_id: str) -> None:
        """Forget a container that is gone. Raises Unavailable."""
        try:
            self._path(container_id).unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot remove {self._path(container_id)}: {error}") from error

    def _path(self, container_id: str) -> Path:
        return self._directory / f"{container_id_of(container_id)}.gpus"
