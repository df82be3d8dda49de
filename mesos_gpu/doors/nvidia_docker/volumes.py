"""Docker's protocol of volume plugins, as nvidia-docker-plugin spoke it: a request in, an answer out. Pure.

Two clients differ: Docker asks for a version (Accept) and reads `Err` in an answer 200; podman asks for none, and reads
`Err` only where the status is no 200. Source: NVIDIA/nvidia-docker 1.0.1, `src/nvidia-docker-plugin/plugin_volume.go`;
containers/podman `libpod/plugin/volume_api.go`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from mesos_gpu.doors.nvidia_docker.inventory import json_line

ACCEPTED = ("application/vnd.docker.plugins.v1.1+json", "application/vnd.docker.plugins.v1.2+json")
VOLUME, MOUNTPOINT = "nvidia_driver", "/usr/local/nvidia"
_NAME = re.compile(r"([a-zA-Z0-9_.-]+)_([0-9][0-9A-Za-z.-]*)")


class _Request(msgspec.Struct, frozen=True):
    Name: str = ""
    ID: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, and what is to be done before it is given: make or remove the volume of a version."""

    status: int
    body: str
    kind: str = "text/plain; charset=utf-8"
    create: str = ""
    remove: str = ""
    mounted: str = ""
    """The id that now has the volume."""
    unmounted: str = ""


def answer(
    method: str,
    path: str,
    accept: str | None,
    body: bytes,
    *,
    version: str,
    folder: str,
    there: Collection[str],
    in_use: bool = False,
) -> Answer:
    """Answer a request.

    `version` is the driver's; `folder/VERSION` is where volumes are, `there` the versions made; `in_use`: a container
    has the volume mounted.
    """
    if accept is not None and accept not in ACCEPTED:
        return Answer(406, "")
    kind, lenient = accept or ACCEPTED[0], accept is not None
    if method != "POST" or path not in _CALLS:
        return Answer(404, "404 page not found\n")
    try:
        request = msgspec.json.decode(body.strip() or b"{}", type=_Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Answer(400, f"the body is not a request of this protocol: {error}\n")
    name, holder = request.Name, request.ID

    def said(document: dict[str, Any], **more: str) -> Answer:
        failed = document.get("Err") is not None
        return Answer(200 if lenient or not failed else 500, json_line(document), kind, **more)

    match path.rpartition(".")[2]:
        case "Activate":
            return said({"Implements": ["VolumeDriver"]})
        case "Capabilities":
            return said({"Capabilities": {"Scope": "local"}})
        case "List":
            volumes = [_volume(f"{VOLUME}_{one}", folder, one) for one in sorted(there)]
            return said({"Volumes": volumes or None, "Err": None})
        case "Unmount":
            return said({"Err": None}, unmounted=holder)
        case call:
            return _named(call, name, holder, said, version, folder, there, in_use)


def _named(
    call: str, name: str, holder: str, said: Any, version: str, folder: str, there: Collection[str], in_use: bool
) -> Answer:
    """Answer what is about one volume."""
    of, problem = _version_of(name)
    found = problem or (None if of in there else f"no such volume: {name}")
    result: Answer
    match call:
        case "Create":
            wrong = problem or (None if of == version else f"invalid volume version: {name}")
            result = said({"Err": wrong}, create="" if wrong else of)
        case "Remove":
            # A container that has it would lose its driver; the original removed it all the same.
            held = f"volume is in use: {name}" if in_use and of == version else None
            wrong = found or held
            result = said({"Err": wrong}, remove="" if wrong else of)
        case "Get":
            result = said({"Volume": None if found else _volume(name, folder, of), "Err": found})
        case _:  # Mount and Path
            place = None if found else f"{folder}/{of}"
            result = said({"Mountpoint": place, "Err": found}, mounted="" if found or call == "Path" else holder)
    return result


_CALLS = {
    "/Plugin.Activate",
    *(f"/VolumeDriver.{call}" for call in ("Create", "Remove", "Mount", "Path", "Unmount", "Get", "List")),
    "/VolumeDriver.Capabilities",
}


def _version_of(name: str) -> tuple[str, str | None]:
    """Return the version in a volume's name, and what is wrong with the name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return "", f"bad volume format: {name}"
    return match[2], None if match[1] == VOLUME else f"unsupported volume: {name}"


def _volume(name: str, folder: str, version: str) -> dict[str, str]:
    return {"Name": name, "Mountpoint": f"{folder}/{version}"}
