"""Which machine nvidia-docker asks: NV_HOST and DOCKER_HOST. Pure.

Source: NVIDIA/nvidia-docker 1.0.1, `src/nvidia-docker/main.go` and `remote.go`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mesos_gpu.errors import BadInput

PORT, SSH_PORT = 3476, 22
_PLACE = re.compile(r"(\[[0-9a-f.:]+\]|[0-9A-Za-z.\-_]+)?(:\d+)?:(\d+)?")


@dataclass(frozen=True, slots=True)
class Remote:
    """A machine with an nvidia-docker-plugin: by HTTP, or through a tunnel of ssh."""

    host: str
    port: int
    ssh_user: str = ""
    ssh_port: int = 0


def remote_host(nv_host: str, docker_host: str, user: str) -> Remote | None:
    """Return whom to ask, None for this machine. NV_HOST counts more; DOCKER_HOST's port is docker's, not the plugin's.

    Raises BadInput.
    """
    text = nv_host or docker_host
    if not text:
        return None
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "tcp", text
    if scheme == "unix":
        return None
    if scheme not in ("tcp", "http", "ssh"):
        raise BadInput(f"unsupported remote protocol: {scheme}")
    login, at, place = rest.rstrip("/").rpartition("@")
    match = _PLACE.fullmatch(place)
    if match is None:
        raise BadInput(f"invalid remote host URI: {text}; write HOST:PORT")
    host = match[1] or "localhost"
    port = int(match[3] or PORT) if nv_host else PORT
    if scheme != "ssh":
        return Remote(host, port)
    return Remote(host, port, login if at else user, int(match[2][1:]) if match[2] else SSH_PORT)
