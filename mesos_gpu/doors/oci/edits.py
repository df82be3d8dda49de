"""What a lease changes in an OCI configuration, and what it takes from one. Pure.

Source: the OCI runtime specification, "Configuration" and "Linux Container Configuration".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from mesos_gpu.doors.common.names import HOOK
from mesos_gpu.doors.oci.wanted import VISIBLE
from mesos_gpu.isolator.plan import DeviceRule

_DRIVER_MOUNT = ["rbind", "nosuid", "nodev", "rprivate"]


def edited(config: Mapping[str, Any], use: Mapping[str, Any], hook: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the configuration of a container that may use what was lent, and runs `hook` when it is made.

    NVIDIA's own hook is taken out of it: what it would do is done here.
    """
    new: dict[str, Any] = deepcopy(dict(config))
    linux = new.setdefault("linux", {})
    devices, rules = linux.setdefault("devices", []), linux.setdefault("resources", {}).setdefault("devices", [])
    ours = {node["path"] for node in use["devices"]}
    devices[:] = [device for device in devices if device.get("path") not in ours]
    for node in use["devices"]:
        numbers = {"type": "c", "major": node["major"], "minor": node["minor"]}
        devices.append(
            {"path": node["path"], **numbers, "fileMode": node["mode"], "uid": node["uid"], "gid": node["gid"]}
        )
        rules.append({"allow": True, **numbers, "access": "rwm"})
    for mount in use["mounts"]:
        options = [*_DRIVER_MOUNT, *(["ro"] if mount["read_only"] else [])]
        new.setdefault("mounts", []).append(
            {"destination": mount["destination"], "type": "bind", "source": mount["source"], "options": options}
        )
    process = new.setdefault("process", {})
    process["env"] = _environment(process.get("env") or [], use)
    hooks = new.setdefault("hooks", {})
    for stage in ("prestart", "createRuntime"):
        kept = [one for one in hooks.get(stage) or [] if str(one.get("path", "")).rpartition("/")[2] != HOOK]
        if kept or stage in hooks:
            hooks[stage] = kept
    if hook is not None:
        hooks.setdefault("createRuntime", []).append(dict(hook))
    return new


def _environment(entries: Sequence[str], use: Mapping[str, Any]) -> list[str]:
    env = {name: value for name, _, value in (entry.partition("=") for entry in entries)}
    env.update(use["environment"])
    env.setdefault(VISIBLE, "void")
    for name, paths in use["search_paths"].items():
        there = [path for path in env.get(name, "").split(":") if path]
        env[name] = ":".join([*there, *(path for path in paths if path not in there)])
    return [f"{name}={value}" for name, value in env.items()]


def device_rules(config: Mapping[str, Any]) -> list[DeviceRule] | None:
    """Return what a container may open by its configuration; None where that is everything."""
    rules: list[DeviceRule] = []
    for entry in ((config.get("linux") or {}).get("resources") or {}).get("devices") or []:
        kind = entry.get("type") or "a"
        whole = kind == "a" and entry.get("major") is None and entry.get("minor") is None
        if whole:
            if entry.get("allow"):
                return None
            rules.clear()
        elif entry.get("allow"):
            rules.append(DeviceRule(kind, _number(entry, "major"), _number(entry, "minor"), entry.get("access", "rwm")))
    return rules


def _number(entry: Mapping[str, Any], key: str) -> int | None:
    number = entry.get(key)
    return None if number is None or number < 0 else int(number)


def engine_folder(config: Mapping[str, Any], container: str) -> str | None:
    """Return Docker's folder of the container, by what it mounts at /etc; None for other engines' containers."""
    for mount in config.get("mounts") or []:
        folder, _, name = str(mount.get("source", "")).rpartition("/")
        if mount.get("destination") in ("/etc/hostname", "/etc/hosts") and name in ("hostname", "hosts"):
            return folder if folder.rpartition("/")[2] == container else None
    return None
