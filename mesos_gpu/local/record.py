"""The box's own note of itself, `box.json` in the work_dir: how `status`, `down` and the CLI find a running box."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

FILE = "box.json"


class Service(msgspec.Struct, frozen=True):
    """One running service. `started` is the kernel's start time of the pid, which a reused pid does not share."""

    url: str
    pid: int
    started: int
    gpus: int = 0
    gpu_driver: str = ""


class Box(msgspec.Struct, frozen=True):
    """A whole box; `pid` is the supervisor's."""

    pid: int
    started: int
    master: Service
    agents: list[Service]
    marathon: Service

    def services(self) -> Mapping[str, Service]:
        """Return all services by name: master, agent1, ..., marathon."""
        return {
            "master": self.master,
            **{f"agent{n + 1}": a for n, a in enumerate(self.agents)},
            "marathon": self.marathon,
        }


@dataclass(frozen=True, slots=True)
class Records:
    """Reads and writes the note of one work_dir."""

    work_dir: Path

    def read(self) -> Box | None:
        """Return the note, None when there is none or it cannot be read (a box writes a new one at its start)."""
        try:
            return msgspec.json.decode((self.work_dir / FILE).read_bytes(), type=Box)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, box: Box) -> None:
        """Replace the note, whole or not at all."""
        temporary = self.work_dir / f".{FILE}.{os.getpid()}"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(box)))
        temporary.replace(self.work_dir / FILE)

    def remove(self) -> None:
        """Forget the box; nothing happens when there is no note."""
        (self.work_dir / FILE).unlink(missing_ok=True)


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, 0 when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The second field, the name, is in parentheses and may hold anything; field 22 is the 20th after it.
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[0] == b"Z" else int(fields[19])


def is_alive(pid: int, started: int) -> bool:
    """Tell whether the very process that was noted still runs."""
    return started != 0 and start_time(pid) == started
