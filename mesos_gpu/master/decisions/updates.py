"""The life of a task after its launch: status updates, acknowledgements, kills, messages, reconciliation.

Source: Mesos src/master/master.cpp (statusUpdate, updateTask, acknowledge, kill, reconcile, exitedExecutor).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.model.statuses import about, made_here, record, repeated
from mesos_gpu.master.state.actions import (
    AcknowledgeStatus,
    Action,
    KillTask,
    MessageExecutor,
    ShutdownExecutor,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.tasks import is_terminal

LATEST = "Reconciliation: Latest task state"


def status_update(
    state: MasterState, agent_id: AgentId, framework_id: FrameworkId, status: TaskStatus, latest: str
) -> list[Action]:
    """An agent reports a task's status (v1, with its uuid); `latest` is the task's newest state there.

    What a task that has ended had is free at once, and offered once its framework was told of the end, or after a whole
    allocation interval: a framework that believes the task to run would refuse it, some forever.
    """
    agent = state.agents.get(agent_id)
    if agent is None:
        state.counters["invalid_status_updates"] += 1
        return [Warn(f"ignoring a status update of agent {agent_id}, which is not registered")]
    framework = state.frameworks.get(framework_id)
    task = agent.tasks.get((framework_id, status["task_id"]["value"]))
    if _is_late(framework, task, agent_id, status):
        state.counters["invalid_status_updates"] += 1
        task_id = status["task_id"]["value"]
        # It was acknowledged, or the newer one would not have come. Where the agent could not write that down, a disk
        # being full, it would say this one for ever, and never what follows it.
        heard = [AcknowledgeStatus(agent_id, framework_id, task_id, status["uuid"])] if agent.connected else []
        return [Warn(f"ignoring a status update of task {task_id} that newer ones have overtaken"), *heard]
    actions = state.tell_status(framework, status) if framework is not None else []
    if task is None:
        state.counters["invalid_status_updates"] += 1
        return actions
    state.counters["valid_status_updates"] += 1
    if status["uuid"] not in task.told:
        task.told.append(status["uuid"])
    task.document["status_update_state"] = status["state"]
    task.document["status_update_uuid"] = status["uuid"]
    if not task.ended:
        if is_terminal(latest):
            noted = agent.id in state.changed
            state.count_end(framework, status, latest)
            state.release(task)
            if not (noted or is_terminal(status["state"])):
                state.withhold(agent)
        task.document["state"] = latest
    if is_terminal(status["state"]):
        state.let_go([agent.id])
    record(task, status)
    state.announce_status(task, status)
    return actions


def _is_late(framework: Framework | None, task: Task | None, agent_id: AgentId, status: Mapping[str, Any]) -> bool:
    """Return whether an update was sent before one that we have had, and came over a connection that seemed dead.

    An agent sends the next update of a task when the one before is acknowledged. Mesos forwards it all the same. Behind
    an end nothing comes: one that is said again after another was said by another process of the agent, and waits.
    """
    if is_terminal(status["state"]):
        return False
    if task is None and framework is not None:
        task_id = status["task_id"]["value"]
        task = next((t for t in reversed(framework.completed) if (t.id, t.agent_id) == (task_id, agent_id)), None)
    return task is not None and status["uuid"] in task.told and status["uuid"] != task.told[-1]


def acknowledge(state: MasterState, framework: Framework, body: Mapping[str, Any]) -> list[Action]:
    """ACKNOWLEDGE: pass it on; that of the terminal update is the end of the task."""
    agent_id, task_id, uuid = body["agent_id"]["value"], body["task_id"]["value"], body["uuid"]
    agent = state.agents.get(agent_id)
    if agent is None or not agent.connected:
        state.counters["invalid_status_update_acknowledgements"] += 1
        return []
    state.counters["valid_status_update_acknowledgements"] += 1
    task = framework.tasks.get(task_id)
    if task is not None and is_terminal(task.told_state) and task.document.get("status_update_uuid") == uuid:
        state.drop_task(framework, task)
    return [AcknowledgeStatus(agent_id, framework.id, task_id, uuid)]


def kill(state: MasterState, framework: Framework, body: Mapping[str, Any], now: Moment) -> list[Action]:
    """KILL: pass it on, now or when the agent is back; a task we do not know is answered as in reconciliation."""
    task = framework.tasks.get(body["task_id"]["value"])
    if task is None:
        return _explicit(state, framework, body, now)
    if "agent_id" in body and body["agent_id"]["value"] != task.agent_id:
        return []
    agent, policy = state.agents[task.agent_id], body.get("kill_policy")
    agent.killed[task.key] = policy
    return [KillTask(agent.id, framework.id, task.id, policy)] if agent.connected else []


def reconcile(state: MasterState, framework: Framework, body: Mapping[str, Any], now: Moment) -> list[Action]:
    """RECONCILE: the latest state of the tasks asked for, of all we know when none is named."""
    asked = body.get("tasks", ())
    if not asked:
        return [action for task in framework.tasks.values() for action in _latest(state, framework, task, now)]
    return [action for one in asked for action in _explicit(state, framework, one, now)]


def shutdown_executor(state: MasterState, body: Mapping[str, Any], framework: Framework) -> list[Action]:
    """SHUTDOWN: pass it on to the executor's agent."""
    agent = state.agents.get(body["agent_id"]["value"])
    if agent is None or not agent.connected:
        return []
    return [ShutdownExecutor(agent.id, framework.id, body["executor_id"]["value"])]


def message_executor(state: MasterState, body: Mapping[str, Any], framework: Framework) -> list[Action]:
    """MESSAGE: pass it on to the executor's agent, once, with no promise."""
    agent = state.agents.get(body["agent_id"]["value"])
    if agent is None or not agent.connected:
        state.counters["invalid_framework_to_executor_messages"] += 1
        return []
    state.counters["valid_framework_to_executor_messages"] += 1
    return [MessageExecutor(agent.id, framework.id, body["executor_id"]["value"], body["data"])]


def message_framework(
    state: MasterState, agent_id: AgentId, framework_id: FrameworkId, executor_id: ExecutorId, data: str
) -> list[Action]:
    """An executor has sent its scheduler a message."""
    framework = state.frameworks.get(framework_id)
    if framework is None or agent_id not in state.agents:
        state.counters["invalid_executor_to_framework_messages"] += 1
        return []
    state.counters["valid_executor_to_framework_messages"] += 1
    body = {"agent_id": {"value": agent_id}, "executor_id": {"value": executor_id}, "data": data}
    return state.tell(framework, "MESSAGE", body)


def exited_executor(
    state: MasterState, agent_id: AgentId, framework_id: FrameworkId, executor_id: ExecutorId, status: int
) -> list[Action]:
    """A framework's own executor has ended; what it held is free."""
    agent = state.agents.get(agent_id)
    if agent is None or not state.drop_executor(agent, framework_id, executor_id):
        return []
    framework = state.frameworks.get(framework_id)
    if framework is None:
        return []
    body = {"agent_id": {"value": agent_id}, "executor_id": {"value": executor_id}, "status": status}
    return state.tell(framework, "FAILURE", body)


def _latest(state: MasterState, framework: Framework, task: Task, now: Moment) -> list[Action]:
    reason, more = "REASON_RECONCILIATION", repeated(task)
    status = about(framework, task, task.told_state, now, reason=reason, message=LATEST, **more)
    return state.tell_status(framework, status)


def _explicit(state: MasterState, framework: Framework, asked: Mapping[str, Any], now: Moment) -> list[Action]:
    """Answer for one task. That an agent is unreachable is told only to who names the agent, as Mesos does.

    Source: src/master/master.cpp, Master::reconcile; what is known of unreachable tasks is not looked at there.
    """
    task_id = asked["task_id"]["value"]
    agent_id = asked.get("agent_id", {}).get("value")
    task = framework.tasks.get(task_id)
    if task is not None:
        return _latest(state, framework, task, now)
    more: dict[str, Any] = {}
    if agent_id in state.recovered or (agent_id is None and state.recovered):
        return []  # it may come back with that task; the scheduler asks again
    if agent_id in state.agents:
        answer, words = "TASK_GONE", "unknown to the agent"
    elif agent_id in state.unreachable:
        answer, words = "TASK_UNREACHABLE", "unreachable"
        more["unreachable_time"] = {"nanoseconds": round((state.unreachable[agent_id].since_s or 0.0) * 1e9)}
    elif agent_id in state.gone:
        answer, words = "TASK_GONE_BY_OPERATOR", "gone"
    else:
        answer, words = "TASK_UNKNOWN", "unknown"
    status = made_here(
        framework,
        answer,
        now,
        task_id=task_id,
        agent_id=agent_id,
        reason="REASON_RECONCILIATION",
        message=f"Reconciliation: Task is {words}",
        **more,
    )
    return state.tell_status(framework, status)
