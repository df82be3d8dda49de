"""CDI devices of any vendor for containers of this agent: its machine's files, and the nodes that they name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mesos_gpu.agent.flags import CDI_FOLDERS
from mesos_gpu.cdi.applying import edits_of
from mesos_gpu.cdi.reading import Devices, SpecFile, read_devices
from mesos_gpu.errors import ContainerError
from mesos_gpu.gpu.device import DeviceNode
from mesos_gpu.isolator.plan import BindMount, DeviceRule, Hook, LaunchPlan


class CdiFiles:
    """The CDI files of this machine: read anew for every container, as they change while the agent runs."""

    def __init__(self, folders: Sequence[Path] = tuple(map(Path, CDI_FOLDERS))) -> None:
        self._folders = folders

    def plan(self, names: Iterable[str]) -> LaunchPlan:
        """Return what is added to a container that asks for these devices by their qualified names.

        Raises BadInput for a name that no file defines, ContainerError for a node that is not there.
        """
        edits = edits_of(read_files(self._folders), names)
        nodes, rules = [], []
        for described in edits.nodes:
            node, rule = _node(described)
            nodes.append(node)
            rules += [] if rule is None else [rule]
        return LaunchPlan(
            nodes=tuple(nodes),
            rules=tuple(rules),
            mounts=tuple(_mount(mount) for mount in edits.mounts),
            environment=edits.environment,
            hooks=tuple(_hook(stage, hook) for stage, hooks in edits.hooks.items() for hook in hooks),
        )


def read_files(folders: Sequence[Path]) -> Devices:
    """Return the devices that the files of these folders define; one that cannot be read is a problem in words."""
    import yaml  # takes longer to import than most of a service's start, and is rarely needed

    files = []
    for priority, folder in enumerate(folders):
        there = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in (path for path in there if path.suffix in (".json", ".yaml")):
            try:
                files.append(SpecFile(str(path), priority, yaml.safe_load(path.read_bytes())))
            except (OSError, yaml.YAMLError) as error:
                files.append(SpecFile(str(path), priority, f"{error}"))
    return read_devices(files)


def _node(described: Mapping[str, Any]) -> tuple[DeviceNode, DeviceRule | None]:
    path = str(described["path"])
    host = Path(str(described.get("hostPath") or path))
    try:
        found = host.stat()
    except OSError as error:
        found = None
        if described.get("major") is None:
            raise ContainerError(f"the CDI device node {host} is not to be had: {error.strerror}") from None
    kind = str(described.get("type") or ("c" if found is None or stat.S_ISCHR(found.st_mode) else "b"))
    if kind not in ("c", "u") or (found is not None and not stat.S_ISCHR(found.st_mode)):
        raise ContainerError(f"the CDI device node {host} is not a character device; containers get no others here")
    if not path.startswith("/dev/"):
        raise ContainerError(f"the CDI device node {host} is to be at {path}; device nodes are put below /dev only")
    # Go's writer leaves out a minor that is 0.
    numbers = described.get("major"), described.get("minor") or 0
    major, minor = numbers if numbers[0] is not None or found is None else _numbers(found.st_rdev)
    mode = described.get("fileMode")
    if mode is None:
        mode = 0o666 if found is None else stat.S_IMODE(found.st_mode)
    node = DeviceNode(
        path, int(major or 0), int(minor), int(mode) & 0o7777, _owner(described, "uid"), _owner(described, "gid")
    )
    access = str(described.get("permissions") or "rwm")
    allowed = "".join(letter for letter in "rwm" if letter in access)
    return node, None if access == "none" else DeviceRule("c", node.major, node.minor, allowed)


def _numbers(device: int) -> tuple[int, int]:
    return os.major(device), os.minor(device)


def _owner(described: Mapping[str, Any], key: str) -> int:
    return int(described.get(key) or 0)


def _mount(mount: Mapping[str, Any]) -> BindMount:
    options = mount.get("options") or ()
    return BindMount(str(mount["hostPath"]), str(mount["containerPath"]), "ro" in options)


def _hook(stage: str, hook: Mapping[str, Any]) -> Hook:
    timeout = hook.get("timeout")
    return Hook(
        stage,
        str(hook["path"]),
        tuple(map(str, hook.get("args") or ())),
        tuple(map(str, hook.get("env") or ())),
        None if timeout is None else int(timeout),
    )
