"""GPUs that are lent to holders outside Mesos: who has them, and what shows that the holder is still there. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.errors import BadInput
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.reach import HeldGpu

_FIELDS = frozenset(
    {"door", "holder", "container", "count", "gpus", "pid", "started", "cgroup", "containers", "cidfile"}
)
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_CGROUPS = "/sys/fs/cgroup/"
ALL = "all"


class HolderProcess(Struct, frozen=True):
    """A process by its number and what makes that unique: when it began (clock ticks since boot), and which boot."""

    pid: int
    started: int
    boot: str


class EngineContainer(Struct, frozen=True):
    """A container of an engine that keeps a folder for each, from its creation to its removal.

    `folder` is that of all of them (Docker's is /var/lib/docker/containers). Which one it is, is read from `cidfile`,
    which the engine writes when it makes the container; empty `container` is a container that is yet to be made.
    `ours`: the file is the agent's, and goes with the lease.
    """

    cidfile: str
    folder: str
    container: str = ""
    ours: bool = True


class Watch(Struct, frozen=True):
    """What is watched of a holder.

    It is there while any of the processes and cgroups is. An engine's container, once there is one, decides alone: it
    can be started again for as long as it exists, with the devices that it was made with.
    """

    processes: tuple[HolderProcess, ...] = ()
    cgroups: tuple[str, ...] = ()
    engine: EngineContainer | None = None


class Seen(Struct, frozen=True):
    """What was found of a watch: processes that run, cgroups with somebody in them, the id in the cidfile, and
    whether the engine still has that container."""

    processes: frozenset[HolderProcess] = frozenset()
    cgroups: frozenset[str] = frozenset()
    container: str = ""
    exists: bool = False


class Lease(Struct, frozen=True):
    """GPUs in the hands of a holder outside Mesos. `since` in seconds since the epoch."""

    id: str
    door: str
    holder: str
    container: str
    gpus: tuple[Gpu, ...]
    since: float
    watch: Watch
    lost: tuple[HeldGpu, ...] = ()
    """GPUs that it was given too and that do not exist any more; the holder can still open their nodes."""

    @property
    def words(self) -> str:
        """Return who holds it, as a person reads it."""
        name = self.holder or self.container or self.id
        return f"{self.door}: {name}" + (f" ({self.container[:12]})" if self.container not in ("", name) else "")


class LeaseRequest(Struct, frozen=True):
    """What a door asks for: so many GPUs, or those named by index or UUID, or all."""

    door: str
    holder: str
    container: str
    count: int | None
    names: tuple[str, ...]
    everything: bool = False

    @property
    def words(self) -> str:
        """Return what is asked for, as a person reads it."""
        if self.everything:
            return "all GPUs"
        if self.count is not None:
            return f"{self.count} GPU{'' if self.count == 1 else 's'}"
        return f"GPU{'' if len(self.names) == 1 else 's'} {', '.join(self.names)}"


class WatchRequest(Struct, frozen=True):
    """What a door wants watched; `started` 0 is not told. With `folder`, the engine's container is."""

    pid: int | None = None
    started: int = 0
    cgroup: str = ""
    folder: str = ""
    cidfile: str = ""


def read_lease(document: Any) -> tuple[LeaseRequest, WatchRequest]:
    """Return what `POST /gpus/leases` asks for. Raises BadInput naming the key that is wrong."""
    if not isinstance(document, Mapping):
        raise BadInput('a lease is asked for with a JSON object such as {"door": "docker", "count": 1, "pid": 4711}')
    strange = sorted(set(document) - _FIELDS)
    if strange:
        raise BadInput(f"'{strange[0]}' is not a key of a lease; there are {', '.join(sorted(_FIELDS))}")
    door = _text(document, "door")
    if not _WORD.fullmatch(door):
        raise BadInput(f"'door' must be a word such as docker, not '{door}'")
    count, gpus = document.get("count"), document.get("gpus")
    if (count is None) == (gpus is None):
        raise BadInput("a lease names either a 'count' of GPUs or the 'gpus' themselves")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise BadInput(f"'count' must be a number of GPUs, 1 or more, not {count!r}")
    names: tuple[str, ...] = ()
    if gpus is not None and gpus != ALL:
        if not isinstance(gpus, list) or not gpus or not all(isinstance(name, str) and name for name in gpus):
            raise BadInput(f"'gpus' must be \"all\" or a list of indices and UUIDs as text, not {gpus!r}")
        names = tuple(dict.fromkeys(gpus))
    request = LeaseRequest(
        door, _text(document, "holder"), _text(document, "container"), count, names, everything=gpus == ALL
    )
    watch = read_watch(document)
    if watch.pid is None and not watch.cgroup and not watch.folder:
        raise BadInput("say what shows that the holder is there: a 'pid', a 'cgroup', or an engine's 'containers'")
    return request, watch


def read_watch(document: Mapping[str, Any]) -> WatchRequest:
    """Return what of a lease's keys says what is to be watched. Raises BadInput."""
    pid, started = document.get("pid"), document.get("started", 0)
    if pid is not None and (not isinstance(pid, int) or isinstance(pid, bool) or pid < 1):
        raise BadInput(f"'pid' must be the number of a process, not {pid!r}")
    if not isinstance(started, int) or isinstance(started, bool) or started < 0:
        raise BadInput(f"'started' must be clock ticks since boot, not {started!r}")
    cgroup = _path(document, "cgroup")
    if cgroup and not cgroup.startswith(_CGROUPS):
        raise BadInput(f"'cgroup' must be a folder below {_CGROUPS}, not '{cgroup}'")
    folder, cidfile = _path(document, "containers"), _path(document, "cidfile")
    if cidfile and not folder:
        raise BadInput("'cidfile' needs 'containers': the folder in which the engine has one for each container")
    return WatchRequest(pid, started, cgroup, folder, cidfile)


def still_held(watch: Watch, seen: Seen) -> Watch | None:
    """Return the watch as it is from now on, None when the holder is gone."""
    engine = watch.engine
    if engine is not None:
        container = engine.container or seen.container
        if container:
            return replace(watch, engine=replace(engine, container=container)) if seen.exists else None
    processes = tuple(process for process in watch.processes if process in seen.processes)
    cgroups = tuple(cgroup for cgroup in watch.cgroups if cgroup in seen.cgroups)
    return replace(watch, processes=processes, cgroups=cgroups) if processes or cgroups else None


def more(watch: Watch, added: Watch) -> Watch:
    """Return a watch of both."""
    return Watch(
        tuple(dict.fromkeys((*watch.processes, *added.processes))),
        tuple(dict.fromkeys((*watch.cgroups, *added.cgroups))),
        added.engine or watch.engine,
    )


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise BadInput(f"'{key}' must be a line of text, not {value!r}")
    return value


def _path(document: Mapping[str, Any], key: str) -> str:
    value = _text(document, key)
    if value and (not value.startswith("/") or ".." in value.split("/")):
        raise BadInput(f"'{key}' must be an absolute path without '..', not '{value}'")
    return value
