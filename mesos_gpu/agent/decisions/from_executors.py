"""What executors want, as the agent decides it. Pure.

What an executor says is on disk before it is acknowledged to it.
Source: Mesos src/slave/slave.cpp (subscribe, statusUpdate, executorMessage).
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import executor_steps, outcomes, reporting
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching.shares import with_share
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor, Turn
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.status import hosted_status, network_infos
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.tasks import is_terminal

LIBPROCESS_PID = "pids/libprocess.pid"
"""Where it is written down what the pid of an executor's driver is (src/slave/paths.hpp)."""


def handle(state: AgentState, event: ev.FromExecutor, at: Moment) -> list[Action]:
    """Take what an executor says or does."""
    match event:
        case ev.Subscribed():
            return _subscribed(state, event, at)
        case ev.StreamClosed():
            return _stream_closed(state, event)
        case ev.ExecutorSays():
            return _executor_says(state, event, at)
        case ev.ExecutorMessage():
            return _message(state, event)
        case _:
            assert_never(event)


def _subscribed(state: AgentState, event: ev.Subscribed, at: Moment) -> list[Action]:
    executor = state.frameworks.executor(event.key)
    if executor is None or not executor.alive:
        return [act.ToExecutor(event.key, {"type": "SHUTDOWN"}), act.CloseStream(event.key)]
    framework = state.frameworks.active[event.key.framework]
    executor.turn(Turn.SUBSCRIBED)
    executor.connected, executor.deadline_s, executor.driver = True, None, event.pid
    actions: list[Action] = []
    if framework.checkpoint:
        name, text = ("http.marker", "") if event.pid is None else (LIBPROCESS_PID, event.pid)
        actions.append(act.NoteRun(executor.key, executor.container_id, name, text))
    actions.append(act.Welcome(executor.key, framework.info, executor.info, executor.container_id))
    for status in event.updates:
        actions += _executor_says(state, ev.ExecutorSays(event.key, status, event.cards), at)
    for task in framework.hosted_by(executor):
        actions += _compare(state, framework, executor, task, event.tasks, at)
    if not event.tasks and not any(task.received for task in (*framework.hosted_by(executor), *executor.completed)):
        # What an agent before this one wrote down for it has never got there. Source: Mesos Executor::everSentTask.
        executor.ever_sent = False
    useless = executor_steps.end_if_useless(state, executor, at)
    return actions + (useless or executor_steps.deliver(framework, executor))


def _compare(
    state: AgentState, framework: Framework, executor: Executor, task: Task, held: Sequence[str], at: Moment
) -> list[Action]:
    """See that a subscribing executor has a task that was on its way to it, and knows that it should end."""
    if task.phase is Phase.OVER or not task.handed_over:
        return []
    if task.state == "TASK_STAGING" and task.key.task not in held:
        task.phase = Phase.OVER
        return reporting.report(state, framework, task, outcomes.never_arrived(framework), at)
    return executor_steps.tell_to_kill(state, executor, task, None) if task.fate is not None else []


def _message(state: AgentState, event: ev.ExecutorMessage) -> list[Action]:
    if state.frameworks.executor(event.key) is None:
        return []
    return [act.ToFramework(event.key, event.data, state.frameworks.active[event.key.framework].pid)]


def _stream_closed(state: AgentState, event: ev.StreamClosed) -> list[Action]:
    executor = state.frameworks.executor(event.key)
    if executor is not None:
        executor.connected = False
    return []


def _executor_says(state: AgentState, event: ev.ExecutorSays, at: Moment) -> list[Action]:
    """Take an update of an executor: logged, then acknowledged to it; a repeated one is acknowledged again."""
    status, executor = event.status, state.frameworks.executor(event.key)
    task_id, uuid = status["task_id"]["value"], status["uuid"]
    answer = {"type": "ACKNOWLEDGED", "acknowledged": {"task_id": {"value": task_id}, "uuid": uuid}}
    acknowledge = act.ToExecutor(event.key, answer)
    if executor is None:
        return []
    framework = state.frameworks.active[event.key.framework]
    task = framework.tasks.get(task_id)
    known = task is not None and task.hosted and task.container_id == executor.container_id
    if task is None or not known or task.phase is Phase.OVER or uuid in task.received:
        if not known:
            state.counts["invalid_status_updates"] += 1
        return [acknowledge]
    task.received.add(uuid)
    networks = network_infos(executor.info, executor.networks, state.identity)
    full = hosted_status(
        status, task, agent_id=state.identity.agent_id, networks=networks, pid=executor.pid, wall_s=at.wall_s
    )
    full = outcomes.of_agents_doing(framework, task, with_share(state.identity.shared_cards, task.info, full))
    if full["state"] == "TASK_RUNNING" and not any(said["state"] == "TASK_RUNNING" for said in task.statuses):
        full = reporting.naming(full, event.cards)
    ended = is_terminal(full["state"])
    if ended:
        task.phase = Phase.OVER
    actions = [*reporting.report_status(state, framework, task, full, at), acknowledge]
    return actions + (executor_steps.resize(state, framework, executor) if ended else [])
