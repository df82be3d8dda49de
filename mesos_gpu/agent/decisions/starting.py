"""How tasks are begun: a command task in a container of its own, others in the container of their executor. Pure.

Source: Mesos src/slave/slave.cpp (run, _run, __run, Framework::addExecutor).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.agent.decisions import executor_steps, outcomes, reporting
from mesos_gpu.agent.decisions.shared_volumes import in_use
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import executor_launch, launch
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.events import RunTask
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, Parcel, Stage, own_executor
from mesos_gpu.agent.model.fetch_uris import read_uris
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.paths import sandbox_path
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.ids import ContainerId, ExecutorId
from mesos_gpu.mesos.moment import Moment


def start_command_task(
    state: AgentState, framework: Framework, info: TaskInfo, refused: Verdict | None, at: Moment
) -> list[Action]:
    """Launch a command task, or say why not."""
    key = TaskKey(framework.id, info["task_id"]["value"])
    executor_id = own_executor(key.task)
    if refused is not None:
        task = framework.tasks[key.task] = Task(key, info, executor_id, None, "", phase=Phase.OVER)
        return reporting.report(state, framework, task, refused, at)
    identity, container_id = state.identity, state.ids.container_id()
    sandbox = sandbox_path(identity.work_dir, identity.agent_id, key.framework, executor_id, container_id)
    task = framework.tasks[key.task] = Task(key, info, executor_id, container_id, sandbox)
    actions: list[Action] = []
    if framework.checkpoint:
        actions.append(act.SaveTask(key, container_id, info))
    # The launch is begun first: it takes a hundred times as long as telling the master.
    others = in_use(identity.work_dir, [info], (other for other in state.frameworks.tasks() if other is not task))
    config = launch.task_container(identity, framework.info, info, container_id, others)
    actions.append(act.Launch(key, config, read_uris(info["command"])))
    return actions + reporting.report(state, framework, task, Verdict("TASK_STARTING"), at)


def start_hosted(
    state: AgentState, framework: Framework, event: RunTask, refused: Verdict | None, at: Moment
) -> list[Action]:
    """Give tasks (a group, or one) to their executor, launching it when it is not there."""
    infos = [info for info in event.tasks if info["task_id"]["value"] not in framework.tasks]
    if not infos:
        return []
    info: ExecutorInfo = infos[0]["executor"]
    key = ExecutorKey(framework.id, info["executor_id"]["value"])
    executor = framework.executors.get(key.executor)
    verdict = refused or _refused_hosted(state, framework, executor, infos, event)
    if verdict is not None:
        actions: list[Action] = []
        for task_info in infos:
            task = _enter(framework, task_info, key.executor, None, "")
            task.phase = Phase.OVER
            actions += reporting.report(state, framework, task, verdict, at)
        if event.launch_executor and (executor is None or executor.over):
            actions.append(act.ExecutorGone(*key))  # the master has booked it
        return actions
    if executor is None:
        return _launch_executor(state, framework, key, infos, event.group)
    actions = _enqueue(framework, executor, infos, event.group, executor.round + 1)
    return actions + ([] if executor.stage is Stage.LAUNCHING else executor_steps.resize(state, framework, executor))


def _refused_hosted(
    state: AgentState, framework: Framework, executor: Executor | None, infos: Sequence[TaskInfo], event: RunTask
) -> Verdict | None:
    """Return why tasks cannot be given to their executor, which is there or is to be launched; None when they can."""
    verdict = outcomes.refused_hosted(state.identity, infos[0]["executor"], infos, group=event.group)
    if verdict is not None:
        return verdict
    if executor is None:
        return None if event.launch_executor else outcomes.executor_terminated(framework)
    if not executor.alive:
        return outcomes.executor_terminated(framework)
    late_share = (outcomes.refused_share(state.identity, info, running=True) for info in infos)
    if (verdict := next(filter(None, late_share), None)) is not None:
        return verdict
    late_volume = executor_launch.late_volume(state.identity, executor, infos, framework.hosted_by(executor))
    return None if late_volume is None else outcomes.launch_failed(late_volume)


def _launch_executor(
    state: AgentState, framework: Framework, key: ExecutorKey, infos: list[TaskInfo], group: bool
) -> list[Action]:
    info: ExecutorInfo = infos[0]["executor"]
    container_id = state.ids.container_id()
    sandbox = executor_launch.sandbox(state.identity, key, container_id)
    executor = framework.executors[key.executor] = Executor(key, info, container_id, sandbox)
    actions: list[Action] = []
    if framework.checkpoint:
        actions.append(act.SaveExecutor(key, container_id, info))
    actions += _enqueue(framework, executor, infos, group, 0)
    tasks = framework.hosted_by(executor)
    mine = {task.key for task in tasks}
    strangers = (task for task in state.frameworks.tasks() if task.key not in mine)
    others = in_use(state.identity.work_dir, [info, *infos], strangers)
    config = executor_launch.executor_container(state.identity, framework.info, executor, tasks, state.patience, others)
    return [*actions, act.Launch(key, config, executor_launch.fetched(info))]


def _enqueue(
    framework: Framework, executor: Executor, infos: list[TaskInfo], group: bool, after_round: int
) -> list[Action]:
    actions: list[Action] = []
    for info in infos:
        task = _enter(framework, info, executor.key.executor, executor.container_id, executor.sandbox)
        if framework.checkpoint:
            actions.append(act.SaveTask(task.key, executor.container_id, info, executor.key.executor))
    executor.queue.append(Parcel(tuple(info["task_id"]["value"] for info in infos), group, after_round))
    return actions


def _enter(
    framework: Framework, info: TaskInfo, executor_id: ExecutorId, container_id: ContainerId | None, sandbox: str
) -> Task:
    key = TaskKey(framework.id, info["task_id"]["value"])
    task = framework.tasks[key.task] = Task(key, info, executor_id, container_id, sandbox, hosted=True)
    return task
