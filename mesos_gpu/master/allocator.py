"""Who is offered what: dominant resource fairness over roles, then over the frameworks of a role.

Source: Mesos src/master/allocator/mesos/hierarchical.cpp (__allocate) and sorter/drf. Values in, values out. All of
an agent's free resources that a role may have go into one offer, to the framework whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mesos_gpu.mesos.resources import Resources

Quantities = Mapping[str, int]
"""Thousandths by name, scalars only."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The flags that decide."""

    filter_gpu_resources: bool = True
    excluded_names: frozenset[str] = frozenset()
    """`--fair_sharing_excluded_resource_names`."""
    min_allocatable: tuple[Quantities, ...] = ()
    """An offer holds all of at least one of these; none means any offer will do."""


@dataclass(frozen=True, slots=True)
class Client:
    """One framework in one of its roles, wanting offers."""

    framework_id: str
    role: str
    gpu_resources: bool = True
    multi_role: bool = False
    refinement: bool = True
    """Whether it can be told of a reservation that was made of something reserved."""


@dataclass(frozen=True, slots=True)
class Supply:
    """One active agent; both resources are unallocated."""

    agent_id: str
    total: Resources
    free: Resources
    multi_role: bool = True
    hierarchical_role: bool = True


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one client gets of one agent; unallocated."""

    client: Client
    agent_id: str
    resources: Resources


def allocate(
    supplies: Sequence[Supply],
    clients: Sequence[Client],
    held: Mapping[tuple[str, str], Resources],
    total: Resources,
    rules: Rules,
    refused: Callable[[Client, str, Resources], bool],
) -> list[Allocation]:
    """Return new allocations. `held` is what each (role, framework id) already has or is offered; `total` all there is.

    `refused(client, agent_id, candidate)` tells whether the client declined such an offer not long ago.
    """
    shares = _Shares(quantities(total), rules.excluded_names)
    for (role, framework_id), resources in held.items():
        shares.add(role, framework_id, resources)
    by_role: dict[str, list[Client]] = {}
    for client in clients:
        by_role.setdefault(client.role, []).append(client)
    given: list[Allocation] = []
    for supply in supplies:
        free = supply.free
        for role in sorted(by_role, key=shares.of_role):
            for client in sorted(by_role[role], key=shares.of_client):
                candidate = available(free, role, refinement=client.refinement)
                if not allocatable(candidate, rules.min_allocatable):
                    continue
                if admits(supply, client, rules) and not refused(client, supply.agent_id, candidate):
                    given.append(Allocation(client, supply.agent_id, candidate))
                    shares.add(role, client.framework_id, candidate)
                    free = free - candidate
    return given


def admits(supply: Supply, client: Client, rules: Rules) -> bool:
    """Tell whether a client may be offered anything of an agent at all.

    An agent that has GPUs in total, free or not, is for frameworks with GPU_RESOURCES alone: Mesos cannot preempt, so
    the rule keeps CPU work from filling GPU machines. `--no-filter_gpu_resources` lifts it.
    """
    if rules.filter_gpu_resources and supply.total.milli("gpus") > 0 and not client.gpu_resources:
        return False
    if client.multi_role and not supply.multi_role:
        return False
    return supply.hierarchical_role or "/" not in client.role


def available(free: Resources, role: str, *, refinement: bool = True) -> Resources:
    """Return what a role may have: unreserved, or reserved for it or for a role above it.

    A framework without RESERVATION_REFINEMENT is not offered what has more than one reservation.
    """
    return free.filter(
        lambda r: (
            not r.reservations or ((r.role == role or role.startswith(f"{r.role}/")) and (refinement or not r.refined))
        )
    )


def allocatable(candidate: Resources, minimums: Sequence[Quantities]) -> bool:
    """Tell whether an offer is worth making (`--min_allocatable_resources`)."""
    if not candidate:
        return False
    return not minimums or any(all(candidate.milli(name) >= m for name, m in need.items()) for need in minimums)


def quantities(resources: Resources) -> dict[str, int]:
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


class _Shares:
    """Running shares of roles and of their frameworks; weights are all 1."""

    def __init__(self, total: Quantities, excluded: frozenset[str]) -> None:
        self._total, self._excluded = total, excluded
        self._roles: dict[str, dict[str, int]] = {}
        self._clients: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, role: str, framework_id: str, resources: Resources) -> None:
        for held in (self._roles.setdefault(role, {}), self._clients.setdefault((role, framework_id), {})):
            for name, amount in quantities(resources).items():
                held[name] = held.get(name, 0) + amount

    def of_role(self, role: str) -> tuple[float, str]:
        return dominant_share(self._roles.get(role, {}), self._total, self._excluded), role

    def of_client(self, client: Client) -> tuple[float, str]:
        held = self._clients.get((client.role, client.framework_id), {})
        return dominant_share(held, self._total, self._excluded), client.framework_id
