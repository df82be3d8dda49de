"""The host ports of a task: which an app asks for, and which an offer gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mesos_gpu.mesos.resource import Ranges, merge_ranges
from mesos_gpu.mesos.resources import Resources


@dataclass(frozen=True, slots=True)
class PortWish:
    """One port of an app. `number` is the host port it must be, None when any will do."""

    number: int | None
    requested: int
    """What the definition says, 0 for any; names the variable PORT_<requested>."""
    name: str | None
    protocol: str
    labels: tuple[tuple[str, str], ...]


def wishes(app: Mapping[str, Any]) -> tuple[PortWish, ...]:
    """Return the ports of an app with host networking, in order (marathon.md 3.4)."""
    exact = bool(app.get("requirePorts"))
    return tuple(
        PortWish(
            number=definition["port"] if exact and definition["port"] else None,
            requested=definition["port"],
            name=definition.get("name"),
            protocol=definition.get("protocol", "tcp"),
            labels=tuple(sorted(definition.get("labels", {}).items())),
        )
        for definition in app.get("portDefinitions", [])
    )


def take_ports(
    asked: Sequence[PortWish], usable: Resources, roles: Sequence[str], pick: int
) -> tuple[tuple[int, ...], Resources] | None:
    """Return host ports, one per wish, and the resources that hold them; None when the offer has not enough.

    Those that must be a number come first; the others follow one another from a place that `pick` (any number)
    chooses, so that a port is not reused at once.
    """
    offered = [r for role in roles for r in usable if r.name == "ports" and r.role == role]
    everything = merge_ranges(tuple(range_ for r in offered if isinstance(r.amount, tuple) for range_ in r.amount))
    fixed = [wish.number for wish in asked if wish.number is not None]
    if len(set(fixed)) != len(fixed) or not all(_contains(everything, port) for port in fixed):
        return None
    size = sum(end - begin + 1 for begin, end in everything)
    loose = len(asked) - len(fixed)
    if size - len(fixed) < loose:
        return None
    rest: list[int] = []
    start = pick % size if size else 0
    for step in range(size):
        if len(rest) == loose:
            break
        port = _nth(everything, (start + step) % size)
        if port not in fixed:
            rest.append(port)
    chosen = tuple(wish.number if wish.number is not None else rest.pop(0) for wish in asked)
    taken, missing = [], set(chosen)
    for resource in offered:
        ranges = resource.amount if isinstance(resource.amount, tuple) else ()
        mine = tuple((port, port) for port in sorted(missing) if _contains(ranges, port))
        if mine:
            taken.append(replace(resource, amount=merge_ranges(mine)))
            missing -= {port for port, _ in mine}
    return chosen, Resources(taken)


def service_ports(app: Mapping[str, Any], previous: Mapping[str, Any] | None, used: set[int]) -> dict[str, Any]:
    """Return `app` with a service port for every definition that asks for any: the former one, else the lowest free.

    `used` are the ports of other apps. Raises ValueError when 10000 to 20000 are all taken.
    """
    definitions = app.get("portDefinitions")
    if not definitions:
        return dict(app)
    former = [d["port"] for d in (previous or {}).get("portDefinitions", [])]
    taken = used | {d["port"] for d in definitions if d["port"]}
    numbered = []
    for index, definition in enumerate(definitions):
        port = definition["port"]
        if port == 0 and not app.get("requirePorts"):
            before = former[index] if index < len(former) else 0
            port = before if before and before not in taken else _lowest_free(taken)
            taken.add(port)
        numbered.append({**definition, "port": port})
    return {**app, "portDefinitions": numbered}


LOCAL_PORT_MIN, LOCAL_PORT_MAX = 10000, 20000
"""Service ports are given out from here (--local_port_min, --local_port_max)."""


def _lowest_free(taken: set[int]) -> int:
    for port in range(LOCAL_PORT_MIN, LOCAL_PORT_MAX + 1):
        if port not in taken:
            return port
    raise ValueError(f"all service ports from {LOCAL_PORT_MIN} to {LOCAL_PORT_MAX} are taken")


def _nth(ranges: Sequence[tuple[int, int]], n: int) -> int:
    for begin, end in ranges:
        if n <= end - begin:
            return begin + n
        n -= end - begin + 1
    raise IndexError(n)


def _contains(ranges: Ranges, port: int) -> bool:
    return any(begin <= port <= end for begin, end in ranges)
