"""What the API shows of the persistent volumes of an instance. Pure. Source: Marathon raml/LocalVolumeConversion."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.model.instances import Instance


def local_volumes(instance: Instance) -> list[dict[str, Any]]:
    """Return the persistent volumes of an instance of an app or a pod; none while nothing is reserved for it."""
    return [
        {
            "runSpecId": volume.app_id,
            "containerPath": volume.container_path,
            "uuid": volume.uuid,
            "persistenceId": volume.persistence_id,
        }
        for volume in (instance.reservation.volumes if instance.reservation is not None else ())
    ]
