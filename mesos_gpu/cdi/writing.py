"""A CDI specification of an agent's GPUs. Pure.

Version 0.5.0 and nothing newer, unless asked: podman 4.3 rejects a file with one field that it does not know.
Source: cncf-tags/container-device-interface, `SPEC.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

KIND = "nvidia.com/gpu"
VERSION, WITH_ANNOTATIONS = "0.5.0", "0.6.0"
DRIVER_VERSION = "mesos-gpu.driver-version"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
PROGRAMS = "/usr/bin"
_OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]


def gpu_spec(
    driver: Mapping[str, Any], hook: Sequence[str], *, kind: str = KIND, annotate: bool = False
) -> dict[str, Any]:
    """Return the specification of these GPUs: by index and UUID, MIG instances as `0:1`, and `all`.

    `driver` is as an agent shows it at /gpus/driver. `hook` is the command that takes the lease, with `--gpu UUID` for
    each GPU behind it: a container that it refuses is not started. `annotate` has the driver's version in it, which
    consumers before CDI 0.6 do not take.
    """
    gpus: Sequence[Mapping[str, Any]] = driver["gpus"]
    named: dict[str, list[Mapping[str, Any]]] = {}
    for gpu in gpus:
        named.setdefault(_name(gpu, gpus), []).append(gpu)
        named[str(gpu["uuid"])] = [gpu]
    if gpus:
        named["all"] = list(gpus)
    devices = [{"name": name, "containerEdits": _device_edits(some, hook)} for name, some in named.items()]
    spec: dict[str, Any] = {"cdiVersion": WITH_ANNOTATIONS if annotate else VERSION, "kind": kind}
    if annotate:
        spec["annotations"] = {DRIVER_VERSION: str(driver["version"])}
    return {**spec, "devices": devices, "containerEdits": _common_edits(driver)}


def _name(gpu: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> str:
    if not gpu.get("mig"):
        return str(gpu["index"])
    of_one = [other["uuid"] for other in gpus if other.get("mig") and other["index"] == gpu["index"]]
    return f"{gpu['index']}:{of_one.index(gpu['uuid'])}"


def _device_edits(gpus: Iterable[Mapping[str, Any]], hook: Sequence[str]) -> dict[str, Any]:
    nodes = {node["path"]: _node(node) for gpu in gpus for node in gpu["devices"]}
    words = [*hook, *(word for gpu in gpus for word in ("--gpu", str(gpu["uuid"])))]
    lends = {"hookName": "createRuntime", "path": words[0], "args": words, "timeout": 30}
    return {"deviceNodes": list(nodes.values()), "hooks": [lends]}


def _common_edits(driver: Mapping[str, Any]) -> dict[str, Any]:
    mounts = [_mount(mount["source"], mount["destination"]) for mount in driver["mounts"]]
    for mount in driver["mounts"]:
        files = driver.get("files") or {}
        mounts += [_mount(f"{mount['source']}/bin/{name}", f"{PROGRAMS}/{name}") for name in files.get("bin", ())]
        mounts += [_mount(f"{mount['source']}/lib64/{name}", f"{LIBRARIES}/{name}") for name in files.get("lib64", ())]
    # A runtime of NVIDIA's below must not do it again.
    edits: dict[str, Any] = {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    edits["deviceNodes"] = [_node(node) for node in driver["control_devices"]]
    return {**edits, "mounts": mounts} if mounts else edits


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {"type": "c", "major": node["major"], "minor": node["minor"]}
    return {"path": node["path"], **numbers, "fileMode": node["mode"], "permissions": "rw"}


def _mount(source: str, destination: str) -> dict[str, Any]:
    return {"hostPath": source, "containerPath": destination, "options": list(_OPTIONS)}
