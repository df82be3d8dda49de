"""What happens to containers, as the agent decides it: launched, ended, resized, checked, their GPUs unhealthy. Pure.

Source: Mesos src/slave/slave.cpp (executorLaunched, executorTerminated), src/launcher/executor.cpp.
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import checking, executor_steps, outcomes, reporting
from mesos_gpu.agent.decisions.ending import end_task
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, Stage, Turn
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Cause, Fate, Phase, next_phase
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.moment import Moment


def handle(state: AgentState, event: ev.FromContainers, at: Moment) -> list[Action]:
    """Take what happened to a container of a command task, or of an executor."""
    match event:
        case ev.Resized():
            return _resized(state, event, at)
        case ev.Checked():
            return _checked(state, event, at)
        case ev.GpuIll():
            return _gpu_ill(state, event, at)
        case _:
            if isinstance(event.key, ExecutorKey):
                executor = state.frameworks.executor(event.key)
                return [] if executor is None else _of_executor(state, executor, event, at)
            return _of_task(state, event.key, event, at)


def ended_container(state: AgentState, event: ev.Event) -> ContainerId | None:
    """Return the container whose end an event tells, before it is handled; None for all other events."""
    if not isinstance(event, ev.Ended | ev.LaunchFailed | ev.Vanished):
        return None
    if isinstance(event.key, ExecutorKey):
        executor = state.frameworks.executor(event.key)
        return None if executor is None else executor.container_id
    task = state.frameworks.task(event.key)
    return None if task is None else task.container_id


# --- command tasks --------------------------------------------------------------------------------------------------


def _of_task(state: AgentState, key: TaskKey, event: ev.ContainerLife, at: Moment) -> list[Action]:
    match event:
        case ev.Launched():
            return _launched(state, event, at)
        case ev.Pulling():
            return _pulling(state, key, event.message, at)
        case ev.LaunchFailed():
            return _launch_failed(state, event, at)
        case ev.Ended():
            return _ended(state, event, at)
        case ev.Vanished():
            return _vanished(state, event, at)
        case _:
            assert_never(event)


def _launched(state: AgentState, event: ev.Launched, at: Moment) -> list[Action]:
    framework, task = state.frameworks.with_task(event.key)
    task.phase, task.pid = next_phase(task.phase, Cause.LAUNCHED), event.pid
    task.networks = event.networks
    if task.phase is Phase.CANCELLED:
        assert task.container_id is not None
        return [act.Kill(task.key, task.container_id, 0.0)]
    limit_s = launch.max_completion_s(task.info)
    task.deadline_s = None if limit_s is None else at.mono_s + limit_s
    running = reporting.report(state, framework, task, Verdict("TASK_RUNNING"), at, event.cards)
    return running + checking.begin_checks(task, at.mono_s)


def _pulling(state: AgentState, key: TaskKey, message: str, at: Moment) -> list[Action]:
    """Tell a task's owner how far the pull of its image is."""
    framework, task = state.frameworks.active.get(key.framework), state.frameworks.task(key)
    if framework is None or task is None or framework.silenced or task.phase is not Phase.LAUNCHING:
        return []
    return reporting.report(state, framework, task, Verdict("TASK_STARTING", message=message), at)


def _launch_failed(state: AgentState, event: ev.LaunchFailed, at: Moment) -> list[Action]:
    framework, task = state.frameworks.with_task(event.key)
    was = task.phase
    task.phase = next_phase(was, Cause.LAUNCH_FAILED)
    if was is Phase.CANCELLED:
        return reporting.report_end(state, framework, task, outcomes.killed_during_launch(task), at)
    state.counts["container_launch_errors"] += 1
    return reporting.report_end(state, framework, task, outcomes.launch_failed(event.cause), at)


def _ended(state: AgentState, event: ev.Ended, at: Moment) -> list[Action]:
    framework, task = state.frameworks.with_task(event.key)
    was = task.phase
    task.phase = next_phase(was, Cause.ENDED)
    if was is Phase.CANCELLED:
        return reporting.report_end(state, framework, task, outcomes.killed_during_launch(task), at)
    return reporting.report_end(state, framework, task, outcomes.ended(framework, task, event.ending), at)


def _vanished(state: AgentState, event: ev.Vanished, at: Moment) -> list[Action]:
    framework, task = state.frameworks.with_task(event.key)
    was = task.phase
    task.phase = next_phase(was, Cause.VANISHED)
    verdict = outcomes.vanished(framework, task, was, rebooted=event.rebooted)
    return reporting.report_end(state, framework, task, verdict, at)


def _gpu_ill(state: AgentState, event: ev.GpuIll, at: Moment) -> list[Action]:
    """Tell a task's owner that its GPU is unhealthy, once, or end the task for it."""
    framework, task = state.frameworks.active.get(event.key.framework), state.frameworks.task(event.key)
    if framework is None or task is None or framework.silenced or task.fate is not None:
        return []
    if event.kill:
        task.why = event.message
        return end_task(state, framework, task, Fate.GPU_ILL, at)
    reported = not event.again and any(status.get("message") == event.message for status in task.statuses)
    if reported or task.phase is not Phase.RUNNING:
        return []
    return reporting.report(state, framework, task, Verdict("TASK_RUNNING", message=event.message), at)


def _checked(state: AgentState, event: ev.Checked, at: Moment) -> list[Action]:
    """Tell a task's owner what its checks found; a health check may have failed often enough to end the task."""
    framework, task = state.frameworks.active.get(event.key.framework), state.frameworks.task(event.key)
    if framework is None or task is None or framework.silenced or task.phase is not Phase.RUNNING:
        return []
    verdict, kill = checking.take(task, event.news)
    actions = reporting.report(state, framework, task, verdict, at)
    return actions + (end_task(state, framework, task, Fate.UNHEALTHY, at) if kill else [])


# --- executors ------------------------------------------------------------------------------------------------------


def _of_executor(state: AgentState, executor: Executor, event: ev.ContainerLife, at: Moment) -> list[Action]:
    framework = state.frameworks.active[executor.key.framework]
    match event:
        case ev.Launched():
            executor.networks = event.networks
            return _executor_runs(state, framework, executor, event.pid, at)
        case ev.Pulling():
            return []  # its tasks are not its own yet, so nobody is told how far the pull of its image is
        case ev.LaunchFailed():
            state.counts["container_launch_errors"] += 1
            executor.verdict = executor.verdict or outcomes.launch_failed(event.cause)
            return _executor_ended(state, framework, executor, None, at)
        case ev.Ended():
            return _executor_ended(state, framework, executor, event.ending, at)
        case ev.Vanished():
            executor.verdict = executor.verdict or outcomes.executor_vanished(framework, rebooted=event.rebooted)
            return _executor_ended(state, framework, executor, None, at)
        case _:
            assert_never(event)


def _executor_runs(
    state: AgentState, framework: Framework, executor: Executor, pid: int | None, at: Moment
) -> list[Action]:
    executor.pid = pid
    executor.turn(Turn.LAUNCHED)
    if executor.stage is Stage.TERMINATING:
        return [act.Kill(executor.key, executor.container_id, 0.0)]
    actions: list[Action] = []
    if framework.checkpoint and pid is not None:
        actions.append(act.NoteRun(executor.key, executor.container_id, "pids/forked.pid", str(pid)))
    if executor.stage is Stage.REGISTERING:
        executor.deadline_s = at.mono_s + state.patience.registration_s
    waiting = any(parcel.round > executor.round for parcel in executor.queue)
    return actions + (executor_steps.resize(state, framework, executor) if waiting else [])


def _executor_ended(
    state: AgentState, framework: Framework, executor: Executor, ending: Termination | None, at: Moment
) -> list[Action]:
    executor.turn(Turn.ENDED)
    executor.connected, executor.deadline_s = False, None
    executor.queue.clear()
    actions: list[Action] = []
    for task in framework.hosted_by(executor):
        if task.phase is not Phase.OVER:
            task.phase = Phase.OVER
            verdict = outcomes.with_its_executor(executor, task, ending)
            actions += reporting.report(state, framework, task, verdict, at)
    if not framework.silenced:
        actions.append(act.ExecutorGone(*executor.key, status=outcomes.wait_status(ending)))
    actions += [act.CloseStream(executor.key), act.Forget(executor.container_id)]
    return actions + executor_steps.remove_if_done(state, framework, executor)


def _resized(state: AgentState, event: ev.Resized, at: Moment) -> list[Action]:
    executor = state.frameworks.executor(event.key)
    if executor is None or executor.container_id != event.container_id or not executor.alive:
        return []
    framework = state.frameworks.active[event.key.framework]
    executor.resized = max(executor.resized, event.round)
    actions: list[Action] = []
    if event.problem is not None:
        failed = [parcel for parcel in executor.queue if parcel.round <= event.round]
        executor.queue = [parcel for parcel in executor.queue if parcel not in failed]
        for task_id in [task_id for parcel in failed for task_id in parcel.tasks]:
            task = framework.tasks[task_id]
            task.phase = Phase.OVER
            actions += reporting.report(state, framework, task, outcomes.update_failed(event.problem), at)
    useless = executor_steps.end_if_useless(state, executor, at)
    return actions + (useless or executor_steps.deliver(framework, executor))
