"""nvidia-docker-plugin's REST interface: a request in, an answer out. Pure.

Source: NVIDIA/nvidia-docker 1.0.1, `src/nvidia-docker-plugin/remote_v1.go`, `remote_api.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from mesos_gpu.doors.nvidia_docker.inventory import (
    gpu_info,
    gpu_status,
    info_text,
    json_line,
    mesos_arguments,
    status_text,
)
from mesos_gpu.doors.nvidia_docker.volumes import MOUNTPOINT, VOLUME, Answer

PREFIX = "/v1.0"
JSON = "application/json"


def rest_answer(method: str, target: str, driver: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> Answer:
    """Answer a request; `driver` and `gpus` are as the agent shows them at /gpus/driver and /gpus."""
    path, _, query = target.partition("?")
    path = path.removeprefix(PREFIX) if path.startswith(f"{PREFIX}/") else path
    asked = parse_qs(query, keep_blank_values=True)
    if method not in ("GET", "HEAD"):
        return Answer(404, "404 page not found\n")
    match path:
        case "/gpu/info":
            return Answer(200, info_text(gpu_info(driver)))
        case "/gpu/info/json":
            return Answer(200, json_line(gpu_info(driver)), JSON)
        case "/gpu/status":
            return Answer(200, status_text(gpu_status(gpus), gpu_info(driver)))
        case "/gpu/status/json":
            return Answer(200, json_line(gpu_status(gpus)), JSON)
        case "/docker/cli" | "/docker/cli/json":
            return _docker(asked, driver, as_json=path.endswith("json"))
        case "/mesos/cli":
            return Answer(200, mesos_arguments(gpu_info(driver), scalar=asked.get("format") == ["scalar"]))
        case _:
            return Answer(404, "404 page not found\n")


def _docker(asked: Mapping[str, Sequence[str]], driver: Mapping[str, Any], *, as_json: bool) -> Answer:
    try:
        devices = device_paths(_words(asked, "dev"), driver)
        volumes = volume_words(_words(asked, "vol"), driver)
    except KeyError as wrong:
        return Answer(400, f"{wrong.args[0]}\n")
    if as_json:
        return Answer(200, json_line({"VolumeDriver": "nvidia-docker", "Volumes": volumes, "Devices": devices}), JSON)
    words = ["--volume-driver=nvidia-docker", *(f"--volume={one}" for one in volumes)]
    return Answer(200, " ".join([*words, *(f"--device={one}" for one in devices)]))


def _words(asked: Mapping[str, Sequence[str]], key: str) -> list[str]:
    """Return what a query names, nothing for all of it."""
    words = (asked.get(key) or [""])[0].split(" ")
    return [] if words in ([""], ["*"]) else words


def device_paths(names: Sequence[str], driver: Mapping[str, Any]) -> list[str]:
    """Return the nodes for these GPUs, by index or UUID, control nodes first; all GPUs without names.

    Where the host has a node elsewhere than a container, both places are said. Raises KeyError with the words for it.
    """
    gpus = driver["gpus"]
    chosen = list(gpus) if not names else []
    for name in names:
        found = [g for g in gpus if name == str(g["index"]) or (name.startswith("GPU-") and g["uuid"].startswith(name))]
        if not found:
            raise KeyError(f"invalid device: {name}")
        chosen += [found[0]] if found[0] not in chosen else []
    nodes = [*driver["control_devices"], *(node for gpu in chosen for node in gpu["devices"])]
    return list(dict.fromkeys(_place(node) for node in nodes))


def _place(node: Mapping[str, Any]) -> str:
    host, inside = str(node["host_path"]), str(node["path"])
    return host if host == inside else f"{host}:{inside}"


def volume_words(names: Sequence[str], driver: Mapping[str, Any]) -> list[str]:
    """Return the volumes of these names as docker takes them. Raises KeyError with the words for a strange one."""
    for name in names:
        if name != VOLUME:
            raise KeyError(f"invalid volume: {name}")
    return [f"{VOLUME}_{driver['version']}:{MOUNTPOINT}:ro"]
