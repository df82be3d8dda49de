"""What an isolator wants done to a container before it starts: values, in the container's terms. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mesos_gpu.errors import BadInput, ContainerError
from mesos_gpu.gpu.device import DeviceNode, Gpu

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of a container that does not set one."""


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

    def to_oci(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return an OCI runtime specification, the content of `config.json`, with what this plan adds to it.

        `spec` itself is not modified. Its device rules stay before those of the plan, so they should first deny all
        devices, as `device_rules(BASE_RULES)` does. If `spec` has no device rules, all devices but those of the plan
        are denied. Mounts are appended. A device node or variable of the plan replaces one of the same path or name.
        Raises ContainerError if a device node is not below /dev, BadInput if `spec` is not a specification.
        """
        changed = _part(spec, "the specification")
        process, linux = _part(changed.get("process"), "process"), _part(changed.get("linux"), "linux")
        resources = _part(linux.get("resources"), "linux.resources")
        variables = _variables(_list(process.get("env"), "process.env"), self)
        process["env"] = [f"{name}={value}" for name, value in variables.items()]
        rules = _list(resources.get("devices"), "linux.resources.devices") or device_rules(())
        resources["devices"] = [*rules, *map(_allowed, self.rules)]
        nodes = device_nodes(self)
        places = {node["path"] for node in nodes}
        others = [_part(node, "a device") for node in _list(linux.get("devices"), "linux.devices")]
        linux["devices"] = [*(node for node in others if node.get("path") not in places), *nodes]
        linux["resources"] = resources
        mounts = [bind_mount(one.source, one.destination, one.read_only) for one in self.mounts]
        changed |= {"process": process, "linux": linux, "mounts": [*_list(changed.get("mounts"), "mounts"), *mounts]}
        if self.hooks:
            stages = _part(changed.get("hooks"), "hooks")
            for hook in self.hooks:
                stages[hook.stage] = [*_list(stages.get(hook.stage), "a stage of hooks"), _hook(hook)]
            changed["hooks"] = stages
        return changed


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


def device_rules(allowed: Iterable[DeviceRule]) -> list[dict[str, Any]]:
    """Return the device rules of an OCI specification that allow `allowed` and deny everything else."""
    return [{"allow": False, "access": "rwm"}, *map(_allowed, allowed)]


def device_nodes(plan: LaunchPlan) -> list[dict[str, Any]]:
    """Return the device nodes of a plan in OCI format. Raises ContainerError if one is not below /dev."""
    return list(map(_node, plan.nodes))


def bind_mount(source: str, destination: str, read_only: bool) -> dict[str, Any]:
    """Return a bind mount in OCI format."""
    options = ["rbind", "ro" if read_only else "rw", "nosuid", "nodev"]
    return {"destination": destination, "type": "bind", "source": source, "options": options}


def _allowed(rule: DeviceRule) -> dict[str, Any]:
    numbers = {"major": rule.major, "minor": rule.minor}
    present = {name: number for name, number in numbers.items() if number is not None}
    return {"allow": True, "type": rule.type, **present, "access": rule.access}


def _node(node: DeviceNode) -> dict[str, Any]:
    if not node.path.startswith("/dev/") or ".." in node.path.split("/"):
        raise ContainerError(f"the device node {node.path} is not below /dev; making it would change the host")
    numbers = {"major": node.major, "minor": node.minor}
    return {"path": node.path, "type": "c", **numbers, "fileMode": node.mode, "uid": node.uid, "gid": node.gid}


def _hook(hook: Hook) -> dict[str, Any]:
    written: dict[str, Any] = {"path": hook.path}
    written |= {"args": list(hook.arguments)} if hook.arguments else {}
    written |= {"env": list(hook.environment)} if hook.environment else {}
    return written if hook.timeout_s is None else {**written, "timeout": hook.timeout_s}


def _variables(given: Sequence[Any], plan: LaunchPlan) -> dict[str, str]:
    """Return `given` variables with those that the plan sets, and with its search paths appended."""
    if not all(isinstance(entry, str) for entry in given):
        raise BadInput("process.env of an OCI specification must be a list of strings")
    variables = {**dict(entry.partition("=")[::2] for entry in given), **plan.environment}
    for name, entries in plan.search_paths.items():
        before = variables.get(name, DEFAULT_PATH if name == "PATH" else "")
        listed = [entry for entry in before.split(":") if entry]
        listed.extend(entry for entry in entries if entry not in listed)
        variables[name] = ":".join(listed)
    return variables


def _part(value: object, what: str) -> dict[str, Any]:
    """Return a copy of an object of the specification; None counts as empty. Raises BadInput."""
    if value is not None and not isinstance(value, Mapping):
        raise BadInput(f"{what} of an OCI specification must be an object, not {value!r}")
    return dict(value or {})


def _list(value: object, what: str) -> Sequence[Any]:
    if value is not None and not isinstance(value, list | tuple):
        raise BadInput(f"{what} of an OCI specification must be a list, not {value!r}")
    return value or ()
