"""Offers go out: what the allocator decides becomes OFFERS events."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from mesos_gpu.master.allocation.allocator_feed import held_parts, holders_of, holdings_of
from mesos_gpu.master.allocation.eligibility import Allocation, quantities
from mesos_gpu.master.allocation.sorter import add_to
from mesos_gpu.master.decisions import maintenance
from mesos_gpu.master.model.model import Offer
from mesos_gpu.master.model.shared_volumes import summed
from mesos_gpu.master.state.actions import Action
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resources import NOTHING, Resources


def tick_due_s(state: MasterState) -> float:
    """Return from when on a `tick` can change anything: on a quiet cluster that is never, which is infinite."""
    if state.allocation_due or state.withheld or state.drainages or state.deactivated:
        return -inf
    return min(state.filters.ends_s, state.offer_ends[0][0] if state.offer_ends else inf)


def tick(state: MasterState, now: Moment) -> list[Action]:
    """One allocation interval has passed: refusals and offers may have run out."""
    state.filters.expire(now.mono_s)
    state.let_go_old()
    actions = _end_offers(state, now)
    if maintenance.expire(state.drainages, now):
        state.ask_for_offers()
    return actions + offer_resources(state, now) if state.allocation_due else actions


def offer_resources(state: MasterState, now: Moment) -> list[Action]:
    """Offer what is free to whoever's turn it is; one OFFERS event per framework."""
    state.counters["allocation_runs"] += 1
    allocations = allocate(state)
    made: dict[FrameworkId, list[OfferDocument]] = {}
    for allocation in allocations:
        offer = _offer(state, allocation)
        state.add_offer(offer)
        state.frameworks[offer.framework_id].counters["offers/sent"] += 1
        made.setdefault(offer.framework_id, []).append(offer.document)
        if state.settings.offer_timeout_s is not None:
            heappush(state.offer_ends, (now.mono_s + state.settings.offer_timeout_s, offer.id, offer.framework_id))
    for agent_id in {allocation.agent_id for allocation in allocations}:
        state.accounted(state.agents[agent_id])
    actions = [
        action
        for framework_id, documents in made.items()
        for action in state.tell(state.frameworks[framework_id], "OFFERS", {"offers": documents})
    ]
    return actions + maintenance.make_inverse_offers(state) if state.drainages else actions


def _end_offers(state: MasterState, now: Moment) -> list[Action]:
    """Take back offers that nobody has answered for `--offer_timeout`."""
    actions: list[Action] = []
    while state.offer_ends and state.offer_ends[0][0] <= now.mono_s:
        _, offer_id, framework_id = heappop(state.offer_ends)
        framework = state.frameworks.get(framework_id)
        offer = None if framework is None else framework.offers.get(offer_id)
        if offer is not None:
            actions += state.rescind(offer)
    return actions


def allocate(state: MasterState) -> list[Allocation]:
    """Return what is to be offered, after telling the allocator what has changed."""
    state.sync_market()
    filters, allocator = state.filters, state.allocator_feed.allocator
    given = allocator.cycle(
        lambda client, agent_id, candidate: filters.blocks(client.framework_id, client.role, agent_id, candidate),
        state.settings.agents_at_once,
    )
    if allocator.behind:
        state.ask_for_offers()
    return given


def holders(state: MasterState) -> set[tuple[Role, FrameworkId]]:
    """Return who uses something or is offered something: (role, framework id)."""
    return {key for agent in state.agents.values() for key in holders_of(agent)}


def held_by_role(state: MasterState) -> dict[Role, Resources]:
    """Return what is used of each role and offered to it; what is shared counts once on each agent."""
    found: dict[Role, list[Resources]] = {}
    for agent in state.agents.values():
        here: dict[Role, Resources] = {}
        for (role, _), part in holdings_of(agent).items():
            here[role] = here.get(role, NOTHING) + part
        for role, together in here.items():
            found.setdefault(role, []).append(together)
    return {role: summed(parts) for role, parts in found.items()}


def quantities_by_role(state: MasterState) -> dict[Role, dict[str, int]]:
    """Return the scalars of `held_by_role`, in thousandths by name."""
    found: dict[Role, dict[str, int]] = {}
    for agent in state.agents.values():
        if not agent.total.shared():
            for role, part in held_parts(agent):
                add_to(found.setdefault(role, {}), quantities(part))
            continue
        here: dict[Role, Resources] = {}
        for (role, _), part in holdings_of(agent).items():
            here[role] = here.get(role, NOTHING) + part
        for role, together in here.items():
            add_to(found.setdefault(role, {}), quantities(together))
    return found


def _offer(state: MasterState, allocation: Allocation) -> Offer:
    agent = state.agents[allocation.agent_id]
    framework = state.frameworks[allocation.client.framework_id]
    role = allocation.client.role
    capabilities = framework.capabilities
    refined, several_roles = "RESERVATION_REFINEMENT" in capabilities, "MULTI_ROLE" in capabilities
    shown = agent.shown(allocation.resources, role, refined=refined, several_roles=several_roles)
    offer_id = state.ids.offer()
    document: OfferDocument = {
        "id": {"value": offer_id},
        "framework_id": {"value": framework.id},
        "agent_id": {"value": agent.id},
        "hostname": agent.hostname,
        "url": agent.url,
        "resources": shown.documents,
    }
    if several_roles:
        document["allocation_info"] = {"role": role}
    if agent.info.get("attributes"):
        document["attributes"] = agent.info["attributes"]
    unavailability = state.policy.unavailability(agent)
    if unavailability is not None:
        document["unavailability"] = unavailability
    executors = [eid for fid, eid in agent.executors if fid == framework.id]
    if executors:
        document["executor_ids"] = [{"value": executor_id} for executor_id in executors]
    return Offer(offer_id, framework.id, agent.id, role, shown.resources, document, allocation.resources)
