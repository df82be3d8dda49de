"""What the master wants, as the agent decides it: tasks run, killed, asked after; updates acknowledged. Pure.

Source: Mesos src/slave/slave.cpp.
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import executor_steps, outcomes, reporting
from mesos_gpu.agent.decisions.ending import end_task, silence_framework
from mesos_gpu.agent.decisions.starting import start_command_task, start_hosted
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Stage
from mesos_gpu.agent.model.paths import is_path_safe
from mesos_gpu.agent.model.tasks import Fate
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.mesos.moment import Moment


def handle(state: AgentState, event: ev.FromMaster, at: Moment) -> list[Action]:
    """Take what the master says, or that it is there, or gone."""
    match event:
        case ev.RunTask():
            return _run(state, event, at)
        case ev.KillTask():
            return _kill(state, event, at)
        case ev.ShutdownFramework():
            return silence_framework(state, event.framework, at)
        case ev.ShutdownAgent():
            return _shutdown(state, event.why, at)
        case ev.Drain():
            return _drain(state, event, at)
        case ev.UpdateFramework():
            return _update_framework(state, event, at)
        case ev.Acknowledged():
            return _acknowledged(state, event, at)
        case ev.Reconcile():
            return _reconcile(state, event, at)
        case ev.FrameworkMessage():
            return _framework_message(state, event)
        case ev.ShutdownExecutor():
            executor = state.frameworks.executor(event.key)
            return [] if executor is None else executor_steps.end_executor(state, executor, at)
        case ev.Registered():
            # Of tasks from before its restart the master asks when it answers the first registration.
            state.rebooted, state.met_master = state.rebooted and not state.met_master, True
            return reporting.sending(state, state.streams.resume(at.mono_s))
        case ev.Disconnected():
            state.streams.pause()
            return []
        case _:
            assert_never(event)


def _run(state: AgentState, event: ev.RunTask, at: Moment) -> list[Action]:
    if state.departure.stopping is not None or not event.tasks:
        return []
    framework_id = event.framework["id"]["value"]
    framework = state.frameworks.active.get(framework_id)
    if not is_path_safe(framework_id) or (framework is not None and framework.silenced):
        return []
    actions: list[Action] = []
    moved = framework is not None and not event.group and framework.pid != event.pid  # the message of a group has none
    if framework is None or framework.info != event.framework or moved:
        framework = state.frameworks.enter(event.framework)
        framework.pid = framework.pid if event.group else event.pid
        if framework.checkpoint:
            actions.append(act.SaveFramework(framework_id, framework.info, framework.pid))
    for info in event.tasks:
        if info["task_id"]["value"] not in framework.tasks:
            # It was said not to be here, perhaps; that is about one before it.
            state.streams.forget(TaskKey(framework_id, info["task_id"]["value"]))
    refused = outcomes.refused_run(
        event,
        framework,
        resource_version=state.resource_version,
        draining=state.departure.drain is not None,
        acls=state.identity.acls,
        exits=state.identity.exits,
    )
    if event.group or "executor" in event.tasks[0]:
        return actions + start_hosted(state, framework, event, refused, at)
    for info in event.tasks:
        if info["task_id"]["value"] not in framework.tasks:
            verdict = refused or outcomes.refused_task(state.identity, info)
            actions += start_command_task(state, framework, info, verdict, at)
    return actions


def _kill(state: AgentState, event: ev.KillTask, at: Moment) -> list[Action]:
    framework = state.frameworks.active.get(event.key.framework)
    if framework is None or framework.silenced:
        return []  # the framework knows: it has been torn down
    task = framework.tasks.get(event.key.task)
    if task is not None:
        return end_task(state, framework, task, Fate.KILLED, at, asked_grace_s=event.grace_s)
    aware = framework.can("PARTITION_AWARE")
    past = state.frameworks.past_task(event.key)
    verdict = outcomes.not_here(past, partition_aware=aware, reason="REASON_TASK_UNKNOWN", rebooted=state.rebooted)
    return reporting.report_absent(state, event.key, verdict, at)


def _shutdown(state: AgentState, why: str, at: Moment) -> list[Action]:
    state.departure.stopping = state.departure.stopping or why
    return [action for framework in list(state.frameworks.active) for action in silence_framework(state, framework, at)]


def _drain(state: AgentState, event: ev.Drain, at: Moment) -> list[Action]:
    state.departure.drain = event
    actions: list[Action] = [act.SaveDrain(event)]
    for framework in list(state.frameworks.active.values()):
        for task in list(framework.tasks.values()):
            task.reason, task.gone = "REASON_AGENT_DRAINING", event.gone
            actions += end_task(state, framework, task, Fate.KILLED, at)
    return actions


def _update_framework(state: AgentState, event: ev.UpdateFramework, at: Moment) -> list[Action]:
    framework = state.frameworks.active.get(event.framework)
    if framework is None or framework.silenced:
        return []  # what it runs is ending, and is nobody else's
    actions: list[Action] = []
    moved = framework.pid != event.pid
    framework.pid = event.pid
    if event.info is not None:
        state.frameworks.enter(event.info)
    if framework.checkpoint and (moved or event.info is not None):
        actions.append(act.SaveFramework(event.framework, framework.info, framework.pid))
    return actions + reporting.sending(state, state.streams.resend(event.framework, at.mono_s))


def _acknowledged(state: AgentState, event: ev.Acknowledged, at: Moment) -> list[Action]:
    framework = state.frameworks.active.get(event.key.framework)
    task = None if framework is None else framework.tasks.get(event.key.task)
    if not state.streams.expects(event.key, event.uuid):
        return []
    if framework is None or task is None:
        forwards, _ = state.streams.acknowledge(event.key, event.uuid, at.mono_s)  # of a task that is not here
        return reporting.sending(state, forwards)
    actions = reporting.log(framework, task, {"type": "ACK", "uuid": event.uuid})
    forwards, done = state.streams.acknowledge(event.key, event.uuid, at.mono_s)
    actions += reporting.sending(state, forwards)
    if not done:
        return actions
    executor = framework.executors.get(task.executor_id) if task.hosted else None
    actions += reporting.remove_task(state, framework, task)
    return actions + ([] if executor is None else executor_steps.remove_if_done(state, framework, executor))


def _reconcile(state: AgentState, event: ev.Reconcile, at: Moment) -> list[Action]:
    if state.frameworks.task(event.key) is not None:
        return []  # launched while the answer was on its way
    past = state.frameworks.past_task(event.key)
    aware, rebooted = event.partition_aware, state.rebooted
    verdict = outcomes.not_here(past, partition_aware=aware, reason="REASON_RECONCILIATION", rebooted=rebooted)
    return reporting.report_absent(state, event.key, verdict, at)


def _framework_message(state: AgentState, event: ev.FrameworkMessage) -> list[Action]:
    executor = state.frameworks.executor(event.key)
    framework = state.frameworks.active.get(event.key.framework)
    is_strange = event.pid is not None and (framework is None or framework.pid != event.pid)
    if executor is None or executor.stage is not Stage.RUNNING or is_strange:
        state.counts["invalid_framework_messages"] += 1
        return []
    state.counts["valid_framework_messages"] += 1
    return [act.ToExecutor(event.key, {"type": "MESSAGE", "message": {"data": event.data}})]
