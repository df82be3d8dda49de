"""An app's volumes as Mesos messages.

Those that outlive tasks are resources instead, and those of secrets need a plugin.

Source: Marathon api/serialization/ContainerSerializer, core/externalvolume/impl/providers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.marathon.definitions.external_rules import DRIVER, PREFIX

Document = dict[str, Any]


def task_volumes(volumes: Sequence[Mapping[str, Any]]) -> list[Document]:
    """Return Mesos' Volumes of an app's volumes.

    A volume of a secret is left out, as Marathon does without a plugin for secrets.
    """
    return [
        _host(volume) if "hostPath" in volume else _external(volume)
        for volume in volumes
        if "hostPath" in volume or "external" in volume
    ]


def _host(volume: Mapping[str, Any]) -> Document:
    return {"container_path": volume["containerPath"], "host_path": volume["hostPath"], "mode": volume["mode"]}


def _external(volume: Mapping[str, Any]) -> Document:
    external = volume["external"]
    options = {**external["options"], **({f"{PREFIX}size": str(external["size"])} if "size" in external else {})}
    parameters = [
        {"key": key[len(PREFIX) :], "value": str(value).strip()}
        for key, value in sorted(options.items())
        if key.startswith(PREFIX) and key.lower() != DRIVER
    ]
    docker_volume: Document = {"driver": external["options"][DRIVER], "name": external["name"]}
    if parameters:
        docker_volume["driver_options"] = {"parameter": parameters}
    source = {"type": "DOCKER_VOLUME", "docker_volume": docker_volume}
    return {"container_path": volume["containerPath"], "mode": volume.get("mode", "RW"), "source": source}
