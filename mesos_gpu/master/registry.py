"""What a master must remember over its restarts: which agents are its own. One JSON document, replaced whole.

It is a file, or, of several masters, a value in ZooKeeper that only the leading one can write; and it is kept before an
agent hears its id, as Mesos' registrar does it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.model import KnownAgent
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.timers import Timer

MAX_MASTERS = 100
"""Ids of earlier masters kept, for people who read the file."""


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
            work_dir.mkdir(parents=True, exist_ok=True)
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
        temporary = self.path.with_suffix(".new")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise Unavailable(f"cannot write the registry {self}: {error.strerror}") from None


class Registry:
    """The document, read and written through a keeper."""

    def __init__(self, keeper: Path | Keeper) -> None:
        """Keep it below a work directory, or wherever `keeper` does. Raises Unavailable."""
        self._keeper: Keeper = FileKeeper(keeper) if isinstance(keeper, Path) else keeper
        self._saved: Document | None = None
        self._masters: list[str] = []
        self.stored = Timer("registrar/state_store")
        self.size = 0
        """Bytes of the document as it was last read or written."""
        self.rest: Document = {}
        """What `load` found beside the agents, for who wrote it."""

    def load(self) -> dict[str, KnownAgent]:
        """Return the known agents by id, none on a first start. Raises Unavailable on a file that is not ours."""
        data = self._keeper.read()
        if data is None:
            return {}
        self.size = len(data)
        try:
            document = msgspec.json.decode(data)
            known = {
                agent["info"]["id"]["value"]: KnownAgent(agent["info"], agent["pid"], agent.get("unreachable_since_s"))
                for agent in document["agents"]
            }
            self._masters = [str(master) for master in document["masters"]]
            self.rest = {key: value for key, value in document.items() if key not in ("agents", "masters")}
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise Unavailable(
                f"the registry {self._keeper} is damaged ({error}); move it away to start without known agents"
            ) from None
        return known

    def save(self, document: Document) -> None:
        """Put the registry on disk, whole or not at all; nothing is written when it says nothing new.

        Raises Unavailable when it cannot be written.
        """
        if document == self._saved:
            return
        rest = {key: value for key, value in document.items() if key != "master_id"}
        masters = list(dict.fromkeys([*self._masters, document["master_id"]]))[-MAX_MASTERS:]
        data = msgspec.json.format(msgspec.json.encode({"masters": masters, **rest}), indent=1)
        began_s = time.monotonic()
        self._keeper.write(data)
        self.stored.add(time.monotonic() - began_s)
        self.size = len(data)
        self._saved, self._masters = document, masters
