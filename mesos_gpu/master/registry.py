"""What a master must remember over its restarts: which agents are its own. One JSON file, replaced whole.

The file is written and on disk before an agent hears its id, as Mesos' registrar does it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.model import KnownAgent
from mesos_gpu.mesos.resource import Document

MAX_MASTERS = 100
"""Ids of earlier masters kept, for people who read the file."""


class Registry:
    """The file `registry.json` under the master's work directory."""

    def __init__(self, work_dir: Path) -> None:
        """Make the directory. Raises Unavailable when it cannot be made."""
        self.path = work_dir / "registry.json"
        self._saved: Document | None = None
        self._masters: list[str] = []
        self.rest: Document = {}
        """What `load` found beside the agents, for who wrote it."""
        try:
            work_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot make the work directory {work_dir}: {error.strerror}") from None

    def load(self) -> dict[str, KnownAgent]:
        """Return the known agents by id, none on a first start. Raises Unavailable on a file that is not ours."""
        try:
            document = msgspec.json.decode(self.path.read_bytes())
            known = {
                agent["info"]["id"]["value"]: KnownAgent(agent["info"], agent["pid"], agent.get("unreachable_since_s"))
                for agent in document["agents"]
            }
            self._masters = [str(master) for master in document["masters"]]
            self.rest = {key: value for key, value in document.items() if key not in ("agents", "masters")}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unavailable(f"cannot read the registry {self.path}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise Unavailable(
                f"the registry {self.path} is damaged ({error}); move it away to start without known agents"
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
            raise Unavailable(f"cannot write the registry {self.path}: {error.strerror}") from None
        self._saved, self._masters = document, masters
