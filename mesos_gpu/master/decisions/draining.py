"""Operators take agents out of use: deactivated, drained of their tasks, or gone for good.

Source: Mesos src/master/master.cpp (deactivate, checkAndTransitionDrainingAgent, markGone), src/master/http.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.master.decisions import operations
from mesos_gpu.master.decisions.agents import end_task, tell_agent_lost
from mesos_gpu.master.events.stored import AgentDeactivated, AgentDrained, AgentGone, AgentReactivated, NothingStored
from mesos_gpu.master.model.model import Agent, Drain
from mesos_gpu.master.model.statuses import about, record
from mesos_gpu.master.registry.operations import Deactivate, MarkDrained, MarkGone, Nothing, Reactivate
from mesos_gpu.master.state.actions import Action, DrainAgent, ForgetAgent, ShutdownAgent, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

CAPABILITY = "AGENT_DRAINING"
GONE = "Agent has been marked gone"
_GONE_REASON = "REASON_AGENT_REMOVED_BY_OPERATOR"


def deactivate(state: MasterState, agent_id: AgentId) -> list[Action]:
    """DEACTIVATE_AGENT: no more offers of it; what runs there continues. Raises BadInput for an agent nobody knows."""
    _check_known(state, agent_id)
    return [Store(Deactivate(agent_id), AgentDeactivated(agent_id))]


def drain(state: MasterState, agent_id: AgentId, call: Mapping[str, Any], now: Moment) -> list[Action]:
    """DRAIN_AGENT: deactivate, and end its tasks within `max_grace_period`; then it is DRAINED, or gone if `mark_gone`.

    An agent that is away is told when it comes back. Raises BadInput for an agent that is unknown or cannot drain.
    """
    _check_known(state, agent_id)
    agent = state.agents.get(agent_id)
    if agent is not None and CAPABILITY not in agent.capabilities:
        raise BadInput(f"Agent {agent_id} is not capable of draining")
    config: Document = {"mark_gone": bool(call.get("mark_gone", False))}
    grace = call.get("max_grace_period")
    if grace is not None:
        nanoseconds = int(grace.get("seconds", 0)) * 10**9 + int(grace.get("nanos", 0))
        if nanoseconds < 0:
            raise BadInput("'max_grace_period' must be non-negative")
        config = {"max_grace_period": {"nanoseconds": nanoseconds}, **config}
    drain = Drain(config, now.wall_s)
    return [Store(Deactivate(agent_id, drain), AgentDeactivated(agent_id, drain))]


def deactivated(state: MasterState, agent_id: AgentId, drain: Drain | None) -> list[Action]:
    """An agent is deactivated in the registry: its offers are taken back; with `drain`, it is told to end its tasks."""
    if not _is_known(state, agent_id):
        return []
    if drain is None:
        state.deactivated.setdefault(agent_id, None)
        return _stop_offers(state, agent_id)
    state.deactivated[agent_id] = drain
    agent = state.agents.get(agent_id)
    told = [DrainAgent(agent_id, drain.config)] if agent is not None and agent.connected else []
    return [*_stop_offers(state, agent_id), *told]


def reactivate(state: MasterState, agent_id: AgentId) -> list[Action]:
    """REACTIVATE_AGENT: offers again. Raises BadInput while it drains, and for one that is not deactivated."""
    if agent_id not in state.deactivated:
        raise BadInput("Agent is not deactivated")
    draining = state.deactivated[agent_id]
    if draining is not None and not draining.done:
        raise BadInput("Agent is still in the DRAINING state")
    return [Store(Reactivate(agent_id), AgentReactivated(agent_id))]


def reactivated(state: MasterState, agent_id: AgentId) -> list[Action]:
    """An agent is reactivated in the registry: it may be offered."""
    state.deactivated.pop(agent_id, None)
    agent = state.agents.get(agent_id)
    if agent is not None:
        agent.deactivated, agent.drain = False, None
        state.touch(agent)
    return []


def mark_gone(state: MasterState, agent_id: AgentId, now: Moment) -> list[Action]:
    """MARK_AGENT_GONE: it is shut down and can never come back; its tasks are TASK_GONE_BY_OPERATOR.

    Nothing happens the second time. Raises NotFound for an agent nobody knows.
    """
    if agent_id in state.gone:
        return []
    if not _is_known(state, agent_id):
        raise NotFound(f"Agent '{agent_id}' not found")
    if agent_id in state.transitions.marking_gone:
        return [Store(Nothing(), NothingStored())]  # answered when it is so
    state.transitions.marking_gone.add(agent_id)
    return [Store(MarkGone(agent_id, now.wall_s), AgentGone(agent_id, now))]


def marked_gone(state: MasterState, agent_id: AgentId, now: Moment) -> list[Action]:
    """An agent is gone in the registry, since `now`: it is shut down, and frameworks hear of their tasks' end."""
    state.transitions.marking_gone.discard(agent_id)
    if not _is_known(state, agent_id):
        return []  # it left just before
    state.gone[agent_id] = now.wall_s
    state.deactivated.pop(agent_id, None)
    state.recovered.pop(agent_id, None)
    state.unreachable.pop(agent_id, None)
    agent = state.agents.get(agent_id)
    if agent is None:
        # It is shut down when it comes back. At its address another may be by now, which nobody is to shut down: the
        # machine with a new disk. Source: Mesos src/master/master.cpp, Master::markGone.
        return [ForgetAgent(agent_id), *_end_unreachable(state, agent_id, now)]
    actions: list[Action] = [*state.rescind_all(agent), ShutdownAgent(agent.pid, GONE)]
    for task in list(agent.tasks.values()):
        framework = state.frameworks[task.framework_id]
        actions += end_task(state, framework, task, "TASK_GONE_BY_OPERATOR", _GONE_REASON, GONE, now)
    actions += operations.lost(state, agent, "OPERATION_GONE_BY_OPERATOR", GONE)
    del state.agents[agent_id]
    state.announce("AGENT_REMOVED", agent)
    state.filters.forget_agent(agent_id)
    state.counters["slave_removals"] += 1
    return [*actions, ForgetAgent(agent_id), *tell_agent_lost(state, agent_id)]


def settle(state: MasterState, now: Moment) -> list[Action]:
    """After any event: draining agents that run nothing any more are DRAINED, or gone where that was asked for."""
    actions: list[Action] = []
    for agent_id, draining in list(state.deactivated.items()):
        agent = state.agents.get(agent_id)
        if draining is None or draining.done or agent is None or not agent.connected:
            continue
        if agent.tasks or agent.operations:
            continue
        if agent_id in state.transitions.marking_drained or state.transitions.leaving(agent_id):
            continue
        if draining.config["mark_gone"]:
            actions += mark_gone(state, agent_id, now)
        else:
            actions.append(_mark_drained(state, agent_id, draining))
    return actions


def _mark_drained(state: MasterState, agent_id: AgentId, drain: Drain) -> Store:
    done = replace(drain, done=True)
    state.transitions.marking_drained.add(agent_id)
    return Store(MarkDrained(agent_id, done), AgentDrained(agent_id, done))


def drained(state: MasterState, agent_id: AgentId, drain: Drain) -> list[Action]:
    """An agent is drained in the registry."""
    state.transitions.marking_drained.discard(agent_id)
    if agent_id in state.deactivated:
        state.deactivated[agent_id] = drain
        agent = state.agents.get(agent_id)
        if agent is not None:
            agent.drain = drain
    return []


def welcome_back(state: MasterState, agent: Agent) -> list[Action]:
    """An agent (re-)registered: what operators want of it holds still, and it is told again."""
    agent.deactivated = agent.id in state.deactivated
    agent.drain = state.deactivated.get(agent.id)
    state.touch(agent)
    if agent.drain is None or agent.drain.done:
        return []
    return [DrainAgent(agent.id, agent.drain.config)]


def _check_known(state: MasterState, agent_id: AgentId) -> None:
    if not _is_known(state, agent_id):
        raise BadInput("Unknown agent")


def _is_known(state: MasterState, agent_id: AgentId) -> bool:
    return any(agent_id in known for known in (state.agents, state.recovered, state.unreachable))


def _stop_offers(state: MasterState, agent_id: AgentId) -> list[Action]:
    agent = state.agents.get(agent_id)
    if agent is None:
        return []
    agent.deactivated, agent.drain = True, state.deactivated[agent_id]
    state.touch(agent)
    return state.rescind_all(agent)


def _end_unreachable(state: MasterState, agent_id: AgentId, now: Moment) -> list[Action]:
    """End the tasks that ran there when it stopped answering: their frameworks would wait for them forever."""
    actions: list[Action] = []
    for framework in state.frameworks.values():
        for task in [task for task in framework.unreachable.values() if task.agent_id == agent_id]:
            del framework.unreachable[task.id]
            status = about(framework, task, "TASK_GONE_BY_OPERATOR", now, reason=_GONE_REASON, message=GONE)
            task.document["state"] = task.document["status_update_state"] = status["state"]
            record(task, status)
            state.count_end(framework, status)
            framework.completed.append(task)
            state.announce_status(task, status)
            actions += state.tell_status(framework, status)
    return actions
