"""Units of device plugins among a task's resources: a scalar of the resource's own name, one for each device. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.mesos.ids import ANY_ROLE, Role
from mesos_gpu.mesos.resources import WHOLE, Resources

GPUS = "gpus"


def is_units(name: str) -> bool:
    """Return whether a resource is one of a plugin: extended resources have a domain, as `nvidia.com/gpu`.

    Source: kubernetes/kubernetes pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName.
    """
    domain, slash, rest = name.partition("/")
    return bool(slash and domain and rest) and "/" not in rest


def units_of(resources: Resources, gpus_from: str | None = None) -> dict[str, int]:
    """Return how many units of each plugin these resources are; `gpus` are units of `gpus_from` where that is given."""
    names = {resource.name for resource in resources if is_units(resource.name)}
    found = {name: resources.milli(name) // WHOLE for name in sorted(names)}
    if gpus_from is not None and resources.gpus:
        found[gpus_from] = resources.gpus
    return found


def refusal(info: Mapping[str, Any], gpus_from: str | None, *, running: bool) -> str | None:
    """Return why a task cannot have the units that it was given, in words for its owner.

    `running`: it is to join an executor that runs, whose container cannot be given devices any more.
    """
    resources = Resources.from_json(info.get("resources", []))
    part = next((r.name for r in resources if is_units(r.name) and resources.milli(r.name) % WHOLE), None)
    if part is not None:
        return f"Task uses invalid resources: Invalid '{part}' resource: devices of a plugin are given whole"
    units = units_of(resources, gpus_from)
    if units and running:
        names = " and ".join(units)
        return (
            f"The executor runs already and cannot be given {names} of a device plugin: launch the task with an "
            "executor of its own"
        )
    return None


def stale_units(
    held: Mapping[str, Iterable[str]], infos: Iterable[Mapping[str, Any]], gpus_from: str | None
) -> dict[str, int]:
    """Return how many units a container holds beyond what is on record for it and its live tasks (`infos`).

    Those of a task that ended stay with its executor's container until that ends, and are not to be offered meanwhile.
    """
    resources = sum((Resources.from_json(info.get("resources", [])) for info in infos), Resources(()))
    used = units_of(resources, gpus_from)
    return {name: more for name, ids in held.items() if (more := len(list(ids)) - used.get(name, 0)) > 0}


def with_units(total: Resources, units: Mapping[str, int], kept: Resources, gpus_from: str | None) -> Resources:
    """Return an agent's total with the units that may be offered beside it.

    Units that the master reserved here (`kept`) stay, whatever became of the devices: a master sends an agent away
    that no longer has what is reserved on it.
    """
    names = {*units, *(resource.name for resource in kept if is_units(resource.name))}
    made = total
    for name in sorted(names):
        shown = GPUS if name == gpus_from else name
        reserved = kept.filter(lambda resource, shown=shown: resource.name == shown)  # type: ignore[misc]
        free = units.get(name, 0) * WHOLE
        count = max(free, reserved.milli(shown))
        if count:
            made = made + Resources.parse(f"{shown}:{count // WHOLE}", Role(ANY_ROLE))
    return made
