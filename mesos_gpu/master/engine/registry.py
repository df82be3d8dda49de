"""What a master must remember over its restarts: which agents are its own. One JSON document, replaced whole.

It is a file, or, of several masters, a value in ZooKeeper that only the leading one can write. Reading and writing wait
for disks and networks: the registrar does both, off the event loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from mesos_gpu.base.files import sync_folder, write_whole
from mesos_gpu.errors import Unavailable
from mesos_gpu.master.model.record import Record


class Keeper(Protocol):
    """Where the document lies. `str()` names the place for people."""

    def read(self) -> bytes | None:
        """Return the document, None when there is none yet. Raises Unavailable."""

    def write(self, data: bytes) -> None:
        """Replace the document, for good when this returns. Raises Unavailable."""


class FileKeeper:
    """The file `registry.json` under the master's work directory."""

    def __init__(self, work_dir: Path) -> None:
        """Make the directory. Raises Unavailable when it cannot be made."""
        self.path = work_dir / "registry.json"
        try:
            work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(work_dir.parent)  # what is synced in a folder outlives a power cut only if the folder does
        except OSError as error:
            raise Unavailable(f"cannot make the work directory {work_dir}: {error.strerror}") from None

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> bytes | None:
        """Return what the file holds, None without one. Raises Unavailable."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read the registry {self}: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """Replace the file, whole or not at all, and sync it. Raises Unavailable."""
        try:
            write_whole(self.path, data)
        except OSError as error:
            raise Unavailable(f"cannot write the registry {self}: {error.strerror}") from None


class Registry:
    """The document, read and written through a keeper. It may be used from any one thread at a time."""

    def __init__(self, keeper: Path | Keeper) -> None:
        """Keep it below a work directory, or wherever `keeper` does. Raises Unavailable."""
        self._keeper: Keeper = FileKeeper(keeper) if isinstance(keeper, Path) else keeper
        self.size = 0
        """Bytes of the document as it was last read or written."""

    def load(self) -> Record:
        """Return what is kept, an empty record on a first start. Raises Unavailable on a document that is not ours."""
        data = self._keeper.read()
        if data is None:
            return Record()
        self.size = len(data)
        try:
            return Record.from_document(msgspec.json.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(
                f"the registry {self._keeper} is damaged ({error}); move it away to start without known agents"
            ) from None

    def save(self, record: Record) -> None:
        """Put the registry on disk, whole or not at all. Raises Unavailable when it cannot be written."""
        data = msgspec.json.format(msgspec.json.encode(record.to_document()), indent=1)
        self._keeper.write(data)
        self.size = len(data)
