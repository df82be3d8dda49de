"""What must hold of a master's books after every event; `--check_invariants` and tests look."""

from __future__ import annotations

from collections.abc import Iterator

from mesos_gpu.master.model.model import NOTHING, Agent, add
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.model.shared_volumes import adds_up
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources


class Books:
    """Looks at a master's books again and again. What an agent's sums are made of is added up when it has changed."""

    def __init__(self) -> None:
        self._added_up: dict[AgentId, tuple[object, ...]] = {}

    def broken(self, state: MasterState) -> str | None:
        """Return the first thing that is wrong with the books, None when all adds up."""
        for agent in state.agents.values():
            problem = next(_links(state, agent), None) or self._sums(agent)
            if problem is not None:
                return problem
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
    ours = state.record()
    for name in ("agents", "unreachable", "gone", "deactivated", "policy"):
        here, there = getattr(ours, name), getattr(record, name)
        if here != there:
            return f"the registry has other {name} than the master: {there}, not {here}"
    return None


def _links(state: MasterState, agent: Agent) -> Iterator[str]:
    for task in agent.tasks.values():
        if state.frameworks[task.framework_id].tasks.get(task.id) is not task:
            yield f"task {task.id} of agent {agent.id} is not its framework's"
        if task.held == task.ended:
            yield f"task {task.id} is {task.state} and {'still' if task.held else 'not'} charged"
    if agent.offers and not agent.active:
        yield f"agent {agent.id} is not active, and {len(agent.offers)} offers of it are out"
    for offer in agent.offers.values():
        framework = state.frameworks.get(offer.framework_id)
        if framework is None or framework.offers.get(offer.id) is not offer:
            yield f"offer {offer.id} of agent {agent.id} is not its framework's"
    known = state.allocator_feed.allocator
    # What is withheld is free, and the allocator does not know that yet.
    if not state.allocation_due and agent.id not in state.withheld and known.free(agent.id) != agent.free:
        yield f"agent {agent.id} has {agent.free} free, and the allocator believes {known.free(agent.id)}"


def _parts(agent: Agent) -> tuple[object, ...]:
    """Return all that `_sums` looks at: equal parts add up alike."""
    return (
        (agent.total, agent.used_total, agent.offered, agent.free),
        tuple((task.framework_id, task.resources, task.unlisted) for task in agent.tasks.values() if task.held),
        tuple((framework_id, executor.resources) for (framework_id, _), executor in agent.executors.items()),
        tuple(offer.resources for offer in agent.offers.values()),
        tuple(agent.used.items()),
        tuple(agent.offered_to.items()),
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
    if not adds_up(agent.total, *parts_of_it) or agent.free.shared() != agent.total.shared():
        parts = f"used {agent.used_total}, offered {agent.offered} and free {agent.free}"
        yield f"{parts} do not add up to the total {agent.total} of agent {agent.id}"


def _frameworks(state: MasterState) -> Iterator[str]:
    for framework in state.frameworks.values():
        if framework.offers and not framework.active:
            yield f"framework {framework.id} is away or deactivated, and {len(framework.offers)} offers to it are out"
        for offer in framework.offers.values():
            if state.agents[offer.agent_id].offers.get(offer.id) is not offer:
                yield f"offer {offer.id} is not its agent's"
        for task in framework.tasks.values():
            if state.agents[task.agent_id].tasks.get(task.key) is not task:
                yield f"task {task.id} of framework {framework.id} is not its agent's"
