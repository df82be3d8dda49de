"""Which disks of an offer become the persistent volumes of an app.

Source: Marathon mesos/ResourceMatcher.scala, matchDiskResource. A `root` volume is part of the agent's own disk, a
`path` one part of a disk that may be shared, a `mount` one a whole disk that nobody else gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mesos_gpu.marathon.definitions.patterns import like
from mesos_gpu.mesos.resource import Resource, milli
from mesos_gpu.mesos.resources import Resources

ROOT = "root"


def is_root_disk(resource: Resource) -> bool:
    """Return whether a resource is no disk of its own kind: what an app's `disk` may be taken from."""
    return '"source"' not in resource.other


def take_volumes(volumes: Sequence[Mapping[str, Any]], free: Resources) -> tuple[Resource, ...] | None:
    """Return a disk for each of an app's persistent volumes, in their order; None when they do not all find one.

    `free` is what may be taken, without volumes that are there already.
    """
    taken: dict[int, Resource] = {}
    # The biggest first, so that they are not left with what the small ones have begun.
    for index in sorted(range(len(volumes)), key=lambda i: -int(volumes[i]["persistent"]["size"])):
        wish = volumes[index]["persistent"]
        disk = _take(wish, free)
        if disk is None:
            return None
        taken[index] = disk
        free -= Resources([disk])
    return tuple(taken[index] for index in range(len(volumes)))


def largest_disk(volume: Mapping[str, Any], free: Resources) -> int:
    """Return the size of the largest disk that a persistent volume could be made of, whatever its size."""
    return max((amount for amount, _ in _suitable(volume["persistent"], free)), default=0)


def _suitable(wish: Mapping[str, Any], free: Resources) -> list[tuple[int, Resource]]:
    """Return the disks of the type and with the properties that a volume asks for, with their sizes."""
    return [
        (resource.amount, resource)
        for resource in free
        if resource.name == "disk" and isinstance(resource.amount, int)
        if _kind(resource) == wish["type"] and resource.persistence_id is None and _suits(wish, resource)
    ]


def _take(wish: Mapping[str, Any], free: Resources) -> Resource | None:
    size, kind = milli(wish["size"]), wish["type"]
    limit = milli(wish["maxSize"]) if "maxSize" in wish else None
    fitting = [(amount, resource) for amount, resource in _suitable(wish, free) if amount >= size]
    if kind == "mount":
        whole = [(amount, resource) for amount, resource in fitting if limit is None or amount <= limit]
        return min(whole, key=lambda pair: pair[0])[1] if whole else None
    # The emptiest first, so that disks fill evenly.
    return replace(max(fitting, key=lambda pair: pair[0])[1], amount=size) if fitting else None


def _kind(resource: Resource) -> str:
    source = resource.disk.get("source")
    return ROOT if source is None else str(source.get("type", "")).lower()


def _suits(wish: Mapping[str, Any], resource: Resource) -> bool:
    source = resource.disk.get("source", {})
    if "profileName" in wish and source.get("profile") != wish["profileName"]:
        return False
    root = source.get(_kind(resource), {}).get("root", "")
    return all(
        like("".join(constraint[2:3]), root) == (constraint[1].upper() == "LIKE") for constraint in wish["constraints"]
    )
