"""What a framework wants to run: tasks with whole GPUs, in UCR images, with volumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.framework.info import labels_document
from mesos_gpu.mesos.documents import AgentIdDocument, TaskInfo
from mesos_gpu.mesos.ids import TaskId, id_problem
from mesos_gpu.mesos.resource import ResourceDocument, milli

Document = dict[str, Any]

_NANOSECONDS = 1_000_000_000
LARGEST = 2**53
"""No amount is larger: a JSON number holds it exactly."""


def whole_gpus(asked: float) -> int:
    """Return a number of GPUs as an integer; 2.0 is 2. Raises BadInput for a fraction and for less than none.

    Mesos: "The 'gpus' resource must be an unsigned integer" (src/master/validation.cpp).
    """
    if isinstance(asked, bool) or not isinstance(asked, (int, float)):
        raise BadInput(f"gpus: {asked!r} is not a number")
    if not 0 <= asked <= LARGEST:
        raise BadInput("gpus: it is not a number of GPUs, as it is negative, endless or far too large")
    if asked != int(asked):
        raise BadInput(
            f"gpus: {asked} is not whole; Mesos gives out whole GPUs only, and ends such a task as TASK_ERROR"
        )
    return int(asked)


def check_whole_gpus(task_info: Mapping[str, Any]) -> None:
    """Raise BadInput when a TaskInfo made elsewhere asks for a fraction of a GPU, itself or for its executor."""
    for holder in (task_info, task_info.get("executor") or {}):
        for resource in holder.get("resources", ()):
            if resource["name"] == "gpus":
                whole_gpus(resource["scalar"]["value"])


def volume(container_path: str, host_path: str | None = None, *, read_only: bool = False) -> Document:
    """Return a Volume: `host_path` of the agent's machine, seen at `container_path`.

    Without `host_path` it is a folder of the task's sandbox, new and empty; a relative one is in the sandbox, too. A
    relative `container_path` is where the sandbox is seen, so one of the two must be absolute. A task without an image
    sees the host's files, and an absolute `container_path` must exist there. Raises BadInput.
    """
    if not container_path or host_path == "":
        raise BadInput("volume: an empty path is not a place")
    if not container_path.startswith("/") and not (host_path or "").startswith("/"):
        raise BadInput(f"volume: {container_path} is in the sandbox already; one of the two paths must be absolute")
    document: Document = {"container_path": container_path, "mode": "RO" if read_only else "RW"}
    if host_path is None:
        path = container_path.strip("/").replace("/", "_")
        document["source"] = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "SELF", "path": path}}
    else:
        document["host_path"] = host_path
    return document


@dataclass(frozen=True, slots=True)
class GpuTask:
    """A task before it has a place. Raises BadInput, when made, for what no master would take.

    `command` is a line for the shell, a list of words to run as they are, or None for what the image says.
    `mem_mib` and `disk_mib` are mebibytes; `cpus`, `mem_mib` and `disk_mib` are exact to three decimals, as in Mesos.
    `ports` host ports of the offer are taken, and the task finds them in PORT0, PORT1, ... `image` runs it in UCR with
    that image; `volumes` are what `volume` returns. `uris` are fetched into the sandbox: addresses, or CommandInfo.URI
    documents. `kill_grace_s`: what it has between SIGTERM and SIGKILL; the agent's default is 3 s.
    """

    id: str
    command: str | Sequence[str] | None = None
    gpus: float = 1
    cpus: float = 0.1
    mem_mib: float = 32.0
    disk_mib: float = 0.0
    ports: int = 0
    name: str | None = None
    image: str | None = None
    force_pull: bool = False
    volumes: Sequence[Mapping[str, Any]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    uris: Sequence[str | Mapping[str, Any]] = ()
    user: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    kill_grace_s: float | None = None
    max_completion_s: float | None = None

    def __post_init__(self) -> None:
        problem = id_problem(self.id)
        if problem is not None:
            raise BadInput(f"id: {problem}")
        object.__setattr__(self, "gpus", whole_gpus(self.gpus))
        for amount in ("cpus", "mem_mib", "disk_mib"):
            value = getattr(self, amount)
            if not math.isfinite(value) or not 0 <= value <= LARGEST:
                raise BadInput(f"{amount}: {value} is not an amount")
        if self.ports < 0:
            raise BadInput(f"ports: {self.ports} is negative")
        if not any(self.scalars().values()):
            raise BadInput(f"task {self.id} asks for no resources, and Mesos runs none that has none")
        for limit in ("kill_grace_s", "max_completion_s"):
            value = getattr(self, limit)
            if value is not None and not 0 <= value < 2**63 / _NANOSECONDS:
                raise BadInput(f"{limit}: {value} is not a time")
        if self.command is None and self.image is None:
            raise BadInput(f"task {self.id} has neither a command nor an image that says one")
        if self.command is not None and not isinstance(self.command, str) and not self.command:
            raise BadInput(f"task {self.id} has a command without words")
        for name, value in self.env.items():
            if not isinstance(value, str):
                raise BadInput(f"env: {name} is {value!r}; a variable's value is a text")

    def scalars(self) -> dict[str, int]:
        """Return what it asks for in thousandths, by Mesos' names; what it does not ask for is 0."""
        asked = {"cpus": self.cpus, "mem": self.mem_mib, "disk": self.disk_mib, "gpus": self.gpus}
        return {name: milli(value) for name, value in asked.items()}

    def info(
        self, agent_id: AgentIdDocument, resources: Sequence[ResourceDocument], ports: Sequence[int] = ()
    ) -> TaskInfo:
        """Return the TaskInfo for an agent, with these Resource documents. `Offered.launch` finds them in an offer."""
        info: TaskInfo = {
            "name": self.id if self.name is None else self.name,
            "task_id": {"value": TaskId(self.id)},
            "agent_id": {"value": agent_id["value"]},
            "resources": list(resources),
            "command": self._command(ports),
        }
        container = self._container()
        if container is not None:
            info["container"] = container
        if self.labels:
            info["labels"] = labels_document(self.labels)
        if self.kill_grace_s is not None:
            info["kill_policy"] = {"grace_period": _duration(self.kill_grace_s)}
        if self.max_completion_s is not None:
            info["max_completion_time"] = _duration(self.max_completion_s)
        return info

    def _command(self, ports: Sequence[int]) -> Document:
        command: Document = {"shell": isinstance(self.command, str)}
        if isinstance(self.command, str):
            command["value"] = self.command
        elif self.command is not None:
            words = list(self.command)
            command |= {"value": words[0], "arguments": words}
        environment = {**{f"PORT{n}": str(port) for n, port in enumerate(ports)}, **self.env}
        if environment:
            variables = [{"name": name, "value": value} for name, value in environment.items()]
            command["environment"] = {"variables": variables}
        if self.uris:
            command["uris"] = [{"value": uri} if isinstance(uri, str) else dict(uri) for uri in self.uris]
        if self.user is not None:
            command["user"] = self.user
        return command

    def _container(self) -> Document | None:
        if self.image is None and not self.volumes:
            return None
        container: Document = {"type": "MESOS"}
        if self.image is not None:
            image = {"type": "DOCKER", "docker": {"name": self.image}, "cached": not self.force_pull}
            container["mesos"] = {"image": image}
        if self.volumes:
            container["volumes"] = [dict(each) for each in self.volumes]
        return container


def _duration(seconds: float) -> Document:
    return {"nanoseconds": int(seconds * _NANOSECONDS)}
