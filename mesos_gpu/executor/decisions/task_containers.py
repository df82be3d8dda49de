"""The life of a task and its nested container: launched, checked, killed, ended; its group ends with it. Pure.

Source: Mesos src/launcher/default_executor.cpp (launchGroup, waited, kill, taskHealthUpdated).
"""

from __future__ import annotations

from mesos_gpu.errors import BadInput
from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions.events import Action, Document
from mesos_gpu.executor.decisions.reporting import report
from mesos_gpu.executor.decisions.state import Container, ExecutorState, Why
from mesos_gpu.executor.decisions.statuses import how_it_ended, terminal_status
from mesos_gpu.mesos.checks import CheckNews, answered, asked, begin, plans_of
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.moment import Moment

SIGTERM, SIGKILL = 15, 9
KILL_GRACE_S = 3.0


def launch_group(state: ExecutorState, tasks: tuple[TaskInfo, ...], at: Moment) -> list[Action]:
    """Launch the containers of a group's tasks; each is said to be starting first."""
    if state.ending.shutting_down:
        return []
    state.ending.ever_launched = True
    state.groups += 1
    actions: list[Action] = []
    group = [Container(state.new_id(), task, state.groups) for task in tasks]
    for container in group:
        state.containers[container.container_id] = container
        state.unacknowledged.tasks[container.task_id] = container.task
        actions += report(state, container, "TASK_STARTING", at)
    for container in group:
        actions += [ev.LinkSandbox(container.task_id, container.container_id), launch(container)]
    return actions


def launch(container: Container) -> Action:
    """Return what launches the container of a task."""
    environment = {}
    roles = (r.get("allocation_info", {}).get("role") for r in container.task.get("resources", ()))
    role = next((role for role in roles if role is not None), None)
    if role is not None:
        environment["MESOS_ALLOCATION_ROLE"] = role
    return ev.LaunchContainer(container.container_id, container.task, environment)


def launched(state: ExecutorState, container_id: ContainerId, at: Moment) -> list[Action]:
    """Wait for a container that runs, begin its checks, and say that its task runs."""
    container = state.containers.get(container_id)
    if container is None or container.launched:
        return []
    container.launched = True
    actions: list[Action] = [ev.WaitContainer(container_id)]
    limit = container.task.get("max_completion_time")
    if limit is not None:
        container.deadline_s = at.mono_s + int(limit["nanoseconds"]) / 1e9
    if container.why is not None:  # killed while it was being launched
        return [*actions, *_signal(container, at)]
    try:
        plans = plans_of(container.task)
    except BadInput as error:
        actions += report(state, container, "TASK_RUNNING", at, message=str(error))
        return actions + kill(state, container, Why.KILLED, at, asked_s=0.0)
    container.courses = [begin(plan, at.mono_s) for plan in plans]
    return actions + report(state, container, "TASK_RUNNING", at)


def launch_failed(state: ExecutorState, container_id: ContainerId, why: str, at: Moment) -> list[Action]:
    """Say that a task could not be launched; the others of its group are killed."""
    container = state.containers.pop(container_id, None)
    if container is None:
        return []
    if container.why is Why.KILLED:
        actions = report(state, container, "TASK_KILLED", at, message="Killed before its container ran")
    else:
        reason, message = "REASON_CONTAINER_LAUNCH_FAILED", f"Failed to launch container: {why}"
        actions = report(state, container, "TASK_FAILED", at, message=message, reason=reason)
    return actions + _kill_group(state, container, at)


def ended(state: ExecutorState, container_id: ContainerId, end: Document, at: Moment) -> list[Action]:
    """Say how a task ended; unless it ended well, the others of its group are killed."""
    container = state.containers.pop(container_id, None)
    if container is None:
        return []
    timed_out = container.why is Why.TIMED_OUT
    task_state, extra = terminal_status(end, killed=container.why is not None, timed_out=timed_out)
    message = end.get("message") or how_it_ended(end)
    if message is not None:
        extra["message"] = message
    if container.why is Why.UNHEALTHY:
        extra["healthy"] = False
    actions = report(state, container, task_state, at, **extra)
    return actions + ([] if task_state == "TASK_FINISHED" else _kill_group(state, container, at))


def kill(
    state: ExecutorState,
    container: Container,
    why: Why,
    at: Moment,
    *,
    asked_s: float | None = None,
    most_s: float | None = None,
) -> list[Action]:
    """Have a task end; asking again can only shorten its grace."""
    policy = (container.task.get("kill_policy") or {}).get("grace_period")
    own_s = KILL_GRACE_S if policy is None else max(0.0, int(policy["nanoseconds"]) / 1e9)
    grace_s = own_s if asked_s is None else asked_s
    grace_s = grace_s if most_s is None else min(grace_s, most_s)
    first = container.why is None
    container.why = container.why or why
    container.courses, container.deadline_s = [], None
    kill_at_s = at.mono_s + grace_s
    if container.kill_at_s is None or kill_at_s < container.kill_at_s:
        container.kill_at_s = kill_at_s
    if not first:
        return tick(state, container, at)
    actions: list[Action] = []
    capabilities = (state.agent.info.get("framework_info") or {}).get("capabilities", ())
    wants_killing = any(capability.get("type") == "TASK_KILLING_STATE" for capability in capabilities)
    if wants_killing and container.launched and why is Why.KILLED:
        actions += report(state, container, "TASK_KILLING", at)
    if container.launched:
        return actions + _signal(container, at)
    # A pull may take hours; one that is under way is given up for a SIGKILL.
    image = ((container.task.get("container") or {}).get("mesos") or {}).get("image")
    return actions + ([] if image is None else [ev.SignalContainer(container.container_id, SIGKILL)])


def tick(state: ExecutorState, container: Container, at: Moment) -> list[Action]:
    """Do what is due for a task: SIGKILL after its grace, its end after its time, its checks."""
    actions: list[Action] = []
    if container.launched and container.kill_at_s is not None and container.kill_at_s <= at.mono_s:
        actions += _signal(container, at)
    if container.deadline_s is not None and container.deadline_s <= at.mono_s:
        actions += kill(state, container, Why.TIMED_OUT, at, asked_s=0.0)
    for number, course in enumerate(container.courses):
        if course.due_s is not None and course.due_s <= at.mono_s:
            container.courses[number] = asked(course)
            actions.append(ev.Look(container.container_id, number, course.plan.probe))
    return actions


def probed(state: ExecutorState, event: ev.Probed, at: Moment) -> list[Action]:
    """Take what a check found; a health check may have failed often enough to end the task."""
    container = state.containers.get(event.container_id)
    if container is None or event.check >= len(container.courses) or event.result is None:
        return []
    container.courses[event.check], news = answered(container.courses[event.check], event.result, at.mono_s)
    if news is None:
        return []
    if isinstance(news, CheckNews):
        container.check_status = news.status
        return report(state, container, "TASK_RUNNING", at, reason="REASON_TASK_CHECK_STATUS_UPDATED")
    container.healthy = news.healthy
    actions = report(state, container, "TASK_RUNNING", at, reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED")
    return actions + (kill(state, container, Why.UNHEALTHY, at) if news.kill else [])


def _kill_group(state: ExecutorState, ended: Container, at: Moment) -> list[Action]:
    siblings = [container for container in state.containers.values() if container.group == ended.group]
    return [action for container in siblings for action in kill(state, container, Why.KILLED, at)]


def _signal(container: Container, at: Moment) -> list[Action]:
    assert container.kill_at_s is not None
    if container.kill_at_s <= at.mono_s:
        container.kill_at_s = None
        return [ev.SignalContainer(container.container_id, SIGKILL)]
    return [ev.SignalContainer(container.container_id, SIGTERM)]
