"""What a plugin's answer to Allocate makes of a container: variables, mounts, and device nodes by their numbers."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mesos_gpu.agent.devices.cdi import CdiFiles
from mesos_gpu.errors import ContainerError, MesosGpuError
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.plan import BindMount, DeviceRule, LaunchPlan


def plan_of(answers: Iterable[tuple[str, Mapping[str, Any]]], cdi: CdiFiles) -> LaunchPlan:
    """Return what is added to a container for answers, each of a resource; devices that they only name are in `cdi`.

    Raises ContainerError for what cannot be.
    """
    named: list[str] = []
    whose: list[str] = []
    nodes: dict[str, DeviceNode] = {}
    rules: list[DeviceRule] = []
    mounts: dict[str, BindMount] = {}
    environment: dict[str, str] = {}
    for resource, answer in answers:
        if answer.get("cdi_devices"):
            named += [str(device["name"]) for device in answer["cdi_devices"]]
            whose.append(resource)
        environment.update(answer.get("envs", {}))
        for mount in answer.get("mounts", ()):
            where = str(mount["container_path"])
            mounts[where] = BindMount(str(mount["host_path"]), where, bool(mount.get("read_only", False)))
        for spec in answer.get("devices", ()):
            node, rule = _node(resource, spec)
            nodes[node.path] = node
            rules.append(rule)
    plan = LaunchPlan(
        nodes=tuple(nodes.values()), rules=tuple(rules), mounts=tuple(mounts.values()), environment=environment
    )
    if not named:
        return plan
    try:
        return cdi.plan(named).joined(plan)
    except MesosGpuError as error:
        raise ContainerError(f"the plugin of {' and '.join(whose)} answered with CDI devices: {error}") from None


def _node(resource: str, spec: Mapping[str, Any]) -> tuple[DeviceNode, DeviceRule]:
    source = str(spec["host_path"])
    path = str(spec.get("container_path") or source)
    access = "".join(letter for letter in "rwm" if letter in spec.get("permissions", "")) or "rwm"
    try:
        found = Path(source).stat()
    except OSError as error:
        raise ContainerError(
            f"the plugin of {resource} gave {source}, which is not to be had: {error.strerror}"
        ) from None
    if not stat.S_ISCHR(found.st_mode):
        raise ContainerError(f"the plugin of {resource} gave {source}, which is not a character device")
    if not path.startswith("/dev/"):
        raise ContainerError(f"the plugin of {resource} wants {source} at {path}; device nodes are put below /dev only")
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    node = DeviceNode(path, major, minor, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
    return node, DeviceRule("c", major, minor, access)
