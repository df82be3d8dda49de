"""Whether persistent volumes may be created, destroyed, grown and shrunk: Mesos' checks in Mesos' order.

Source: Mesos src/master/validation.cpp (operation::validate of Create, Destroy, GrowVolume and ShrinkVolume).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.master.model.shared_volumes import uses
from mesos_gpu.master.validation.operation_asked import (
    Asked,
    Documents,
    incapable,
    invalid,
    principal_of,
    resource_problem,
)
from mesos_gpu.mesos.resource import Resource, milli
from mesos_gpu.mesos.resources import Resources


def persistence_problem(resources: Sequence[Resource]) -> str | None:
    """Return which persistence id two volumes of one role share (validateUniquePersistenceID), or None."""
    met: set[tuple[str, str]] = set()
    for resource in resources:
        if resource.persistence_id is not None:
            key = (resource.role, resource.persistence_id)
            if key in met:
                return f"Persistence ID '{resource.persistence_id}' is not unique"
            met.add(key)
    return None


def create_problem(asked: Asked) -> str | None:
    """Return why a CREATE is refused, or None."""
    documents = asked.body.get("volumes", [])
    problem = invalid(documents) or _no_volumes(documents)
    if problem is not None:
        return problem
    volumes = list(map(Resource.from_json, documents))
    kept = list(asked.agent.total.kept())
    problem = persistence_problem([*kept, *volumes])
    if problem is not None:
        return problem
    for volume in volumes:
        problem = _shared(asked, volume) or incapable(asked, volume, "created")
        problem = problem or _creator(asked, volume.disk["persistence"].get("principal"))
        if problem is not None:
            return problem
    return None


def _creator(asked: Asked, given: str | None) -> str | None:
    principal = principal_of(asked)
    if principal is None or given == principal:
        return None
    if given is None:
        return (
            f"Create volume operation attempted by principal '{principal}', but there is a volume in the operation "
            "with no principal set in 'disk.persistence'"
        )
    return (
        f"Create volume operation attempted by authenticated principal '{principal}', which does not match a volume in "
        f"the operation with principal '{given}' set in 'disk.persistence'"
    )


def _shared(asked: Asked, volume: Resource) -> str | None:
    if not volume.shared:
        return None
    if asked.framework is not None and "SHARED_RESOURCES" not in asked.framework.capabilities:
        return (
            f"Create volume operation for '{volume}' has been attempted by framework '{asked.framework.id}' with no "
            "SHARED_RESOURCES capability"
        )
    return None


def destroy_problem(asked: Asked) -> str | None:
    """Return why a DESTROY is refused, or None."""
    documents = asked.body.get("volumes", [])
    problem = invalid(documents) or _no_volumes(documents)
    if problem is not None:
        return problem
    volumes = Resources.from_json(documents).unallocated()
    if not asked.agent.total.kept().contains(volumes):
        return "Persistent volumes not found"
    if uses(asked.agent.used_total, volumes):
        return "Persistent volumes in use"
    return None


def grow_problem(asked: Asked) -> str | None:
    """Return why a GROW_VOLUME is refused, or None."""
    return _absent(asked, "GrowVolume", "volume", "addition") or _growth_problem(asked)


def _growth_problem(asked: Asked) -> str | None:
    volume, addition = asked.body["volume"], asked.body["addition"]
    for field, document in (("volume", volume), ("addition", addition)):
        problem = resource_problem([document])
        if problem is not None:
            return f"Invalid resource in the 'GrowVolume.{field}' field: {problem}"
    if not Resources.from_json([addition]):
        return "The size of 'GrowVolume.addition' field must be greater than zero"
    problem = _resized_problem(volume, "GrowVolume", "Growing")
    if problem is not None:
        return problem
    if Resource.from_json(volume).without_volume().key != Resource.from_json(addition).key:
        return "Incompatible resources in the 'GrowVolume.volume' and 'GrowVolume.addition' fields"
    return _cannot_resize(asked, volume, "grown")


def shrink_problem(asked: Asked) -> str | None:
    """Return why a SHRINK_VOLUME is refused, or None."""
    return _absent(asked, "ShrinkVolume", "volume", "subtract") or _shrinkage_problem(asked)


def _shrinkage_problem(asked: Asked) -> str | None:
    volume = asked.body["volume"]
    problem = resource_problem([volume])
    if problem is not None:
        return f"Invalid resource in the 'ShrinkVolume.volume' field: {problem}"
    try:
        less = milli(asked.body["subtract"]["value"])
    except ValueError:
        return "Value of 'ShrinkVolume.subtract' is not an amount"
    if less <= 0:
        return "Value of 'ShrinkVolume.subtract' must be greater than zero"
    if Resources.from_json([volume]).milli(volume["name"]) <= less:
        return "Value of 'ShrinkVolume.subtract' must be smaller than the size of 'ShrinkVolume.volume'"
    return _resized_problem(volume, "ShrinkVolume", "Shrinking") or _cannot_resize(asked, volume, "shrunk")


def _absent(asked: Asked, name: str, *fields: str) -> str | None:
    absent = next((field for field in fields if field not in asked.body), None)
    return None if absent is None else f"'{absent}' must be set in the '{name}' operation"


def _resized_problem(volume: Mapping[str, Any], name: str, doing: str) -> str | None:
    problem = _volumes_problem([volume])
    if problem is not None:
        return f"Invalid persistent volume in the '{name}.volume' field: {problem}"
    return f"{doing} a shared persistent volume is not supported" if "shared" in volume else None


def _cannot_resize(asked: Asked, volume: Mapping[str, Any], done: str) -> str | None:
    resource = Resource.from_json(volume)
    if "RESIZE_VOLUME" not in asked.agent.capabilities:
        return f"Volume {resource} cannot be {done} on an agent without RESIZE_VOLUME capability"
    if not asked.agent.total.contains(Resources([resource]).unallocated()):
        return "Persistent volumes not found"
    return None


def _volumes_problem(documents: Documents) -> str | None:
    """Return why these are no persistent volumes (validatePersistentVolume), or None."""
    for resource in map(Resource.from_json, documents):
        if not resource.disk:
            return f"Resource {resource} does not have DiskInfo"
        if resource.persistence_id is None:
            return "'persistence' is not set in DiskInfo"
        if resource.disk["volume"].get("mode") == "RO":
            return "Read-only persistent volume not supported"
    return None


def _no_volumes(documents: Documents) -> str | None:
    problem = _volumes_problem(documents)
    return None if problem is None else f"Not a persistent volume: {problem}"
