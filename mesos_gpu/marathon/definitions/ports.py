"""The host ports of a task: which an app asks for, and which an offer gives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import Ranges, merge_ranges
from mesos_gpu.mesos.resources import NOTHING, Resources


class PortWish(Struct, frozen=True):
    """One port of an app. `number` is the host port it must be, None when any will do."""

    number: int | None
    requested: int
    """What the definition says, 0 for any; names the variable PORT_<requested>."""
    name: str | None
    protocol: str
    labels: tuple[tuple[str, str], ...]
    on_host: bool = True
    """Whether a port of the agent is taken; a mapping without hostPort needs none."""
    inside_port: int = 0
    """The port within the container's own network; 0: the same as on the host."""

    def at(self, number: int) -> PortWish:
        """Return the same wish for exactly this port of the host."""
        return replace(self, number=number)


def wishes(app: Mapping[str, Any]) -> tuple[PortWish, ...]:
    """Return the ports of an app, in order: its definitions, or its mappings in a network of its own."""
    if app["networks"][0]["mode"] != "host":
        return tuple(_mapped(mapping) for mapping in app.get("container", {}).get("portMappings", []))
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


def _mapped(mapping: Mapping[str, Any]) -> PortWish:
    return PortWish(
        number=mapping.get("hostPort") or None,
        requested=mapping["containerPort"],
        name=mapping.get("name"),
        protocol=mapping.get("protocol", "tcp"),
        labels=tuple(sorted(mapping.get("labels", {}).items())),
        on_host="hostPort" in mapping,
        inside_port=mapping["containerPort"],
    )


def take_ports(
    asked: Sequence[PortWish], usable: Resources, roles: Sequence[Role], pick: int
) -> tuple[tuple[int | None, ...], Resources] | None:
    """Return host ports and the resources that hold them; None when the offer has not enough.

    There is one per wish, None for a wish that takes none.

    Those that must be a number come first; the others follow one another from a place that `pick` (any number)
    chooses, so that a port is not reused at once.
    """
    if not asked:
        return (), NOTHING
    offered = [r for role in roles for r in usable if r.name == "ports" and r.role == role]
    everything = merge_ranges(tuple(range_ for r in offered if isinstance(r.amount, tuple) for range_ in r.amount))
    fixed = [wish.number for wish in asked if wish.number is not None]
    size = sum(end - begin + 1 for begin, end in everything)
    loose = sum(wish.on_host for wish in asked) - len(fixed)
    if size < loose + len(fixed) or (fixed and _missing(fixed, everything)):
        return None
    rest: list[int] = []
    start = pick % size if size else 0
    for step in range(size):
        if len(rest) == loose:
            break
        port = _nth(everything, (start + step) % size)
        if port not in fixed:
            rest.append(port)
    chosen = tuple(
        None if not wish.on_host else wish.number if wish.number is not None else rest.pop(0) for wish in asked
    )
    taken, missing = [], {port for port in chosen if port is not None}
    for resource in offered:
        ranges = resource.amount if isinstance(resource.amount, tuple) else ()
        mine = tuple((port, port) for port in sorted(missing) if _contains(ranges, port))
        if mine:
            taken.append(resource.of_amount(merge_ranges(mine)))
            missing -= {port for port, _ in mine}
    return chosen, Resources(taken)


def offered_ports(usable: Resources, roles: Sequence[Role]) -> Ranges:
    """Return the ports that a task that accepts these roles may take."""
    offered = (r.amount for r in usable if r.name == "ports" and r.role in roles)
    return merge_ranges(tuple(range_ for amount in offered if isinstance(amount, tuple) for range_ in amount))


def missing_ports(asked: Sequence[PortWish], offered: Ranges) -> tuple[tuple[int, ...], int]:
    """Return which requested port numbers are not offered or requested twice, and how many other ports are missing."""
    size = sum(end - begin + 1 for begin, end in offered)
    numbers = _missing([wish.number for wish in asked if wish.number is not None], offered)
    return numbers, max(0, sum(wish.on_host for wish in asked) - size)


def _missing(fixed: Sequence[int], offered: Ranges) -> tuple[int, ...]:
    """Return which numbers are not offered, or requested twice."""
    return tuple(sorted({port for port in fixed if not _contains(offered, port) or fixed.count(port) > 1}))


LOCAL_PORT_MIN, LOCAL_PORT_MAX = 10000, 20000
"""Service ports are given out from here to there (--local_port_min, --local_port_max)."""


def service_ports(
    app: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
    used: set[int],
    span: tuple[int, int] = (LOCAL_PORT_MIN, LOCAL_PORT_MAX),
) -> dict[str, Any]:
    """Return `app` with a service port for every port that asks for any: the former one, else the lowest free.

    `used` are the ports of other apps, `span` the first and the last that may be given out. Raises ValueError when
    all of those are taken.
    """
    former = service_ports_of(previous or {})
    taken = used | {port for port in service_ports_of(app) if port}

    def numbered(items: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
        found = []
        for index, item in enumerate(items):
            port = item[key]
            if port == 0:
                before = former[index] if index < len(former) else 0
                port = before if before and before not in taken else _lowest_free(taken, span)
                taken.add(port)
            found.append({**item, key: port})
        return found

    if mappings := app.get("container", {}).get("portMappings"):
        return {**app, "container": {**app["container"], "portMappings": numbered(mappings, "servicePort")}}
    if app.get("requirePorts") or not app.get("portDefinitions"):
        return dict(app)
    return {**app, "portDefinitions": numbered(app["portDefinitions"], "port")}


def service_ports_of(app: Mapping[str, Any]) -> list[int]:
    """Return the service ports of an app, in the order of its ports."""
    mappings = app.get("container", {}).get("portMappings")
    if mappings:
        return [mapping["servicePort"] for mapping in mappings]
    return [definition["port"] for definition in app.get("portDefinitions", [])]


class ServicePorts:
    """The service ports of many apps, counted once: of a change of thousands each asks for those of the others."""

    def __init__(self, apps: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """`apps` are ids with documents."""
        self._uses: Counter[int] = Counter()
        self._own: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for app_id, app in apps:
            self.add(app_id, app)

    def add(self, app_id: str, app: Mapping[str, Any]) -> None:
        """Count an app, or another version of one."""
        ports = service_ports_of(app)
        self._uses.update(ports)
        self._own[app_id].update(ports)

    def of_others(self, app_id: str) -> set[int]:
        """Return what apps other than this one have."""
        own = self._own[app_id]
        return set(self._uses) - {port for port, uses in own.items() if self._uses[port] == uses}


def _lowest_free(taken: set[int], span: tuple[int, int]) -> int:
    for port in range(span[0], span[1] + 1):
        if port not in taken:
            return port
    raise ValueError(f"all service ports from {span[0]} to {span[1]} are taken")


def _nth(ranges: Sequence[tuple[int, int]], n: int) -> int:
    for begin, end in ranges:
        if n <= end - begin:
            return begin + n
        n -= end - begin + 1
    raise IndexError(n)


def _contains(ranges: Ranges, port: int) -> bool:
    return any(begin <= port <= end for begin, end in ranges)
