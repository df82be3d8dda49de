"""What an agent keeps for one instance between its tasks: resources, and volumes with data in them.

Source: Marathon core/instance/Reservation, core/instance/LocalVolume, core/launcher/impl/TaskLabels.
"""

from __future__ import annotations

import json

from msgspec import Struct

from mesos_gpu.mesos.ids import AgentId, FrameworkId, TaskId
from mesos_gpu.mesos.resource import Resource

FRAMEWORK_LABEL, INSTANCE_LABEL = "marathon_framework_id", "marathon_task_id"
"""The labels of a reservation; the second one has an instance id, whatever its name says."""


class LocalVolume(Struct, frozen=True):
    """A persistent volume of one instance."""

    app_id: str
    container_path: str
    uuid: str

    @property
    def persistence_id(self) -> str:
        """Return the id that Mesos knows it by."""
        return f"{self.app_id.strip('/').replace('/', '_')}#{self.container_path}#{self.uuid}"


class Reservation(Struct, frozen=True):
    """What one agent keeps for one instance. Times are seconds since the epoch."""

    framework_id: FrameworkId
    """The framework that reserved; labels keep its id, also when the scheduler has become another framework since."""
    agent_id: AgentId
    host: str
    volumes: tuple[LocalVolume, ...]
    since_s: float
    """When it was asked for; from then on it must be confirmed in time."""
    confirmed: bool = False
    """Whether an offer has shown it."""
    attributes: tuple[tuple[str, str], ...] = ()
    region: str | None = None
    zone: str | None = None
    last_task_id: TaskId | None = None
    last_state: str | None = None
    """The task that used it last, and how that ended."""
    freed_s: float | None = None
    """When the agent was told to give it up."""


def reservation_labels(framework_id: FrameworkId, instance_id: str) -> str:
    """Return the labels of what is reserved for an instance, as `Reservation.labels` has them: canonical JSON."""
    pairs = ((FRAMEWORK_LABEL, framework_id), (INSTANCE_LABEL, instance_id))
    return json.dumps({"labels": [{"key": key, "value": value} for key, value in pairs]}, sort_keys=True)


def reserved_for(resource: Resource) -> tuple[FrameworkId, str] | None:
    """Return the ids of framework and instance that a Marathon reserved a resource for; None for anything else."""
    for reservation in resource.reservations:
        if reservation.labels:
            found = {label["key"]: label.get("value", "") for label in json.loads(reservation.labels)["labels"]}
            if FRAMEWORK_LABEL in found and INSTANCE_LABEL in found:
                return found[FRAMEWORK_LABEL], found[INSTANCE_LABEL]
    return None
