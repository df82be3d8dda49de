"""What there is to run, in words that belong to no system; and notes on what could not be said in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mesos_gpu.errors import BadInput


class Place(NamedTuple):
    """Where something stands in its source: a line from 1, and its key or option, as in `spec.containers[0].image`."""

    line: int
    path: str


NOWHERE = Place(1, "")
GROUP_OF_THE_USER = "a task has its user's own groups; none can be named beside it"
NOBODY_TYPES = "nobody types into it from the start: `mesos-gpu task exec -it` or, once, `mesos-gpu run -it` does"
"""What is said of wishes that several kinds of sources have."""


class Note(NamedTuple):
    """Something the reader of the result must know. `lost`: it is not in the result; else it is there, but look."""

    place: Place
    lost: bool
    message: str


@dataclass(slots=True)
class Notes:
    """What is noted about one source. `name` is what the source is called in messages."""

    name: str
    all: list[Note] = field(default_factory=list)

    def lost(self, place: Place, why: str) -> None:
        """Note that what stands at `place` is not in the result."""
        self._add(Note(place, True, why))

    def check(self, place: Place, what: str) -> None:
        """Note that what stands at `place` is in the result, but not the same."""
        self._add(Note(place, False, what))

    def bad(self, place: Place, problem: str) -> BadInput:
        """Return the error that refuses the source because of what stands at `place`."""
        return BadInput(f"{self.name}:{place.line}: {place.path}: {problem}")

    def lines(self) -> list[str]:
        """Return a line for each note, in the order of the source."""
        return [
            f"{self.name}:{note.place.line}: {note.place.path}: {'not carried over' if note.lost else 'look at this'}: "
            f"{note.message}"
            for note in sorted(self.all, key=lambda note: note.place.line)
        ]

    def _add(self, note: Note) -> None:
        if note not in self.all:
            self.all.append(note)


Limit = float | Literal["unlimited"]


class Port(NamedTuple):
    """A port that a container listens on; `machine` is the one asked for on the machine itself."""

    at: Place
    number: int
    machine: int | None = None
    name: str | None = None
    protocol: str = "tcp"


class Mount(NamedTuple):
    """A folder in a container: of the machine (`host`), or an empty one with a name that containers may share.

    With `keeps_mib` it is one of that size which the next task of the instance finds again.
    """

    at: Place
    path: str
    host: str | None = None
    empty: str | None = None
    read_only: bool = False
    keeps_mib: int | None = None


class Timing(NamedTuple):
    """When a container is asked, and when its answers count: nothing before `delay_s`, no failure before `grace_s`."""

    interval_s: int = 10
    timeout_s: int = 1
    failures: int = 3
    delay_s: int = 0
    grace_s: int = 0


class Probe(NamedTuple):
    """A question that tells whether a container is well: a command, an HTTP path or an open port."""

    at: Place
    command: str | None = None
    path: str | None = None
    port: int | str | None = None
    https: bool = False
    timing: Timing = Timing()


@dataclass(slots=True)
class Container:
    """One container. `entrypoint` replaces the image's; `shell` is a line for /bin/sh and replaces all of it.

    `before` are lines for a shell that must succeed before its program starts; only one with an `entrypoint` has any.
    """

    name: str
    at: Place
    image: str = ""
    force_pull: bool = False
    entrypoint: list[str] | None = None
    args: list[str] = field(default_factory=list)
    shell: str | None = None
    before: list[str] = field(default_factory=list)
    workdir: str | None = None
    workdir_at: Place = NOWHERE
    env: dict[str, str] = field(default_factory=dict)
    gpus: int = 0
    share: dict[str, Any] | None = None
    devices: list[str] = field(default_factory=list)
    """Of other vendors, by their CDI names."""
    cpus: float | None = None
    mem_mib: int | None = None
    disk_mib: int | None = None
    cpus_limit: Limit | None = None
    mem_limit_mib: Limit | None = None
    shm_mib: int | None = None
    ports: list[Port] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    alive: Probe | None = None
    ready: Probe | None = None
    user: str | None = None
    tty: bool = False


class Schedule(NamedTuple):
    """When a job runs by itself."""

    cron: str
    timezone: str | None = None
    overlap: bool = True
    starting_deadline_s: int | None = None
    enabled: bool = True


@dataclass(slots=True)
class Workload:
    """Containers that run together, so many times. `once`: they run to their end and are not started again."""

    name: str
    at: Place
    containers: list[Container] = field(default_factory=list)
    once: bool = False
    instances: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    constraints: list[list[str]] = field(default_factory=list)
    kill_grace_s: int | None = None
    healthy_part: float | None = None
    """The part of the instances that stays while new ones replace them, and `extra_part` how many may be added."""
    extra_part: float | None = None
    replaced_at: Place = NOWHERE
    restart_on_failure: bool = False
    deadline_s: int | None = None
    schedule: Schedule | None = None
    after: Sequence[str] = ()
    """Names of workloads that must run before this one."""
