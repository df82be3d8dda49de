"""Steps in the life of an executor that several events lead to: handed tasks, resized, told to end, forgotten. Pure.

What an executor is told waits in a parcel until it has subscribed and its container has been made large enough.
Source: Mesos src/slave/slave.cpp (Executor, _shutdownExecutor, removeExecutor).
"""

from __future__ import annotations

from collections.abc import Iterable

from mesos_gpu.agent.decisions import reporting
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import executor_launch, launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor, Stage, Turn
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Cause, Phase, Task, next_phase
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document


def deliver(framework: Framework, executor: Executor) -> list[Action]:
    """Hand over what waits, as far as the container is large enough for it."""
    actions: list[Action] = []
    while executor.stage is Stage.RUNNING and executor.connected and executor.queue:
        if executor.queue[0].round > executor.resized:
            break
        parcel = executor.queue.pop(0)
        tasks = [framework.tasks[task_id] for task_id in parcel.tasks]
        for task in tasks:
            task.phase = next_phase(task.phase, Cause.LAUNCHED)
            task.handed_over = True
        executor.ever_sent = True
        event: Document = {"type": "LAUNCH", "launch": {"task": tasks[0].info}}
        if parcel.group:
            group = {"task_group": {"tasks": [task.info for task in tasks]}}
            event = {"type": "LAUNCH_GROUP", "launch_group": group}
        actions.append(act.ToExecutor(executor.key, event))
    return actions


def resize(state: AgentState, framework: Framework, executor: Executor) -> list[Action]:
    """Have the container hold exactly what the executor and its tasks were given."""
    if executor.stage not in (Stage.REGISTERING, Stage.RUNNING):
        return []
    executor.round += 1
    tasks = [task for task in framework.hosted_by(executor) if task.phase is not Phase.OVER]
    size = executor_launch.size(state.identity, executor, tasks)
    return [act.Resize(executor.key, executor.container_id, size, executor.round)]


def tell_to_kill(state: AgentState, executor: Executor, task: Task, asked_grace_s: float | None) -> list[Action]:
    """Tell an executor to end one of its tasks; a drain gives no more grace than it has itself."""
    kill: Document = {"task_id": {"value": task.key.task}}
    drain = state.departure.drain
    most_s = None if drain is None else drain.max_grace_s
    own_s = executor_launch.kill_grace_s(task.info)
    grace_s = asked_grace_s if asked_grace_s is not None or most_s is None else own_s
    if most_s is not None:
        grace_s = most_s if grace_s is None else min(grace_s, most_s)
    task.asked_grace_s = grace_s
    if grace_s is not None:
        kill["kill_policy"] = {"grace_period": {"nanoseconds": round(grace_s * 1e9)}}
    return [act.ToExecutor(executor.key, {"type": "KILL", "kill": kill})]


def nested_grace_s(tasks: Iterable[Task], container_id: ContainerId) -> float | None:
    """Return the longest grace period that an executor gives the tasks in its container; None without such tasks.

    A call that sends SIGTERM to a nested container does not say how long it waits before SIGKILL.
    """
    hosted = [task for task in tasks if task.hosted and task.container_id == container_id]
    graces = [(task.asked_grace_s, executor_launch.kill_grace_s(task.info)) for task in hosted]
    return max((_first(asked_s, own_s, launch.DEFAULT_KILL_GRACE_S) for asked_s, own_s in graces), default=None)


def _first(*times_s: float | None) -> float:
    return next(time_s for time_s in times_s if time_s is not None)


def end_if_useless(state: AgentState, executor: Executor, at: Moment) -> list[Action]:
    """End an executor that was never given a task and has none to wait for: some would wait forever."""
    return [] if executor.ever_sent or executor.queue else end_executor(state, executor, at)


def end_executor(state: AgentState, executor: Executor, at: Moment) -> list[Action]:
    """Tell an executor to end; after its grace, or at once when it cannot hear, its container is ended."""
    if not executor.alive:
        return []
    was = executor.stage
    executor.turn(Turn.END_ASKED)
    grace_s = executor_launch.shutdown_grace_s(executor.info, state.patience)
    if was is Stage.RUNNING and executor.connected:
        executor.deadline_s = at.mono_s + grace_s
        return [act.ToExecutor(executor.key, {"type": "SHUTDOWN"})]
    executor.deadline_s = None
    return [act.Kill(executor.key, executor.container_id, 0.0 if was is Stage.LAUNCHING else grace_s)]


def remove_if_done(state: AgentState, framework: Framework, executor: Executor) -> list[Action]:
    """Forget an executor that is gone, once the ends of its tasks are known."""
    if not executor.over or framework.hosted_by(executor):
        return []
    return remove_executor(state, framework, executor)


def remove_executor(state: AgentState, framework: Framework, executor: Executor) -> list[Action]:
    """Forget an executor, and have what it left on the disk collected."""
    state.frameworks.remove_executor(framework, executor)
    close: list[Action] = [act.Close(executor.key, executor.container_id)] if framework.checkpoint else []
    return close + reporting.discard(state, framework, executor)
