"""What CDI devices, asked for by name, make of a container. Pure.

Source: cncf-tags/container-device-interface, `pkg/cdi/container-edits.go`, `pkg/cdi/cache.go` (InjectDevices),
`pkg/parser/parser.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mesos_gpu.cdi.reading import Devices
from mesos_gpu.errors import BadInput

_NAME = re.compile(
    r"(?P<kind>[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?)"
    r"=(?P<device>[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?)"
)
_NOT_APPLIED = ("netDevices", "intelRdt", "additionalGids")
_BIND = ("", "bind", "none")
_SHOWN = 5


class Edits(Struct, frozen=True):
    """The edits of some devices, together. Nodes and mounts are as their files have them, by their place inside.

    `hooks` are OCI's, by stage, in their order.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()
    hooks: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def kind_of(name: str) -> str:
    """Return `vendor/class` of a device's qualified name, `vendor/class=device`. Raises BadInput."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise BadInput(f"'{name}' is not a name of a CDI device; write vendor.com/class=name")
    return match["kind"]


def is_kind(text: str) -> bool:
    """Return whether a text is `vendor/class`."""
    return _NAME.fullmatch(f"{text}=x") is not None


def names_in(text: str) -> list[str]:
    """Return the names in a list with commas or blanks between them, each once. Raises BadInput for what is none."""
    names = list(dict.fromkeys(name for name in re.split(r"[\s,]+", text) if name))
    for name in names:
        kind_of(name)
    return names


def edits_of(found: Devices, names: Iterable[str]) -> Edits:
    """Return the edits that these names make: of each file its common ones once, before those of its first device.

    A later variable, node or mount of the same name replaces an earlier one. Raises BadInput for a name that nothing
    defines, saying what there is, and for edits that are not applied here.
    """
    chosen = []
    for name in dict.fromkeys(names):
        kind_of(name)
        if name not in found.devices:
            raise BadInput(_unknown(name, found))
        chosen.append(found.devices[name])
    ordered: list[tuple[str, Mapping[str, Any]]] = []
    files: set[str] = set()
    for device in chosen:
        if device.path not in files:
            files.add(device.path)
            ordered.append((device.path, device.common))
        ordered.append((device.name, device.edits))
    environment: dict[str, str] = {}
    nodes: dict[str, Mapping[str, Any]] = {}
    mounts: dict[str, Mapping[str, Any]] = {}
    hooks: dict[str, list[Mapping[str, Any]]] = {}
    for whose, edits in ordered:
        strange = next((key for key in _NOT_APPLIED if edits.get(key)), None)
        if strange is not None:
            raise BadInput(f"{whose} has {strange}, which containers of this agent are not given")
        environment.update(str(entry).partition("=")[::2] for entry in edits.get("env") or ())
        nodes.update((str(node["path"]), node) for node in edits.get("deviceNodes") or ())
        for mount in edits.get("mounts") or ():
            if mount.get("type", "") not in _BIND:
                raise BadInput(
                    f"{whose} mounts a {mount['type']} at {mount['containerPath']}; here only bind mounts are made"
                )
            mounts[str(mount["containerPath"])] = mount
        for hook in edits.get("hooks") or ():
            hooks.setdefault(str(hook["hookName"]), []).append(hook)
    by_depth = sorted(mounts.values(), key=lambda mount: str(mount["containerPath"]).rstrip("/").count("/"))
    return Edits(environment, tuple(nodes.values()), tuple(by_depth), hooks)


def _unknown(name: str, found: Devices) -> str:
    """Say what there is instead, and what is wrong with files that may have meant it."""
    kind = kind_of(name)
    same = [one for one in found.devices if one.startswith(f"{kind}=")]
    if same:
        more = f" and {len(same) - _SHOWN} more" if len(same) > _SHOWN else ""
        there = f"of {kind} there {'is' if len(same) == 1 else 'are'} {', '.join(same[:_SHOWN])}{more}"
    else:
        kinds = sorted({one.partition("=")[0] for one in found.devices})
        there = f"the CDI files of this machine define {', '.join(kinds) or 'no device'}"
    wrong = f"; problems: {'; '.join(found.problems[:_SHOWN])}" if found.problems else ""
    return f"there is no CDI device {name}: {there}{wrong}"
