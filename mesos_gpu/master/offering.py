"""Offers go out: what the allocator decides becomes OFFERS events."""

from __future__ import annotations

from mesos_gpu.master.actions import Action
from mesos_gpu.master.allocator import Allocation, Client, Supply, allocatable, allocate
from mesos_gpu.master.model import NOTHING, Agent, Framework, Now, Offer, add
from mesos_gpu.master.state import MasterState
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources


def tick(state: MasterState, now: Now) -> list[Action]:
    """One allocation interval has passed: refusals may have run out."""
    if state.filters.expire(now.monotonic_s):
        state.allocation_due = True
    return offer_resources(state, now) if state.allocation_due else []


def offer_resources(state: MasterState, now: Now) -> list[Action]:
    """Offer what is free to whoever's turn it is; one OFFERS event per framework."""
    state.allocation_due = False
    state.counters["allocation_runs"] += 1
    rules = state.settings.rules
    agents = [a for a in state.agents.values() if a.active and allocatable(a.free, rules.min_allocatable)]
    wanting = [client for framework in state.frameworks.values() for client in clients(framework)]
    if not agents or not wanting:
        return []
    allocations = allocate(
        [_supply(agent) for agent in agents],
        wanting,
        holdings(state),
        add(agent.total for agent in state.agents.values()),
        rules,
        lambda client, agent_id, candidate: state.filters.blocks(client.framework_id, client.role, agent_id, candidate),
    )
    made: dict[str, list[Document]] = {}
    for allocation in allocations:
        offer = _offer(state, allocation)
        state.add_offer(offer)
        state.frameworks[offer.framework_id].counters["offers/sent"] += 1
        made.setdefault(offer.framework_id, []).append(offer.document)
    return [
        action
        for framework_id, documents in made.items()
        for action in state.tell(state.frameworks[framework_id], "OFFERS", {"offers": documents})
    ]


def clients(framework: Framework) -> list[Client]:
    """Return a framework's roles that want offers now."""
    if not framework.connected:
        return []
    capabilities = framework.capabilities
    return [
        Client(
            framework.id,
            role,
            gpu_resources="GPU_RESOURCES" in capabilities,
            multi_role="MULTI_ROLE" in capabilities,
            refinement="RESERVATION_REFINEMENT" in capabilities,
        )
        for role in framework.roles
        if role not in framework.suppressed
    ]


def holdings(state: MasterState) -> dict[tuple[str, str], Resources]:
    """Return what each (role, framework id) uses or is offered."""
    held: dict[tuple[str, str], Resources] = {}
    for agent in state.agents.values():
        for framework_id, used in agent.used.items():
            for role, part in _by_role(used).items():
                held[(role, framework_id)] = held.get((role, framework_id), NOTHING) + part.unallocated()
        for key, offered in agent.offered_to.items():
            held[key] = held.get(key, NOTHING) + offered.unallocated()
    return held


def _by_role(used: Resources) -> dict[str, Resources]:
    roles = {resource.allocation_role or "*" for resource in used}
    if len(roles) == 1:
        return {roles.pop(): used}
    return {role: Resources(r for r in used if (r.allocation_role or "*") == role) for role in sorted(roles)}


def agent_url(agent: Agent) -> Document:
    """Return where an agent's API is, as offers say it."""
    pid = Pid.parse(agent.pid)
    address = {"hostname": agent.hostname, "ip": pid.ip, "port": pid.port}
    return {"scheme": "http", "address": address, "path": f"/{pid.id}"}


def _supply(agent: Agent) -> Supply:
    return Supply(
        agent.id,
        agent.total,
        agent.free,
        multi_role="MULTI_ROLE" in agent.capabilities,
        hierarchical_role="HIERARCHICAL_ROLE" in agent.capabilities,
    )


def _offer(state: MasterState, allocation: Allocation) -> Offer:
    agent = state.agents[allocation.agent_id]
    framework = state.frameworks[allocation.client.framework_id]
    role = allocation.client.role
    resources = allocation.resources.allocated(role)
    refined = "RESERVATION_REFINEMENT" in framework.capabilities
    offer_id = state.new_id("offer")
    document: Document = {
        "id": {"value": offer_id},
        "framework_id": {"value": framework.id},
        "agent_id": {"value": agent.id},
        "hostname": agent.hostname,
        "url": agent_url(agent),
        "resources": resources.to_json(refined=refined),
        "allocation_info": {"role": role},
    }
    if agent.info.get("attributes"):
        document["attributes"] = agent.info["attributes"]
    executors = [eid for fid, eid in agent.executors if fid == framework.id]
    if executors:
        document["executor_ids"] = [{"value": executor_id} for executor_id in executors]
    return Offer(offer_id, framework.id, agent.id, role, resources, document)
