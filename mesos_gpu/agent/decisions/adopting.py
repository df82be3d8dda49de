"""How the agent takes over what its last process left running. Pure; `replay` says how it stood.

Source: Mesos src/slave/slave.cpp (recoverFramework, Framework::recoverExecutor, Executor::recoverTask).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.agent.decisions import checking, executor_steps, reporting
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor, Stage
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.moment import Moment


def adopt_task(
    state: AgentState, framework: Framework, task: Task, pending: list[TaskStatus], at: Moment
) -> list[Action]:
    """Take over a command task as the last agent process left it. Returns what resumes its life.

    One that was asked to end has what is left of its grace: the time in which the agent was away counts.
    """
    known = state.frameworks.active.setdefault(framework.id, framework)
    if task.phase is Phase.OVER and not pending:
        known.completed.append(task)
        return reporting.close(known, task)
    known.tasks[task.key.task] = task
    state.streams.restore(task.key, pending, task.state)
    if task.phase is Phase.OVER or task.container_id is None:
        return []
    launching = task.phase in (Phase.LAUNCHING, Phase.CANCELLED)
    actions: list[Action] = [act.Watch(task.key, task.container_id, launching)]
    if task.phase is Phase.ENDING:
        ends_s = at.mono_s + launch.DEFAULT_KILL_GRACE_S if task.grace_ends_s is None else task.grace_ends_s
        actions.append(act.Kill(task.key, task.container_id, ends_s - at.mono_s))
    return actions + checking.begin_checks(task)


def adopt_executor(
    state: AgentState,
    framework: Framework,
    executor: Executor,
    tasks: Sequence[tuple[Task, list[TaskStatus]]],
    at: Moment,
    *,
    complete: bool = False,
) -> list[Action]:
    """Take over an executor as the last agent process left it; it has a while to subscribe again."""
    known = state.frameworks.active.setdefault(framework.id, framework)
    for task, pending in tasks:
        if complete or (task.phase is Phase.OVER and not pending):
            executor.completed.append(task)
            continue
        known.tasks[task.key.task] = task
        state.streams.restore(task.key, pending, task.state)
        task.handed_over = True
    executor.ever_sent = bool(tasks)
    if complete:
        executor.stage = Stage.TERMINATED
        known.completed.append(executor)
        return []
    known.executors[executor.key.executor] = executor
    executor.stage, executor.recovered = Stage.REGISTERING, True
    executor.deadline_s = at.mono_s + state.patience.reregistration_s
    actions: list[Action] = [act.Watch(executor.key, executor.container_id)]
    if known.silenced:
        return actions + executor_steps.end_executor(state, executor, at)
    if executor.driver is not None:
        # One that speaks HTTP comes by itself; this one waits to be asked.
        actions.append(act.Reconnect(executor.key, executor.driver))
    return actions


def adopted(state: AgentState) -> None:
    """Say that everything there is was adopted: frameworks without a live task are of the past."""
    for framework in list(state.frameworks.active.values()):
        state.frameworks.complete_if_idle(framework)
    # What they left is as old as it is: the time of its collection does not begin again.
    state.frameworks.newly_completed.clear()
