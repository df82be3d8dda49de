"""What an operation makes of resources: so much of this becomes so much of that.

These operations are speculative in Mesos' words: their outcome is known before the agent has them. Master and agent
both apply them with this module, so they cannot come to differ.
Source: Mesos src/common/resources_utils.cpp (getResourceConversions), src/common/resources.cpp (ResourceConversion).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.resource import Resource, milli
from mesos_gpu.mesos.resources import Resources

SPECULATIVE = ("RESERVE", "UNRESERVE", "CREATE", "DESTROY", "GROW_VOLUME", "SHRINK_VOLUME")
"""Operations that change resources without anybody having to try first."""


class Conversion(Struct, frozen=True):
    """`consumed` becomes `converted`. The names and amounts of both are the same; only what they are for differs."""

    consumed: Resources
    converted: Resources
    last: bool = False
    """Whether none of `consumed` may be there afterwards: what is shared may be there more than once."""


def conversions(operation: Mapping[str, Any]) -> tuple[Conversion, ...]:
    """Return what an Offer.Operation does, part by part, in order.

    Raises BadResources when the operation is not one of SPECULATIVE, or its resources are not what it is about.
    """
    kind = str(operation.get("type"))
    if kind not in _READERS:
        raise BadResources(f"{kind} does not convert resources")
    return tuple(_READERS[kind](operation.get(kind.lower()) or {}))


def applied(resources: Resources, changes: Iterable[Conversion]) -> Resources:
    """Return `resources` after the changes. Raises BadResources, in Mesos' words, for what is not there to convert."""
    for change in changes:
        if not resources.contains(change.consumed):
            raise BadResources(f"{resources} does not contain {change.consumed}")
        left = resources - change.consumed
        if change.last and left.contains(change.consumed):
            raise BadResources(f"Persistent volume {change.consumed} cannot be removed due to additional shared copies")
        resources = left + change.converted
    return resources


def unallocated(changes: Iterable[Conversion]) -> tuple[Conversion, ...]:
    """Return the same changes of an agent's own resources, which are allocated to nobody."""
    return tuple(replace(c, consumed=c.consumed.unallocated(), converted=c.converted.unallocated()) for c in changes)


def with_kept(total: Resources, kept: Resources) -> Resources:
    """Return an agent's whole: the total of its flags, with what was reserved and created of it in its place.

    Raises BadResources when `kept` is not part of the total.
    """
    base = kept.base()
    if not total.contains(base):
        raise BadResources(f"{total} does not contain {base}")
    return total - base + kept


def _read(documents: Sequence[Mapping[str, Any]]) -> list[Resource]:
    return [Resource.from_json(document) for document in documents]


def _reserve(body: Mapping[str, Any]) -> Iterable[Conversion]:
    if body.get("source"):
        # From one reservation to another in one step: what is consumed is named, not inferred.
        source, target = Resources(_read(body["source"])), Resources(_read(body.get("resources", ())))
        if source.base() != target.base():
            raise BadResources(f"{source} and {target} are not the same resources, but for their reservations")
        return [Conversion(source, target)]
    reserved = _read(body.get("resources", ()))
    return [Conversion(Resources([one.popped()]), Resources([one])) for one in reserved]


def _unreserve(body: Mapping[str, Any]) -> Iterable[Conversion]:
    reserved = _read(body.get("resources", ()))
    return [Conversion(Resources([one]), Resources([one.popped()])) for one in reserved]


def _create(body: Mapping[str, Any]) -> Iterable[Conversion]:
    return [Conversion(Resources([v.without_volume()]), Resources([v])) for v in _read(body.get("volumes", ()))]


def _destroy(body: Mapping[str, Any]) -> Iterable[Conversion]:
    volumes = _read(body.get("volumes", ()))
    return [Conversion(Resources([v]), Resources([v.without_volume()]), last=True) for v in volumes]


def _grow(body: Mapping[str, Any]) -> Iterable[Conversion]:
    volume, addition = Resource.from_json(body["volume"]), Resource.from_json(body["addition"])
    if volume.without_volume().key != addition.key:
        raise BadResources(f"{volume} cannot grow by {addition}: they are not of one kind")
    grown = dataclasses.replace(volume, amount=_scalar(volume) + _scalar(addition))
    return [Conversion(Resources([volume]) + Resources([addition]), Resources([grown]))]


def _shrink(body: Mapping[str, Any]) -> Iterable[Conversion]:
    volume = Resource.from_json(body["volume"])
    try:
        less = milli(body["subtract"]["value"])
    except (KeyError, ValueError):
        raise BadResources(f"{volume} cannot shrink: 'subtract' is not an amount") from None
    if not 0 < less < _scalar(volume):
        raise BadResources(f"{volume} cannot shrink by {less / 1000:g}: some of it must be left")
    freed = dataclasses.replace(volume.without_volume(), amount=less)
    shrunk = dataclasses.replace(volume, amount=_scalar(volume) - less)
    return [Conversion(Resources([volume]), Resources([shrunk]) + Resources([freed]))]


def _scalar(resource: Resource) -> int:
    if not isinstance(resource.amount, int):
        raise BadResources(f"{resource} is not a scalar")
    return resource.amount


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[Conversion]]] = {
    "RESERVE": _reserve,
    "UNRESERVE": _unreserve,
    "CREATE": _create,
    "DESTROY": _destroy,
    "GROW_VOLUME": _grow,
    "SHRINK_VOLUME": _shrink,
}
