"""Keeps the allocator's view of agents and frameworks in step with the master's books, touching only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import Any, TypeAlias

from mesos_gpu.master.allocation.allocator import Allocator
from mesos_gpu.master.allocation.constraints import constraints_of
from mesos_gpu.master.allocation.eligibility import Client, Key, Rules, Supply
from mesos_gpu.master.allocation.random_sorter import Draw
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.model.quantities import Quantities
from mesos_gpu.master.model.quota import scalar_problem
from mesos_gpu.mesos.documents import AgentInfo
from mesos_gpu.mesos.ids import ANY_ROLE, AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import milli
from mesos_gpu.mesos.resources import NOTHING, Resources


class AllocatorFeed:
    """An allocator, and what of the books it was last told."""

    def __init__(self, rules: Rules, draw: Draw | None = None) -> None:
        self.allocator = Allocator(rules, draw)
        self._agents: dict[AgentId, _AgentState | None] = {}
        self._frameworks: dict[FrameworkId, tuple[object, ...]] = {}
        self._clients: dict[FrameworkId, tuple[Role, ...]] = {}

    def sync(
        self, agents: Mapping[AgentId, Agent], frameworks: Mapping[FrameworkId, Framework], changed: Iterable[AgentId]
    ) -> None:
        """Tell the allocator what is new. `changed` are agents that may be other than they were."""
        for agent_id in changed:
            agent = agents.get(agent_id)
            if agent is not None and not _is(self._agents.get(agent_id), now := _agent_state(agent)):
                self._agents[agent_id] = now
                self.allocator.put_agent(supply_of(agent), _held(agent))
        if len(self._agents) != len(agents):
            for agent_id in [agent_id for agent_id in self._agents if agent_id not in agents]:
                del self._agents[agent_id]
                self.allocator.drop_agent(agent_id)
        for framework in frameworks.values():
            state = _framework_state(framework)
            if self._frameworks.get(framework.id) != state:
                self._frameworks[framework.id] = state
                self._put(framework)
        if len(self._frameworks) != len(frameworks):
            for framework_id in [framework_id for framework_id in self._frameworks if framework_id not in frameworks]:
                del self._frameworks[framework_id]
                for role in self._clients.pop(framework_id):
                    self.allocator.drop_client(role, framework_id)

    def offered(self, agent: Agent) -> None:
        """Note that an agent's offers were made as the allocator decided: it knows of them already."""
        self._agents[agent.id] = _agent_state(agent)

    def forget(self, agent_id: AgentId) -> None:
        """Tell of an agent again when it has changed, whatever it is then: not all of what is free was told."""
        self._agents[agent_id] = None

    def _put(self, framework: Framework) -> None:
        for role in self._clients.get(framework.id, ()):
            if role not in framework.roles:
                self.allocator.drop_client(role, framework.id)
        self._clients[framework.id] = framework.roles
        wanting = {client.role: client for client in clients_of(framework)}
        for role in framework.roles:
            if role in wanting:
                self.allocator.put_client(wanting[role])
            else:
                self.allocator.mute_client(role, framework.id)


def clients_of(framework: Framework) -> list[Client]:
    """Return a framework's roles that want offers now."""
    if not framework.active:
        return []
    capabilities = framework.capabilities
    constraints = constraints_of(framework.offer_constraints)
    minimums = minimums_of(framework.info.get("offer_filters", {}))
    return [
        Client(
            framework.id,
            role,
            gpu_resources="GPU_RESOURCES" in capabilities,
            multi_role="MULTI_ROLE" in capabilities,
            refinement="RESERVATION_REFINEMENT" in capabilities,
            revocable="REVOCABLE_RESOURCES" in capabilities,
            shared="SHARED_RESOURCES" in capabilities,
            min_allocatable=minimums.get(role),
            constraints=constraints.get(role),
        )
        for role in framework.roles
        if role not in framework.suppressed
    ]


def minimums_of(offer_filters: Mapping[str, Any]) -> dict[str, tuple[Quantities, ...]]:
    """Read `FrameworkInfo.offer_filters`: by role, what an offer must hold at least, all of one of these."""
    found: dict[str, tuple[Quantities, ...]] = {}
    for role, filters in offer_filters.items():
        minimum = filters.get("min_allocatable_resources")
        if minimum is not None:
            found[role] = tuple(
                {name: milli(float(scalar.get("value", 0.0))) for name, scalar in need.get("quantities", {}).items()}
                for need in minimum.get("quantities", ())
            )
    return found


def offer_filters_problem(offer_filters: Mapping[str, Any]) -> str | None:
    """Return why `FrameworkInfo.offer_filters` are refused, in Mesos' words; None when they are fine.

    As there, they may name roles that the framework does not have: those count once it has them.
    """
    for filters in offer_filters.values():
        for need in filters.get("min_allocatable_resources", {}).get("quantities", ()):
            if not need.get("quantities"):
                return "Invalid offer filters: Resource quantities must contain at least one quantity"
            for name, scalar in need["quantities"].items():
                problem = scalar_problem(float(scalar.get("value", 0.0)))
                if problem is not None:
                    return f"Invalid offer filters: Invalid resource quantity for '{name}': {problem}"
    return None


def supply_of(agent: Agent) -> Supply:
    """Return an agent as the allocator sees it."""
    return Supply(
        agent.id,
        agent.total,
        agent.free,
        multi_role="MULTI_ROLE" in agent.capabilities,
        hierarchical_role="HIERARCHICAL_ROLE" in agent.capabilities,
        active=agent.active,
        info=agent.info,
    )


def holdings_of(agent: Agent) -> dict[Key, Resources]:
    """Return what each (role, framework id) uses of an agent or is offered."""
    held: dict[Key, Resources] = {}
    for framework_id, used in agent.used.items():
        for role, part in _by_role(used).items():
            held[(role, framework_id)] = part.unallocated()
    for key, offered in agent.offered_to.items():
        held[key] = held.get(key, NOTHING) + offered.unallocated()
    return held


def _held(agent: Agent) -> dict[Key, Resources]:
    """Return `holdings_of`, some of it allocated, in which what has not changed is the same object as before."""
    held: dict[Key, Resources] = {}
    for framework_id, used in agent.used.items():
        for role, part in _by_role(used).items():
            held[(role, framework_id)] = part
    for key, offered in agent.offered_to.items():
        held[key] = held[key] + offered if key in held else offered
    return held


def holders_of(agent: Agent) -> set[Key]:
    """Return the (role, framework id) that use something of an agent or are offered it."""
    using = {
        (resource.allocation_role or ANY_ROLE, framework_id)
        for framework_id, used in agent.used.items()
        for resource in used
    }
    return using | set(agent.offered_to)


def held_parts(agent: Agent) -> Iterator[tuple[Role, Resources]]:
    """Yield what is used of an agent, and offered, by role; a role comes as often as it has parts."""
    for used in agent.used.values():
        yield from _by_role(used).items()
    for (role, _), offered in agent.offered_to.items():
        yield role, offered


def _by_role(used: Resources) -> dict[Role, Resources]:
    roles = {resource.allocation_role for resource in used}
    if len(roles) == 1:
        return {roles.pop() or ANY_ROLE: used}
    return {
        role: Resources(r for r in used if (r.allocation_role or ANY_ROLE) == role)
        for role in sorted({role or ANY_ROLE for role in roles})
    }


_AgentState: TypeAlias = tuple[bool, Resources, Resources, Resources, AgentInfo, tuple[str, ...]]


def _agent_state(agent: Agent) -> _AgentState:
    return (agent.active, agent.total, agent.used_total, agent.offered, agent.info, agent.capabilities)


def _is(known: _AgentState | None, now: _AgentState) -> bool:
    """Return whether these are the same objects: all of an agent's are replaced, never changed, when they change."""
    return known is not None and all(map(is_, known, now))


def _framework_state(framework: Framework) -> tuple[object, ...]:
    suppressed = frozenset(framework.suppressed)
    return (framework.active, suppressed, _Same(framework.info), _Same(framework.offer_constraints))


class _Same:
    """Equal only to the same object, which it keeps, so that no other can come to its address."""

    __slots__ = ("_it",)

    def __init__(self, it: object) -> None:
        self._it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._it is other._it

    def __hash__(self) -> int:
        return id(self._it)
