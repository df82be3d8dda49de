"""The box's own note of itself, `box.json` in the work_dir: how `status`, `down` and the CLI find a running box."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from mesos_gpu.base.files import PUBLIC
from mesos_gpu.base.linux.processes import running_start_time
from mesos_gpu.base.records import Record
from mesos_gpu.errors import Unavailable

FILE = "box.json"
PORTS_FILE = "ports.json"
CONTAINERS = "containers"
"""Where an agent's containerizer keeps one record for each container that is not gone, below the agent's runtime_dir;
`mesos_gpu/container/state/checkpoints.py` writes them."""


class Service(msgspec.Struct, frozen=True):
    """One running service. `started` is the kernel's start time of the pid, which a reused pid does not share."""

    url: str
    pid: int
    started: int
    gpus: int = 0
    gpu_driver: str = ""
    name: str = ""
    """Of an agent: what it is called among the services, which is not its place among them once one was removed."""
    pool: str = ""


Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _AgentInfo(msgspec.Struct):
    """What an agent's checkpoint says of its port."""

    port: Port


class Box(msgspec.Struct, frozen=True):
    """A whole box; `pid` is the supervisor's."""

    pid: int
    started: int
    master: Service
    agents: list[Service]
    marathon: Service
    open: bool = True
    """Whether its services ask nobody who he is."""
    members: list[Service] = []
    """The Marathons of members that run, each by its name among the services."""
    control: str = ""
    """The socket of the supervisor."""

    def services(self) -> Mapping[str, Service]:
        """Return all services by name: master, agent1, ..., marathon."""
        return {
            "master": self.master,
            **{a.name or f"agent{n + 1}": a for n, a in enumerate(self.agents)},
            "marathon": self.marathon,
            **{one.name: one for one in self.members},
        }


@dataclass(frozen=True, slots=True)
class Records:
    """Reads and writes the note of one work_dir."""

    work_dir: Path

    def read(self) -> Box | None:
        """Return the note, None when there is none or it cannot be read (a box writes a new one at its start)."""
        try:
            return self._box.load()
        except Unavailable:
            return None

    def write(self, box: Box) -> None:
        """Replace the note, whole or not at all."""
        self._box.save(box)

    def remove(self) -> None:
        """Forget the box, but not its ports; nothing happens when there is no note."""
        self._box.forget()

    def ports(self) -> dict[str, int]:
        """Return the port that each service had last, by name. An agent whose tasks run on must have it again.

        Where the file is lost or damaged, agents' ports are found in what they wrote down themselves.
        """
        try:
            noted = self._ports.load() or {}
        except Unavailable:
            noted = {}
        return {**self._agents_ports(), **noted}

    def _agents_ports(self) -> dict[str, int]:
        found = {}
        for path in self.work_dir.glob("agent*/meta/slaves/latest/slave.info"):
            try:
                info = msgspec.json.decode(path.read_bytes(), type=_AgentInfo)
            except (OSError, ValueError, RecursionError):
                continue  # the agent itself says what is wrong with it
            found[path.relative_to(self.work_dir).parts[0]] = info.port
        return found

    def write_ports(self, box: Box) -> None:
        """Remember the ports of a box for its next start."""
        ports = {name: int(service.url.rpartition(":")[2]) for name, service in box.services().items()}
        self._ports.save(ports)

    # Neither is durable: the processes that they are about end with the machine. Members of a box read them too.

    @property
    def _box(self) -> Record[Box]:
        path, what, advice = self.work_dir / FILE, "the services of the box", "`mesos-gpu up` writes it again"
        return Record(path, Box, what=what, advice=advice, mode=PUBLIC, durable=False, indented=True)

    @property
    def _ports(self) -> Record[dict[str, Port]]:
        path, what, advice = self.work_dir / PORTS_FILE, "the ports of the box", "`mesos-gpu up` writes it again"
        return Record(path, dict[str, Port], what=what, advice=advice, mode=PUBLIC, durable=False)


def left_behind(runtime_dir: Path, agent: str = "*") -> list[str]:
    """Return the ids of the containers that agents below `runtime_dir`, or one, have on record, so that may still run.

    A containerizer forgets a container only when its processes, cgroup and GPUs are released.
    """
    return sorted(path.stem for path in runtime_dir.glob(f"{agent}/{CONTAINERS}/*.json"))


def still_running(runtime_dir: Path) -> list[str]:
    """Return which of those `left_behind` may run: all but those whose first process is known, and is gone."""
    return [name for name in left_behind(runtime_dir) if any(_may_run(path) for path in _records(runtime_dir, name))]


def end_left_behind(runtime_dir: Path) -> None:
    """Kill the first processes of the containers on record, and with each all others of its PID namespace.

    For containers whose agent is gone and cannot come back, as on a disk that has failed. Their records stay: the next
    agent releases their cgroups and GPUs.
    """
    for name in left_behind(runtime_dir):
        for path in _records(runtime_dir, name):
            init = _init(path)
            if init is not None and init.pid is not None and is_alive(init.pid, init.pid_start_time or 0):
                with suppress(ProcessLookupError):
                    os.kill(init.pid, signal.SIGKILL)


class _Init(msgspec.Struct):
    """The first process of a container, as its containerizer noted it (`mesos_gpu/container/state/checkpoints.py`)."""

    pid: int | None = None
    pid_start_time: int | None = None


def _records(runtime_dir: Path, name: str) -> list[Path]:
    return sorted(runtime_dir.glob(f"*/{CONTAINERS}/{name}.json"))


def _init(path: Path) -> _Init | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Init)
    except (OSError, msgspec.DecodeError):
        return None


def _may_run(path: Path) -> bool:
    init = _init(path)
    return init is None or init.pid is None or is_alive(init.pid, init.pid_start_time or 0)


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, 0 if it does not run. Raises OSError."""
    return running_start_time(pid) or 0


def is_alive(pid: int, started: int) -> bool:
    """Return whether the very process that was noted still runs. Raises OSError if that cannot be seen."""
    return started != 0 and start_time(pid) == started
