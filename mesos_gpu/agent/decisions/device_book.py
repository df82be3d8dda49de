"""Which devices of plugins there are, how they are, and which container holds which. Pure: times come in.

Source: kubernetes/kubernetes pkg/kubelet/cm/devicemanager/manager.go (genericDeviceUpdateCallback, devicesToAllocate,
GetCapacity). One difference: what is offered has to be known as it changes, not when somebody asks, so a plugin that is
gone lowers the total at once, and its devices are forgotten when the grace is over and nobody holds one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from mesos_gpu.errors import Conflict, NotEnoughGpus, NotFound
from mesos_gpu.mesos.ids import ContainerId

HEALTHY = "Healthy"
GRACE_S = 300.0
"""How long the devices of a plugin that is gone are remembered; endpointStopGracePeriod of kubelets."""


class Device(Struct, frozen=True):
    """One device as its plugin lists it; `numa` is the first NUMA node that it is near, None where it says nothing."""

    id: str
    healthy: bool
    numa: int | None = None


class UnitsShort(NotEnoughGpus):
    """Fewer devices of a plugin are free than were asked for; some may be on their way back."""

    def __init__(self, resource: str, *, asked: int, free: int) -> None:
        super().__init__(asked=asked, free=free, of=resource)
        self.args = (f"requested number of devices unavailable for {resource}. Requested: {asked}, Available: {free}",)


@dataclass
class Listing:
    """What is known of one resource. `gone_s`: since when no plugin lists it."""

    devices: Mapping[str, Device] = field(default_factory=dict)
    gone_s: float | None = None


class DeviceBook:
    """Every device of every resource, and who holds it. A device is held by one container at most."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._listed: dict[str, Listing] = {}
        self._held: dict[ContainerId, dict[str, frozenset[str]]] = {}

    # --- what is so -------------------------------------------------------------------------------------------------

    @property
    def resources(self) -> Mapping[str, Listing]:
        """Return every resource that is known."""
        return dict(self._listed)

    @property
    def held(self) -> Mapping[ContainerId, Mapping[str, frozenset[str]]]:
        """Return the devices of each container, by resource."""
        return {container: dict(devices) for container, devices in self._held.items()}

    def totals(self) -> dict[str, int]:
        """Return how many units of each resource may be offered: healthy ones, and those that are held."""
        found = {}
        for resource in sorted({*self._listed, *(name for held in self._held.values() for name in held)}):
            found[resource] = len(self._healthy(resource) | self._taken(resource))
        return {resource: count for resource, count in found.items() if count}

    def next_due_s(self) -> float | None:
        """Return when `expire` next has something to do."""
        dues = [listing.gone_s + self._grace_s for listing in self._listed.values() if listing.gone_s is not None]
        return min(dues, default=None)

    def free(self, resource: str) -> Sequence[Device]:
        """Return the devices that may be given, in order."""
        ids = self._healthy(resource) - self._taken(resource)
        return sorted((self._listed[resource].devices[name] for name in ids), key=lambda device: device.id)

    def _healthy(self, resource: str) -> frozenset[str]:
        listing = self._listed.get(resource)
        if listing is None or listing.gone_s is not None:
            return frozenset()
        return frozenset(device.id for device in listing.devices.values() if device.healthy)

    def _taken(self, resource: str) -> frozenset[str]:
        return frozenset(name for held in self._held.values() for name in held.get(resource, ()))

    # --- what changes it --------------------------------------------------------------------------------------------

    def list(self, resource: str, devices: Iterable[Device]) -> None:
        """Take a plugin's list, which replaces the one before."""
        self._listed[resource] = Listing({device.id: device for device in devices})

    def gone(self, resource: str, now_s: float) -> None:
        """Take note that nobody lists a resource any longer: none of its devices is given until somebody does."""
        listing = self._listed.get(resource)
        if listing is not None and listing.gone_s is None:
            listing.gone_s = now_s

    def expire(self, now_s: float) -> None:
        """Forget resources whose grace is over; what is held stays held."""
        self._listed = {
            name: listing
            for name, listing in self._listed.items()
            if listing.gone_s is None or now_s < listing.gone_s + self._grace_s
        }

    def choose(self, container: ContainerId, resource: str, count: int) -> tuple[frozenset[str], Sequence[Device]]:
        """Return what a container holds of a resource already, and the devices that it may be given more of.

        Raises NotFound for a resource that no plugin has registered; Conflict where none of its devices is healthy, or
        one that the container holds is unhealthy; UnitsShort.
        """
        held = self._held.get(container, {}).get(resource, frozenset())
        listing = self._listed.get(resource)
        if listing is None:
            raise NotFound(f"cannot allocate unregistered device {resource}")
        healthy = self._healthy(resource)
        if not healthy:
            raise Conflict(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if ill := held - healthy:
            raise Conflict(f"cannot allocate unhealthy devices {', '.join(sorted(ill))} of {resource}, which it holds")
        free = self.free(resource)
        if count > len(held) + len(free):
            raise UnitsShort(resource, asked=count, free=len(held) + len(free))
        return held, free

    def take(self, container: ContainerId, resource: str, ids: Collection[str]) -> None:
        """Give these to a container, whatever it had of that resource. Raises Conflict when another has one of them."""
        for other, held in self._held.items():
            if other != container and (both := held.get(resource, frozenset()).intersection(ids)):
                raise Conflict(f"{', '.join(sorted(both))} of {resource} is held by container {other}")
        self._held.setdefault(container, {})[resource] = frozenset(ids)

    def release(self, container: ContainerId) -> bool:
        """Free what a container holds; return whether that was anything."""
        return self._held.pop(container, None) is not None


def own_choice(held: Collection[str], free: Sequence[Device], count: int) -> frozenset[str]:
    """Return `count` devices: those that are held, then as many as can be of one NUMA node, then by name.

    Among nodes that have enough, the one with the fewest left over.
    """
    missing = count - len(held)
    by_node: dict[int | None, list[str]] = {}
    for device in free:
        by_node.setdefault(device.numa, []).append(device.id)
    nodes = [node for node in by_node if node is not None]
    enough = [node for node in nodes if len(by_node[node]) >= missing]
    if enough:
        order = by_node[min(enough, key=lambda node: (len(by_node[node]), node))]
    else:
        full = sorted(nodes, key=lambda node: (-len(by_node[node]), node))
        order = [name for node in (*full, None) for name in by_node.get(node, [])]
    return frozenset([*held, *order[: max(missing, 0)]])


def preferred(
    held: Collection[str], free: Sequence[Device], count: int, answer: Collection[str]
) -> frozenset[str] | None:
    """Return what a plugin prefers, None when that is not `count` of those held or free."""
    chosen = frozenset(answer)
    possible = {device.id for device in free}.union(held)
    fits = len(chosen) == len(answer) == count and chosen.issuperset(held) and chosen <= possible
    return chosen if fits else None
