"""What must hold of a master's books after every event; `--check_invariants` and tests look."""

from __future__ import annotations

from collections.abc import Iterator

from mesos_gpu.master.model.model import Agent, add
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.model.shared_volumes import adds_up
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import NOTHING, Resources
from mesos_gpu.mesos.tasks import TERMINAL_STATES


class Books:
    """Looks at a master's books again and again. What an agent's sums are made of is added up when it has changed."""

    def __init__(self) -> None:
        self._added_up: dict[AgentId, tuple[object, ...]] = {}

    def broken(self, state: MasterState) -> str | None:
        """Return the first thing that is wrong with the books, None when all adds up."""
        for agent in state.agents.values():
            problem = _links(state, agent) or self._sums(agent)
            if problem is not None:
                return problem
        if len(self._added_up) != len(state.agents):
            for gone in self._added_up.keys() - state.agents.keys():
                del self._added_up[gone]
        return next(_frameworks(state), None)

    def _sums(self, agent: Agent) -> str | None:
        parts = _parts(agent)
        if self._added_up.get(agent.id) == parts:
            return None
        problem = next(_sums(agent), None)
        if problem is None:
            self._added_up[agent.id] = parts
        return problem


def broken(state: MasterState) -> str | None:
    """Return the first thing that is wrong with the books, None when all adds up."""
    return Books().broken(state)


def differs(state: MasterState, record: Record) -> str | None:
    """Return what these books say otherwise than the registry, None when both agree. Only while nothing is stored."""
    if _has_agents(state, record) and (state.unreachable, state.gone, state.deactivated, state.policy) == (
        record.unreachable,
        record.gone,
        record.deactivated,
        record.policy,
    ):
        return None
    ours = state.record()
    for name in ("agents", "unreachable", "gone", "deactivated", "policy"):
        here, there = getattr(ours, name), getattr(record, name)
        if here != there:
            return f"the registry has other {name} than the master: {there}, not {here}"
    return None


def _has_agents(state: MasterState, record: Record) -> bool:
    """Return whether the registry has these agents, and no other; nothing is made to be compared and thrown away."""
    admitted, here, recovered = record.agents, state.agents, state.recovered
    for agent in here.values():
        known = admitted.get(agent.id)
        if known is None or known.pid != agent.pid or known.since_s is not None:
            return False
        if known.info is not agent.info and known.info != agent.info:
            return False
    for agent_id, known in recovered.items():
        if agent_id not in here and admitted.get(agent_id) != known:
            return False
    return len(admitted) == len(here.keys() | recovered.keys())


def _links(state: MasterState, agent: Agent) -> str | None:
    frameworks, agent_id = state.frameworks, agent.id
    for key, task in agent.tasks.items():
        framework_id, task_id = key
        if frameworks[framework_id].tasks.get(task_id) is not task:
            return f"task {task_id} of agent {agent.id} is not its framework's"
        document = task.document
        if (
            document["agent_id"]["value"] != agent_id
            or document["task_id"]["value"] != task_id
            or document["framework_id"]["value"] != framework_id
        ):
            return f"task {task.id} of {task.framework_id} on agent {task.agent_id} is booked as {key} of {agent.id}"
        if task.held == (document["state"] in TERMINAL_STATES):
            return f"task {task_id} is {task.state} and {'still' if task.held else 'not'} charged"
    if agent.offers and not agent.active:
        return f"agent {agent.id} is not active, and {len(agent.offers)} offers of it are out"
    for offer_id, offer in agent.offers.items():
        if offer.id != offer_id or offer.agent_id != agent.id:
            return f"offer {offer.id} of agent {offer.agent_id} is booked as {offer_id} of {agent.id}"
        framework = frameworks.get(offer.framework_id)
        if framework is None or framework.offers.get(offer.id) is not offer:
            return f"offer {offer.id} of agent {agent.id} is not its framework's"
    known = state.allocator_feed.allocator
    # What is withheld is free, and the allocator does not know that yet.
    if not state.allocation_due and agent.id not in state.withheld and known.free(agent.id) != agent.free:
        return f"agent {agent.id} has {agent.free} free, and the allocator believes {known.free(agent.id)}"
    return None


def _parts(agent: Agent) -> tuple[object, ...]:
    """Return all that `_sums` looks at: equal parts add up alike."""
    tasks, executors = agent.tasks, agent.executors
    return (
        (agent.total, agent.used_total, agent.offered, agent.lacking),
        (*tasks, *executors, *agent.offers),
        [task.resources if task.held else None for task in tasks.values()],
        [task.held and task.unlisted for task in tasks.values()],
        [executor.resources for executor in executors.values()],
        [*agent.offers.values()],
        agent.used.copy(),
        agent.offered_to.copy(),
    )


def _sums(agent: Agent) -> Iterator[str]:
    held: dict[str, Resources] = {}
    for task in agent.tasks.values():
        if task.held:
            held[task.framework_id] = held.get(task.framework_id, NOTHING) + task.resources
    for (framework_id, _), executor in agent.executors.items():
        held[framework_id] = held.get(framework_id, NOTHING) + executor.resources
    if {key: value for key, value in held.items() if value} != agent.used or agent.used_total != add(held.values()):
        yield f"agent {agent.id} has {agent.used} booked as used, and {held} is"
    if not agent.offered == add(o.resources for o in agent.offers.values()) == add(agent.offered_to.values()):
        yield f"agent {agent.id} has {agent.offered} booked as offered, and {list(agent.offers.values())} are out"
    if any(task.held and task.unlisted for task in agent.tasks.values()):
        # It came back without them, and perhaps without what they had: both are so until it says what became of them.
        return
    parts_of_it = (agent.free, agent.offered.unallocated(), agent.used_total.unallocated())
    there = agent.total + agent.beyond if agent.lacking.contains(agent.beyond) else agent.total
    if not adds_up(there, *parts_of_it) or agent.free.shared() != agent.total.shared():
        parts = f"used {agent.used_total}, offered {agent.offered} and free {agent.free}"
        yield f"{parts} do not add up to the total {agent.total} of agent {agent.id}"


def _frameworks(state: MasterState) -> Iterator[str]:
    tasks = offers = 0
    for framework in state.frameworks.values():
        tasks, offers = tasks + len(framework.tasks), offers + len(framework.offers)
        if framework.offers and not framework.active:
            yield f"framework {framework.id} is away or deactivated, and {len(framework.offers)} offers to it are out"
    # All that agents have is their frameworks', and each of it once: then where there are as many, it is the same.
    agents = state.agents.values()
    if sum(len(agent.tasks) for agent in agents) != tasks or sum(len(agent.offers) for agent in agents) != offers:
        yield from _strays(state)


def _strays(state: MasterState) -> Iterator[str]:
    """Yield what frameworks have that is not their agents'."""
    for framework in state.frameworks.values():
        for offer in framework.offers.values():
            if state.agents[offer.agent_id].offers.get(offer.id) is not offer:
                yield f"offer {offer.id} is not its agent's"
        for task in framework.tasks.values():
            if state.agents[task.agent_id].tasks.get(task.key) is not task:
                yield f"task {task.id} of framework {framework.id} is not its agent's"
