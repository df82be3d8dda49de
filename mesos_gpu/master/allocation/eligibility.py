"""What a single client may be offered of a single agent, whoever's turn it is. Values to values.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp (isCapableOfReceivingAgent, stripIncapableResources,
isFiltered, allocatable).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mesos_gpu.master.allocation.constraints import Constraints
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources

Key = tuple[Role, FrameworkId]
"""(role, framework id)."""


class Rules(Struct, frozen=True):
    """The flags that decide."""

    filter_gpu_resources: bool = True
    excluded_names: frozenset[str] = frozenset()
    """`--fair_sharing_excluded_resource_names`."""
    min_allocatable: tuple[Quantities, ...] = ()
    """An offer holds all of at least one of these; none means any offer will do."""


class Client(Struct, frozen=True):
    """One framework in one of its roles, wanting offers."""

    framework_id: FrameworkId
    role: Role
    gpu_resources: bool = True
    multi_role: bool = False
    refinement: bool = True
    """Whether it can be told of a reservation that was made of something reserved."""
    revocable: bool = True
    shared: bool = True
    min_allocatable: tuple[Quantities, ...] | None = None
    """`FrameworkInfo.offer_filters` of the role; None leaves it to the flag."""
    constraints: Constraints | None = None
    """Which agents it wants for this role; None means any."""

    @property
    def key(self) -> Key:
        """Return (role, framework id)."""
        return self.role, self.framework_id


class Supply(Struct, frozen=True):
    """One agent; both resources are unallocated. An inactive one counts in the total, and nothing of it is offered."""

    agent_id: AgentId
    total: Resources
    free: Resources
    multi_role: bool = True
    hierarchical_role: bool = True
    active: bool = True
    info: Mapping[str, Any] = field(default_factory=dict)
    """Its AgentInfo, for constraints."""


class Allocation(Struct, frozen=True):
    """What one client gets of one agent; unallocated."""

    client: Client
    agent_id: AgentId
    resources: Resources


Refused = Callable[[Client, AgentId, Resources], bool]
"""Return whether a client declined such an offer of an agent not long ago."""


def admits(supply: Supply, client: Client, rules: Rules) -> bool:
    """Return whether a client may be offered anything of an agent at all.

    An agent that has GPUs in total, free or not, is for frameworks with GPU_RESOURCES alone: Mesos cannot preempt, so
    the rule keeps CPU work from filling GPU machines. `--no-filter_gpu_resources` lifts it.
    """
    if rules.filter_gpu_resources and not client.gpu_resources and supply.total.milli("gpus") > 0:
        return False
    if client.multi_role and not supply.multi_role:
        return False
    if not supply.hierarchical_role and "/" in client.role:
        return False
    return client.constraints is None or client.constraints.admit(supply.info)


def available(free: Resources, role: Role, *, refinement: bool = True) -> Resources:
    """Return what a role may have: unreserved, or reserved for it or for a role above it.

    A framework without RESERVATION_REFINEMENT is not offered what has more than one reservation.
    """
    if not any(r.reservations for r in free):
        return free
    return free.filter(
        lambda r: (
            not r.reservations or ((r.role == role or role.startswith(f"{r.role}/")) and (refinement or not r.refined))
        )
    )


def capable(candidate: Resources, client: Client) -> Resources:
    """Return what a framework of these capabilities understands of it (hierarchical.cpp, stripIncapableResources)."""
    if all(_understands(resource, client) for resource in candidate):
        return candidate
    return candidate.filter(lambda resource: _understands(resource, client))


def allocatable(candidate: Resources, minimums: Sequence[Quantities]) -> bool:
    """Return whether an offer is worth making (`--min_allocatable_resources`)."""
    if not candidate:
        return False
    return not minimums or any(all(candidate.milli(name) >= m for name, m in need.items()) for need in minimums)


def quantities(resources: Iterable[Resource]) -> dict[str, int]:
    """Return the scalars of `resources` by name, over all reservations."""
    found: dict[str, int] = {}
    for resource in resources:
        if isinstance(resource.amount, int):
            found[resource.name] = found.get(resource.name, 0) + resource.amount
    return found


def dominant_share(held: Quantities, total: Quantities, excluded: frozenset[str]) -> float:
    """Return the largest part of any one scalar; excluded names and what nobody has do not count."""
    return max(
        (held.get(name, 0) / amount for name, amount in total.items() if amount > 0 and name not in excluded),
        default=0.0,
    )


def _understands(resource: Resource, client: Client) -> bool:
    if not resource.other:
        return True
    return (client.revocable or not resource.revocable) and (client.shared or not resource.shared)
