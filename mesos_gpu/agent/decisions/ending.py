"""How tasks are made to end: asked, given their grace, taken back before they were handed over, or silenced. Pure.

Source: Mesos src/slave/slave.cpp (killTask, shutdownFramework), src/launcher/executor.cpp (kill).
"""

from __future__ import annotations

from mesos_gpu.agent.decisions import checking, executor_steps, outcomes, reporting
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Cause, Fate, Phase, Task, next_phase
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document


def end_task(
    state: AgentState, framework: Framework, task: Task, fate: Fate, at: Moment, *, asked_grace_s: float | None = None
) -> list[Action]:
    """Ask a task to end; asking again can only shorten its grace."""
    if task.hosted:
        return _end_hosted(state, framework, task, fate, asked_grace_s, at)
    was = task.phase
    task.phase = next_phase(was, Cause.END_ASKED)
    if was is Phase.OVER or task.container_id is None:
        return []
    if task.fate is None or fate is Fate.SILENCED:
        task.fate = fate
    grace_s = _grace_s(state, task, fate, asked_grace_s)
    actions = reporting.log(framework, task, _kill_record(task, task.fate, at.mono_s + grace_s, grace_s))
    if task.phase is Phase.CANCELLED:
        # Its container is killed when the launch has come to an end; but a pull or a fetch may take hours.
        slow = was is Phase.LAUNCHING and launch.may_take_long(task.info)
        return [*actions, act.Kill(task.key, task.container_id, 0.0)] if slow else actions
    actions += checking.end_checks(task)
    if was is Phase.RUNNING and fate in (Fate.KILLED, Fate.UNHEALTHY) and framework.can("TASK_KILLING_STATE"):
        actions += reporting.report(state, framework, task, Verdict("TASK_KILLING", reason=task.reason), at)
    if task.grace_ends_s is None or at.mono_s + grace_s < task.grace_ends_s:
        task.grace_ends_s = at.mono_s + grace_s
        actions.append(act.Kill(task.key, task.container_id, grace_s))
    return actions


def silence_framework(state: AgentState, framework_id: FrameworkId, at: Moment) -> list[Action]:
    """Kill what a framework runs, and never speak of it again."""
    state.streams.forget_framework(framework_id)
    framework = state.frameworks.active.get(framework_id)
    if framework is None or framework.silenced:
        return []
    framework.silenced = True
    actions = _silence_executors(state, framework, at)
    for task in list(framework.tasks.values()):
        task.deadline_s = task.grace_ends_s = None
        if task.phase is Phase.OVER:
            actions += reporting.remove_task(state, framework, task)
        else:
            actions += end_task(state, framework, task, Fate.SILENCED, at)
    return actions


def _silence_executors(state: AgentState, framework: Framework, at: Moment) -> list[Action]:
    """End the executors of a framework that is gone, without a word about their tasks."""
    for task in [task for task in framework.tasks.values() if task.hosted]:
        task.phase = Phase.OVER
        state.frameworks.remove_task(framework, task)
    actions: list[Action] = []
    for executor in list(framework.executors.values()):
        executor.queue.clear()
        if executor.over:
            actions += executor_steps.remove_executor(state, framework, executor)
        else:
            actions += executor_steps.end_executor(state, executor, at)
    return actions


def _end_hosted(
    state: AgentState, framework: Framework, task: Task, fate: Fate, asked_grace_s: float | None, at: Moment
) -> list[Action]:
    """Have an executor end one of its tasks, or take the task back when it was not handed over yet."""
    executor = framework.executors.get(task.executor_id)
    if task.phase is Phase.OVER or executor is None:
        return []
    task.fate = task.fate or fate
    actions = reporting.log(framework, task, _kill_record(task, task.fate))
    if executor.queued(task.key.task) is not None:
        return actions + _take_back(state, framework, executor, task, at)
    task.phase = next_phase(task.phase, Cause.END_ASKED)
    return actions + executor_steps.tell_to_kill(state, executor, task, asked_grace_s)


def _take_back(state: AgentState, framework: Framework, executor: Executor, task: Task, at: Moment) -> list[Action]:
    """End a task that waits to be handed over, and all that wait with it."""
    parcel = executor.queued(task.key.task)
    assert parcel is not None
    executor.queue.remove(parcel)
    actions: list[Action] = []
    for task_id in parcel.tasks:
        waiting = framework.tasks[task_id]
        waiting.phase = Phase.OVER
        actions += reporting.report(state, framework, waiting, outcomes.taken_back(task, waiting), at)
    return actions + executor_steps.end_if_useless(state, executor, at)


def _kill_record(task: Task, fate: Fate, ends_s: float | None = None, grace_s: float | None = None) -> Document:
    """Return what the next process is to know; an executor gives its tasks their grace by itself.

    `ends_s` is in monotonic seconds, which all processes since the machine began have in common; no task outlives it.
    """
    asked = {} if grace_s is None else {"grace_s": grace_s, "grace_ends_s": ends_s}
    return {"type": "KILL", "fate": fate.value, "reason": task.reason, "why": task.why, **asked}


def _grace_s(state: AgentState, task: Task, fate: Fate, asked_s: float | None) -> float:
    if fate is Fate.TIMED_OUT:
        return launch.LEAST_GRACE_S
    if fate is Fate.SILENCED:
        return launch.shutdown_grace_s(task.info)
    own_s = launch.grace_s(task.info.get("kill_policy"))
    grace_s = next((s for s in (asked_s, own_s) if s is not None), launch.DEFAULT_KILL_GRACE_S)
    drain = state.departure.drain
    most_s = None if drain is None else drain.max_grace_s
    return max(launch.LEAST_GRACE_S, grace_s if most_s is None else min(grace_s, most_s))
