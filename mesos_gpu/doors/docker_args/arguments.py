"""A lease as arguments of `docker run`: devices and volumes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def device_argument(node: Mapping[str, Any]) -> str:
    """Return `--device` for a node; short where host and container have it in one place."""
    host, inside = str(node["host_path"]), str(node["path"])
    return f"--device={host}" if host == inside else f"--device={host}:{inside}"


def docker_arguments(use: Mapping[str, Any]) -> list[str]:
    """Return what a container is given to use what was lent, or shown: `--device ... -v ...`, `--cidfile` of a lease.

    `use` is a lease as the agent answers it, or its `devices` and `mounts` alone.
    """
    cidfile = [f"--cidfile={use['cidfile']}"] if use.get("cidfile") else []
    return [*cidfile, *map(device_argument, use["devices"]), *_volumes(use["mounts"])]


def _volumes(mounts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for mount in mounts:
        yield "-v"
        yield f"{mount['source']}:{mount['destination']}" + (":ro" if mount["read_only"] else "")


def looking(driver: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return what shows these GPUs of a machine, by index or UUID, and lends none; all of them without names.

    Raises KeyError with a name that no GPU has.
    """
    wanted, gpus = list(names), driver["gpus"]
    chosen = []
    for name in wanted:
        found = [gpu for gpu in gpus if name in (gpu["uuid"], str(gpu["index"]))]
        if not found:
            raise KeyError(name)
        chosen += found
    devices = [node for gpu in (chosen if wanted else gpus) for node in gpu["devices"]]
    unique = {node["path"]: node for node in (*devices, *driver["control_devices"])}
    return {"devices": list(unique.values()), "mounts": driver["mounts"]}
