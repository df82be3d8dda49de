"""Agents register, break off, come back, stop answering, or leave.

An agent's place in the registry is stored before it hears its id, and before frameworks hear that it is lost.
Until then it is as it was.
Source: Mesos src/master/master.cpp (registerSlave, reregisterSlave, exited, markUnreachable, removeSlave).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.master.decisions import operations
from mesos_gpu.master.events.agents import NOT_ANSWERING
from mesos_gpu.master.events.stored import AgentAdmitted, AgentRemoved, AgentUnreachable, MissingAgentUnreachable
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent, Framework, KnownAgent
from mesos_gpu.master.model.report import Report, described, report_problem
from mesos_gpu.master.model.statuses import about, record
from mesos_gpu.master.registry.operations import Admit, MarkUnreachable, Remove
from mesos_gpu.master.state.actions import (
    Action,
    AgentRegistered,
    ForgetAgent,
    ObserveAgent,
    ShutdownAgent,
    Store,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

MACHINE_DOWN = "Machine is `DOWN`"


def register(state: MasterState, report: Report) -> list[Action]:
    """An agent without an id registers. Asked again before it has our answer, it gets the same id."""
    problem = report_problem(report)
    if problem is not None:
        return [Warn(f"refusing the registration of the agent at {report.pid}: {problem}")]
    if state.policy.is_down(report.info["hostname"], report.pid):
        return [ShutdownAgent(report.pid, MACHINE_DOWN)]
    if state.transitions.introduced(report.pid):
        # An agent asks again until it is answered. Mesos tells it at INFO, too: src/master/master.cpp, registerSlave.
        return [Warn(f"passing over a registration of the agent at {report.pid}: one is being stored", usual=True)]
    actions: list[Action] = []
    for agent in [a for a in state.agents.values() if a.pid == report.pid]:
        if agent.connected:
            return [AgentRegistered(agent.id)]
        actions += remove(state, agent.id, "a new agent registered at the same address", "registered")
    # Their place is taken: they cannot come back under their ids.
    taken = tuple(
        id for id, k in state.recovered.items() if k.pid == report.pid and not state.transitions.under_way(id)
    )
    agent_id = state.ids.agent()
    known = KnownAgent(described(report, agent_id)[0], report.pid)
    state.transitions.registering.add(report.pid)
    return [*actions, Store(Admit(agent_id, known, taken), AgentAdmitted(agent_id, report, taken))]


def admitted(
    state: MasterState, agent_id: AgentId, report: Report, instead_of: Sequence[AgentId], now: Moment
) -> list[Action]:
    """A new agent is in the registry: it hears its id."""
    state.transitions.registering.discard(report.pid)
    for other in instead_of:
        state.recovered.pop(other, None)
        state.deactivated.pop(other, None)
    agent = admit(state, report, agent_id, now)
    state.counters["slave_registrations"] += 1
    # Who had the place before is called back no more: this one would take it for a word to itself, and register again.
    left = [ForgetAgent(other) for other in instead_of]
    return [*left, ObserveAgent(agent.id), AgentRegistered(agent.id), *may_stay(state, agent)]


def admit(state: MasterState, report: Report, agent_id: AgentId, now: Moment) -> Agent:
    """Enter an agent in the books."""
    info, total = described(report, agent_id)
    agent = Agent(
        agent_id,
        info,
        report.pid,
        report.version,
        report.capabilities,
        total,
        now.wall_s,
        report.checkpoint,
        report.resource_version_uuid,
        changes=state.changed,
    )
    state.agents[agent_id] = agent
    state.announce("AGENT_ADDED", agent)
    state.touch(agent)
    state.note_maintenance(agent)
    return agent


def may_stay(state: MasterState, agent: Agent) -> list[Action]:
    """Send an agent away that was admitted while an operator brought its machine down."""
    if not state.policy.is_down(agent.hostname, agent.pid):
        return []
    return [ShutdownAgent(agent.pid, MACHINE_DOWN), *remove(state, agent.id, MACHINE_DOWN)]


def exited(state: MasterState, pid: str, now: Moment) -> list[Action]:
    """The link to an agent broke: no offers of it until it re-registers. Checkpointing frameworks keep their tasks."""
    actions: list[Action] = []
    for agent in [a for a in state.agents.values() if a.pid == pid and a.connected]:
        agent.connected = False
        state.touch(agent)
        actions += state.rescind_all(agent)
        for task in list(agent.tasks.values()):
            framework = state.frameworks[task.framework_id]
            if not framework.checkpoint:
                actions += end_task(
                    state,
                    framework,
                    task,
                    "TASK_LOST",
                    "REASON_AGENT_DISCONNECTED",
                    f"Agent {agent.hostname} disconnected",
                    now,
                )
        for framework_id, executor_id in list(agent.executors):
            if not state.frameworks[framework_id].checkpoint:
                state.drop_executor(agent, framework_id, executor_id)
    return actions


def unreachable(state: MasterState, agent_id: AgentId, now: Moment, why: str = NOT_ANSWERING) -> list[Action]:
    """An agent has not answered, or not come back, for too long. It still may, with its tasks.

    Until that is stored it is as it was, and its frameworks know nothing.
    """
    if agent_id not in state.agents or state.transitions.under_way(agent_id):
        return []
    state.transitions.marking_unreachable.add(agent_id)
    return [Store(MarkUnreachable(agent_id, now.wall_s), AgentUnreachable(agent_id, now, why))]


def marked_unreachable(state: MasterState, agent_id: AgentId, since: Moment, why: str) -> list[Action]:
    """An agent is unreachable in the registry: frameworks hear of it."""
    state.transitions.marking_unreachable.discard(agent_id)
    agent = state.agents.get(agent_id)
    return [] if agent is None else _lose(state, agent, since, why)


def _lose(state: MasterState, agent: Agent, now: Moment, why: str) -> list[Action]:
    actions = state.rescind_all(agent)
    del state.agents[agent.id]
    state.unreachable[agent.id] = KnownAgent(agent.info, agent.pid, now.wall_s)
    state.announce("AGENT_REMOVED", agent)
    state.filters.forget_agent(agent.id)
    state.counters["slave_removals"] += 1
    state.counters["slave_removals/reason_unhealthy"] += 1
    actions.append(ForgetAgent(agent.id, silent=True))
    since = {"unreachable_time": {"nanoseconds": round(now.wall_s * 1e9)}}
    for task in agent.tasks.values():
        framework = state.frameworks[task.framework_id]
        task.held = False
        if task.ended:
            state.drop_task(framework, task)
            continue
        status = about(
            framework,
            task,
            "TASK_UNREACHABLE",
            now,
            reason="REASON_AGENT_REMOVED",
            message=f"Agent {agent.hostname} is unreachable: {why}",
            **since,
        )
        task.document["state"] = task.document["status_update_state"] = status["state"]
        task.document.pop("status_update_uuid", None)
        record(task, status)
        state.announce_status(task, status)
        state.lose_task(framework, task)
        state.count_end(framework, status)
        actions += state.tell_status(framework, status)
    words = f"Agent {agent.hostname} is unreachable: {why}"
    actions += operations.lost(state, agent, "OPERATION_UNREACHABLE", words)
    return [*actions, *tell_agent_lost(state, agent.id)]


def unregister(state: MasterState, agent_id: AgentId, pid: str) -> list[Action]:
    """An agent leaves for good; only it can say so."""
    agent = state.agents.get(agent_id)
    if agent is None or agent.pid != pid:
        return [Warn(f"ignoring that agent {agent_id} unregisters from {pid}")]
    return remove(state, agent_id, "the agent unregistered", "unregistered")


def remove(state: MasterState, agent_id: AgentId, cause: str, counted: str | None = None) -> list[Action]:
    """Take an agent out for good; its tasks are gone. Nothing while it is leaving already.

    `counted` is the last part of the metric that counts it. Source: Mesos src/master/master.cpp, removeSlave.
    """
    if state.transitions.leaving(agent_id):
        return []
    state.transitions.removing.add(agent_id)
    return [Store(Remove((agent_id,)), AgentRemoved(agent_id, cause, counted))]


def removed(state: MasterState, agent_id: AgentId, cause: str, counted: str | None, now: Moment) -> list[Action]:
    """An agent is out of the registry: its tasks end, and frameworks hear of it."""
    state.transitions.removing.discard(agent_id)
    agent = state.agents.get(agent_id)
    if agent is None:
        return []
    if counted is not None:
        state.counters[f"slave_removals/reason_{counted}"] += 1
    actions = state.rescind_all(agent)
    for task in list(agent.tasks.values()):
        framework = state.frameworks[task.framework_id]
        actions += end_task(
            state, framework, task, "TASK_GONE", "REASON_AGENT_REMOVED", f"Agent {agent.hostname} removed: {cause}", now
        )
    del state.agents[agent.id]
    state.deactivated.pop(agent.id, None)
    state.announce("AGENT_REMOVED", agent)
    state.filters.forget_agent(agent.id)
    state.counters["slave_removals"] += 1
    actions += operations.lost(state, agent, "OPERATION_GONE_BY_OPERATOR", f"Agent {agent.hostname} removed: {cause}")
    return [*actions, ForgetAgent(agent.id), *tell_agent_lost(state, agent.id)]


def not_back(state: MasterState, agent_ids: Sequence[AgentId], now: Moment) -> list[Action]:
    """`--agent_reregister_timeout` after our start: those of the registry that are still missing are unreachable."""
    missing = [id for id in agent_ids if id in state.recovered and not state.transitions.under_way(id)]
    state.transitions.marking_unreachable.update(missing)
    return [
        Store(MarkUnreachable(agent_id, now.wall_s), MissingAgentUnreachable(agent_id, now)) for agent_id in missing
    ]


def missing_marked_unreachable(state: MasterState, agent_id: AgentId, since: Moment) -> list[Action]:
    """An agent that never came back is unreachable in the registry: frameworks hear of it."""
    state.transitions.marking_unreachable.discard(agent_id)
    known = state.recovered.pop(agent_id, None)
    if known is None:
        return []
    state.unreachable[agent_id] = KnownAgent(known.info, known.pid, since.wall_s)
    for counted in ("slave_removals", "slave_removals/reason_unhealthy", "recovery_slave_removals"):
        state.counters[counted] += 1
    return [ForgetAgent(agent_id), *tell_agent_lost(state, agent_id)]


def updated(
    state: MasterState,
    agent_id: AgentId,
    pid: str,
    resource_version_uuid: str | None,
    listed: Sequence[Document] | None = None,
) -> list[Action]:
    """UpdateSlaveMessage: the version that tasks must name, and the operations (v1) there; None: it does not say."""
    agent = state.agents.get(agent_id)
    if agent is None or agent.pid != pid:
        return []
    if agent.is_past(resource_version_uuid):
        return [
            Warn(f"ignoring what agent {agent_id} says of its resources: another process of it has registered since")
        ]
    if resource_version_uuid is not None:
        agent.take_version(resource_version_uuid)
    return [] if listed is None else operations.reported(state, agent, listed)


def end_task(
    state: MasterState, framework: Framework, task: Task, end: str, reason: str, message: str, now: Moment
) -> list[Action]:
    """End a task here, without its agent, and tell the framework, unless it had ended before."""
    actions: list[Action] = []
    if not task.ended:
        status = about(framework, task, end, now, reason=reason, message=message)
        state.release(task)
        task.document["state"] = task.document["status_update_state"] = status["state"]
        task.document.pop("status_update_uuid", None)
        record(task, status)
        state.announce_status(task, status)
        state.count_end(framework, status)
        actions = state.tell_status(framework, status)
    state.drop_task(framework, task)
    return actions


def tell_agent_lost(state: MasterState, agent_id: AgentId) -> list[Action]:
    """Return the FAILURE of an agent, for every framework."""
    return [
        action
        for framework in state.frameworks.values()
        for action in state.tell(framework, "FAILURE", {"agent_id": {"value": agent_id}})
    ]
