"""One version of an app, or of a pod: its canonical definition with the times of its last changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from mesos_gpu.marathon.definitions.gpu_share import kept_share_of
from mesos_gpu.marathon.definitions.ports import PortWish, wishes
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.shares.cgpu import ShareAsk

# What `read_app` knows nothing of: the server sets these.
SERVER_KEYS = ("version", "versionInfo")
# An update that touches only these starts and stops instances and replaces none (Marathon AppDefinition.isUpgrade).
# What only the order of the queue looks at is nothing to a task that runs.
_SCALING_KEYS = ("instances", "priority", "preemptible", *SERVER_KEYS)
_SCALARS = ("cpus", "mem", "disk", "gpus")
# What an offer has to have for an instance, beside its resources (matching/matching.py).
_MATCHED_KEYS = ("role", "acceptedResourceRoles", "constraints")
_OF_ONE_AGENT = ("IS", "LIKE", "UNLIKE", "CLUSTER")


class RunSpec(Struct, frozen=True, dict=True):
    """An app as `read_app` returns it, or a pod as `read_pod` does, with `version` and `versionInfo` beside it.

    What is asked for at each offer is worked out once for each version, and kept.
    """

    document: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Return the canonical id, `/group/name`."""
        return str(self.document["id"])

    @property
    def version(self) -> str:
        """Return the timestamp that names this version."""
        return str(self.document["version"])

    @property
    def config_version(self) -> str:
        """Return the version that last changed more than the number of instances; older instances are outdated."""
        return str(self.document["versionInfo"]["lastConfigChangeAt"])

    @property
    def instances(self) -> int:
        """Return how many instances are asked for."""
        return int(self.document["instances"])

    @property
    def gpus(self) -> int:
        """Return whole GPUs per instance."""
        return int(self.document["gpus"])

    @property
    def gang_size(self) -> int:
        """Return how many instances start together: one, where the app is no gang."""
        return int(self.document["gang"]["size"]) if "gang" in self.document else 1

    @property
    def priority(self) -> int:
        """Return who starts first of those that wait: more before less."""
        return int(self.document.get("priority", 0))

    @property
    def max_run_s(self) -> int | None:
        """Return after how many seconds a task is ended, None for never."""
        limit = self.document.get("maxRuntimeSeconds")
        return None if limit is None else int(limit)

    @cached_property
    def scalars(self) -> tuple[tuple[str, int, int], ...]:
        """Return how much an instance takes of each scalar resource, and its own executor beside it, in thousandths."""
        beside = self.executor_resources
        return tuple((name, milli(self.document[name]), milli(beside.get(name, 0))) for name in _SCALARS)

    @cached_property
    def asked(self) -> Mapping[str, int]:
        """Return how much an instance takes of each scalar resource with its executor, in thousandths; none of 0."""
        return {name: own + beside for name, own, beside in self.scalars if own + beside}

    @cached_property
    def ports(self) -> tuple[PortWish, ...]:
        """Return the ports that it asks for."""
        return wishes(self.document)

    @cached_property
    def alike(self) -> str | None:
        """Return what all have in common that any offer suits or does not suit for the same reasons.

        None where that depends on more than the offer: on where other instances are, or what is kept for this one.
        """
        document = self.document
        clusters = all(len(c) > 2 for c in document["constraints"] if c[1].upper() == "CLUSTER")
        if self.resident or not clusters or any(c[1].upper() not in _OF_ONE_AGENT for c in document["constraints"]):
            return None
        # Not their service ports: of these no two apps have the same.
        ports = [(wish.number, wish.on_host) for wish in self.ports]
        asked = (self.scalars, [document.get(key) for key in _MATCHED_KEYS], ports, repr(self.shares))
        return json.dumps((asked, document["labels"].get("GPU_SCHEDULING_BEHAVIOR")), sort_keys=True)

    @cached_property
    def ordered(self) -> bool:
        """Return whether the order of what waits counts for it: it is a gang, or has a priority."""
        return "gang" in self.document or "priority" in self.document

    @cached_property
    def shares(self) -> tuple[ShareAsk | None, ...]:
        """Return the part of shared GPUs that each task of an instance asks for: one entry, or one a container."""
        if not self.is_pod:
            return (kept_share_of(self.document.get("gpuShare"), self.document.get("env", {})),)
        pod = self.document["pod"]
        return tuple(
            kept_share_of(container.get("gpuShare"), {**pod["environment"], **container["environment"]})
            for container in pod["containers"]
        )

    @cached_property
    def largest_share(self) -> ShareAsk | None:
        """Return the largest of those parts; None where it asks for none."""
        asked = [ask for ask in self.shares if ask is not None]
        return max(asked, key=lambda ask: max(ask.mem_gib), default=None)

    @property
    def is_pod(self) -> bool:
        """Return whether it is a pod."""
        return "pod" in self.document

    @property
    def persistent_volumes(self) -> tuple[Mapping[str, Any], ...]:
        """Return the volumes that outlive its tasks."""
        volumes = self.document.get("container", {}).get("volumes", ())
        return tuple(volume for volume in volumes if "persistent" in volume)

    @property
    def resident(self) -> bool:
        """Return whether its instances stay on the agents that have their volumes."""
        return bool(self.persistent_volumes)

    @property
    def executor_resources(self) -> Mapping[str, float]:
        """Return what an executor of its own takes beside each task; nothing for the command executor."""
        own = self.is_pod or self.document.get("executor", "") not in ("", "//cmd")
        asked: Mapping[str, float] = self.document.get("executorResources", {}) if own else {}
        return asked

    @property
    def definition(self) -> dict[str, Any]:
        """Return the canonical definition alone, as it could be sent again."""
        return {key: value for key, value in self.document.items() if key not in SERVER_KEYS}

    @property
    def task_name(self) -> str:
        """Return the Mesos task name: the path reversed, joined by dots."""
        return task_name(self.id)


def task_name(app_id: str) -> str:
    """Return the Mesos task name of an app: the path of its id reversed, joined by dots."""
    return ".".join(reversed(app_id.strip("/").split("/")))


def versioned(definition: Mapping[str, Any], version: str, previous: RunSpec | None) -> RunSpec:
    """Return `definition` as the version of that time, after `previous` (None for a new app)."""
    if previous is None or differs_in_config(definition, previous.document):
        info = {"lastScalingAt": version, "lastConfigChangeAt": version}
    elif definition["instances"] != previous.instances:
        info = {"lastScalingAt": version, "lastConfigChangeAt": previous.config_version}
    else:
        info = dict(previous.document["versionInfo"])
    return RunSpec({**definition, "version": version, "versionInfo": info})


def restarted(spec: RunSpec, version: str) -> RunSpec:
    """Return the same app as a new version that makes every present instance outdated."""
    info = {"lastScalingAt": version, "lastConfigChangeAt": version}
    return RunSpec({**spec.definition, "version": version, "versionInfo": info})


def differs_in_config(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two definitions differ in more than the number of instances."""
    keys = {*one, *other} - {*_SCALING_KEYS}
    return any(one.get(key) != other.get(key) for key in keys)
