"""CDI specifications as others wrote them: what is wrong with them, and which devices there are. Pure.

Source: cncf-tags/container-device-interface, `SPEC.md`, `pkg/cdi/spec.go`, `pkg/cdi/version.go`, `pkg/cdi/cache.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
PODMAN_4 = "0.5.0"
"""The newest that the library in podman 4.3 takes."""
_VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_SPEC_KEYS = {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
_DEVICE_KEYS = {"name", "annotations", "containerEdits"}
_EDIT_KEYS = {"env", "deviceNodes", "netDevices", "mounts", "hooks", "intelRdt", "additionalGids"}
_NODE_KEYS = {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}
_MOUNT_KEYS = {"hostPath", "containerPath", "type", "options"}
_HOOK_KEYS = {"hookName", "path", "args", "env", "timeout"}
_HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


class SpecFile(Struct, frozen=True):
    """A file with a specification, as it was parsed; `priority` is the place of its folder, the later the higher."""

    path: str
    priority: int
    document: Any


class Device(Struct, frozen=True):
    """A device by its qualified name, `vendor/class=name`, with its own edits and those of its file."""

    name: str
    path: str
    edits: Mapping[str, Any]
    common: Mapping[str, Any]


class Devices(Struct, frozen=True):
    """The devices of a machine, and what is wrong with its files, in words."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    problems: Sequence[str] = ()


def read_devices(files: Iterable[SpecFile]) -> Devices:
    """Return the devices that these files define. Of one name, the file of highest priority counts; two at the same
    priority are a conflict, and there is no such device then.
    """
    found: dict[str, list[tuple[int, Device]]] = {}
    problems: list[str] = []
    for file in files:
        wrong = list(spec_problems(file.document))
        problems += [f"{file.path}: {problem}" for problem in wrong]
        if wrong:
            continue
        common = file.document.get("containerEdits") or {}
        for each in file.document["devices"]:
            name = f"{file.document['kind']}={each['name']}"
            device = Device(name, file.path, each["containerEdits"], common)
            found.setdefault(name, []).append((file.priority, device))
    devices = {}
    for name, candidates in sorted(found.items()):
        highest = max(priority for priority, _ in candidates)
        best = [device for priority, device in candidates if priority == highest]
        if len(best) > 1:
            problems.append(f"{name} is in {' and in '.join(device.path for device in best)}: nobody can use it")
        else:
            devices[name] = best[0]
    return Devices(devices, problems)


def spec_problems(spec: Any) -> Iterator[str]:
    """Yield what is wrong with a specification: consumers reject a file for one of these."""
    if not isinstance(spec, Mapping):
        yield "is not an object"
        return
    yield from _strange(spec, _SPEC_KEYS, "the specification")
    version = str(spec.get("cdiVersion", "")).removeprefix("v")
    if version not in VERSIONS:
        yield f"cdiVersion {version or 'is missing'}{' is not known' if version else ''}"
    vendor, slash, kind = str(spec.get("kind", "")).partition("/")
    if not slash or not _VENDOR.fullmatch(vendor) or not _CLASS.fullmatch(kind):
        yield f"kind '{spec.get('kind', '')}' is not vendor/class"
    devices = spec.get("devices")
    if not isinstance(devices, Sequence) or not devices:
        yield "there is no device in it"
        return
    names: set[str] = set()
    for device in devices:
        name = str(device.get("name", "")) if isinstance(device, Mapping) else ""
        if not _DEVICE.fullmatch(name):
            yield f"device name '{name}' is none"
            continue
        if name in names:
            yield f"device {name} is there twice"
        names.add(name)
        yield from _strange(device, _DEVICE_KEYS, f"device {name}")
        if not device.get("containerEdits"):
            yield f"device {name} changes nothing in a container"
        yield from edit_problems(device.get("containerEdits") or {}, f"device {name}")
    yield from edit_problems(spec.get("containerEdits") or {}, "containerEdits")
    if version in VERSIONS and (least := least_version(spec)) and _place(version) < _place(least):
        yield f"cdiVersion {version} is too low for what is in it, which needs {least}"


def edit_problems(edits: Any, where: str) -> Iterator[str]:
    """Yield what is wrong with the edits of a device or file."""
    if not isinstance(edits, Mapping):
        yield f"{where}: containerEdits is not an object"
        return
    yield from _strange(edits, _EDIT_KEYS, where)
    for entry in edits.get("env") or ():
        if "=" not in str(entry) or str(entry).startswith("="):
            yield f"{where}: env '{entry}' is not NAME=VALUE"
    for node in edits.get("deviceNodes") or ():
        yield from _strange(node, _NODE_KEYS, f"{where}, device node")
        if not str(node.get("path", "")).startswith("/"):
            yield f"{where}: a device node has no absolute path"
        if not set(str(node.get("permissions", ""))) <= set("rwm") and node.get("permissions") != "none":
            yield f"{where}: permissions '{node['permissions']}' of {node.get('path')} are not of r, w and m"
    for mount in edits.get("mounts") or ():
        yield from _strange(mount, _MOUNT_KEYS, f"{where}, mount")
        if not mount.get("hostPath") or not mount.get("containerPath"):
            yield f"{where}: a mount needs hostPath and containerPath"
    for hook in edits.get("hooks") or ():
        yield from _strange(hook, _HOOK_KEYS, f"{where}, hook")
        if hook.get("hookName") not in _HOOKS or not str(hook.get("path", "")).startswith("/"):
            yield f"{where}: a hook needs a hookName that OCI knows and an absolute path"


def least_version(spec: Mapping[str, Any]) -> str:
    """Return the lowest version of CDI that has everything that is in a specification."""
    devices = [device for device in spec.get("devices") or () if isinstance(device, Mapping)]
    edits = [one["containerEdits"] for one in (spec, *devices) if isinstance(one.get("containerEdits"), Mapping)]
    nodes = [node for each in edits for node in each.get("deviceNodes") or ()]
    mounts = [mount for each in edits for mount in each.get("mounts") or ()]
    if any(each.get("netDevices") for each in edits):
        return "1.1.0"
    if any(each.get("additionalGids") or each.get("intelRdt") for each in edits):
        return "0.7.0"
    if "." in str(spec.get("kind", "")).partition("/")[2] or any("annotations" in each for each in (spec, *devices)):
        return "0.6.0"
    if any(str(d.get("name", ""))[:1].isdigit() for d in devices) or any("hostPath" in node for node in nodes):
        return "0.5.0"
    return "0.4.0" if any("type" in mount for mount in mounts) else "0.3.0"


def _place(version: str) -> int:
    return VERSIONS.index(version)


def _strange(document: Any, known: set[str], where: str) -> Iterator[str]:
    if not isinstance(document, Mapping):
        yield f"{where} is not an object"
        return
    for key in sorted(set(document) - known):
        yield f"{where} has a field '{key}' that CDI does not have"
