"""What an isolator wants done to a container before it starts: values, in the container's terms. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mesos_gpu.gpu.device import DeviceNode, Gpu


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """One entry of a device allow-list, cgroup v1 and v2 alike; None is a wildcard.

    `access` is a non-empty subset of `rwm` in that order. `str()` is the form that devices.allow reads.
    """

    type: str
    major: int | None
    minor: int | None
    access: str

    def __str__(self) -> str:
        major, minor = ("*" if n is None else n for n in (self.major, self.minor))
        return f"{self.type} {major}:{minor} {self.access}"


@dataclass(frozen=True, slots=True)
class BindMount:
    """A host directory or file shown inside the container, read-only unless said otherwise."""

    source: str
    destination: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Hook:
    """A program of the host that the OCI runtime calls at a stage of a container's life, such as `createRuntime`.

    `timeout_s` None: as long as it takes.
    """

    stage: str
    path: str
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What one isolator adds to one container.

    `search_paths` extends list-valued variables: {"PATH": ("/usr/local/nvidia/bin",)} appends each entry that is not
    yet in the container's PATH. `environment` sets variables outright.
    """

    gpus: tuple[Gpu, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    rules: tuple[DeviceRule, ...] = ()
    mounts: tuple[BindMount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    search_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()

    def joined(self, more: LaunchPlan) -> LaunchPlan:
        """Return this plan with what another adds; of two nodes, mounts or variables of one name the other's stays."""
        places = {node.path for node in more.nodes}
        covered = {mount.destination for mount in more.mounts}
        return replace(
            self,
            nodes=(*(node for node in self.nodes if node.path not in places), *more.nodes),
            rules=(*self.rules, *more.rules),
            mounts=(*(mount for mount in self.mounts if mount.destination not in covered), *more.mounts),
            environment={**self.environment, **more.environment},
            hooks=(*self.hooks, *more.hooks),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did: the GPUs that came and went, and what the container has from now on.

    `opened` and `closed` are the device nodes that came with them and went with them. Variables in the `plan` are for
    processes yet to be started: those of running ones cannot be changed.
    """

    added: tuple[Gpu, ...]
    removed: tuple[Gpu, ...]
    opened: tuple[DeviceNode, ...]
    closed: tuple[DeviceNode, ...]
    plan: LaunchPlan
