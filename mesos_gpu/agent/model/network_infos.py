"""Which networks a container is to join, by its ContainerInfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.mesos.resource import Document


def networks_of(info: Mapping[str, Any]) -> tuple[Document, ...]:
    """Return the networks that a task, or an executor, asks to join.

    A NetworkInfo without a name asks for no network but the host's, whatever it says of ports (so does network/cni).
    """
    infos = (info.get("container") or {}).get("network_infos", ())
    return tuple(dict(network) for network in infos if network.get("name"))
