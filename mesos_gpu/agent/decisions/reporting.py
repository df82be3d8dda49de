"""How the agent says what became of a task: an update logged and sent; a task forgotten when everyone knows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mesos_gpu.agent.decisions import checking, collecting
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import shares
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.status import container_status, make_status, network_infos
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.agent.model.updates import Forward, TaskKey
from mesos_gpu.agent.model.verdict import Verdict
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import ExecutorId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.shares.gpu_links import cards_label
from mesos_gpu.mesos.tasks import is_terminal


def report(
    state: AgentState, framework: Framework, task: Task, verdict: Verdict, at: Moment, cards: Sequence[int] = ()
) -> list[Action]:
    """Put a status update on its way: logged first, then sent when it is its turn.

    `cards`: the whole GPUs, by index, that it is to say the task has.
    """
    container: Document | None = None
    if task.container_id is not None:
        networks = network_infos(task.info, task.networks, state.identity)
        container = container_status(task.container_id, networks, task.pid)
    made = _status(state, task.key, verdict, at, executor_id=task.executor_id, container=container)
    share = shares.said(state.identity.shared_cards, task.info, verdict.state)
    status = cast(TaskStatus, {**share, **made, **checking.said(task, verdict)})
    return report_status(state, framework, task, naming(status, cards), at)


def naming(status: TaskStatus, cards: Sequence[int]) -> TaskStatus:
    """Return a status with the label that names these whole GPUs, by index; as it is where there are none."""
    if not cards:
        return status
    labels = [*(status.get("labels") or {}).get("labels", []), cards_label(cards)]
    return cast(TaskStatus, {**status, "labels": {"labels": labels}})


def report_status(state: AgentState, framework: Framework, task: Task, status: TaskStatus, at: Moment) -> list[Action]:
    """Put a whole status on its way."""
    task.note(status)
    state.counts[status["state"]] += 1
    actions = log(framework, task, {"type": "UPDATE", "status": status})
    return actions + sending(state, state.streams.add(task.key, status, at.mono_s))


def report_end(state: AgentState, framework: Framework, task: Task, verdict: Verdict, at: Moment) -> list[Action]:
    """Say how a command task ended, or nothing when its framework is gone; its container is forgotten."""
    task.deadline_s = None
    assert task.container_id is not None
    actions = checking.end_checks(task)
    if framework.silenced:
        actions += remove_task(state, framework, task)
    else:
        actions += report(state, framework, task, verdict, at)
    return [*actions, act.Forget(task.container_id)]


def report_absent(state: AgentState, key: TaskKey, verdict: Verdict, at: Moment) -> list[Action]:
    """Say that a task is not here, until that is acknowledged; nothing more while it is said already.

    It is not on disk: a master that asked, and got no answer, asks again when this agent registers again. Source: Mesos
    src/slave/slave.cpp, killTask and reregistered, whose updates of unknown tasks go through the update manager, too.
    """
    if key in state.streams:
        return []
    actions: list[Action] = []
    if state.rebooted:
        # A process that is killed before that is acknowledged is asked again, and sees no restart of the machine.
        actions = [] if state.doubt else [act.SaveDoubt(doubt=True)]
        state.lost.add(key)
        state.doubt = True
    return actions + sending(state, state.streams.add(key, _status(state, key, verdict, at), at.mono_s))


def sending(state: AgentState, forwards: list[Forward]) -> list[Action]:
    """Return what sends these updates; the tasks take note of which one the master was told last."""
    for forward in forwards:
        task = state.frameworks.task(forward.key)
        if task is not None:
            task.forwarded_state, task.forwarded_uuid = forward.status["state"], forward.status["uuid"]
    return list(forwards)


def log(framework: Framework, task: Task, record: Document) -> list[Action]:
    """Return what writes a record into the task's log, if there is to be one.

    Its end lasts, and so do acknowledgements from then on: else what was before it would be told again after it.
    """
    if not framework.checkpoint or task.container_id is None:
        return []
    executor = task.executor_id if task.hosted else None
    return [act.Log(task.key, task.container_id, record, executor, lasting=is_terminal(task.state))]


def close(framework: Framework, task: Task) -> list[Action]:
    """Return what marks the run of a command task complete on the disk."""
    if not framework.checkpoint or task.container_id is None or task.hosted:
        return []
    return [act.Close(task.key, task.container_id)]


def remove_task(state: AgentState, framework: Framework, task: Task) -> list[Action]:
    """Forget a task that everyone knows the end of; its framework too, when that was its last."""
    state.streams.forget(task.key)
    state.frameworks.remove_task(framework, task)
    return [*close(framework, task), *discard(state, framework, task)]


def discard(state: AgentState, framework: Framework, over: Task | Executor) -> list[Action]:
    """Have what a run left on the disk collected; of a task whose executor continues, what was written down of it."""
    agent_id = state.identity.agent_id
    if isinstance(over, Task) and over.hosted:
        on_disk = over.container_id is not None and framework.checkpoint
        return [act.Discard((collecting.of_task(agent_id, over),))] if on_disk else []
    paths = collecting.of_run(agent_id, framework, over)
    return [act.Discard(paths)] if paths else []


def _status(
    state: AgentState,
    key: TaskKey,
    verdict: Verdict,
    at: Moment,
    *,
    executor_id: ExecutorId | None = None,
    container: Document | None = None,
) -> TaskStatus:
    return make_status(
        verdict,
        task_id=key.task,
        agent_id=state.identity.agent_id,
        executor_id=executor_id,
        uuid=state.ids.uuid(),
        wall_s=at.wall_s,
        container=container,
    )
