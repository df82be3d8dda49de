"""The agent's decisions about tasks: an event in, actions out, over the books of `AgentState`. Pure.

It plays the command executor of Mesos as well: STARTING goes out while the container is being launched, RUNNING once
it runs, and the terminal update when the container is gone and what it held is free again.
Source: Mesos src/slave/slave.cpp, src/launcher/executor.cpp.
"""

from __future__ import annotations

from typing_extensions import assert_never

from mesos_gpu.agent.decisions import from_containers, from_executors, from_master, outcomes, reporting
from mesos_gpu.agent.decisions.collecting import of_framework
from mesos_gpu.agent.decisions.ending import end_task
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.actions import Action
from mesos_gpu.agent.model.executors import Stage, Turn
from mesos_gpu.agent.model.tasks import Fate
from mesos_gpu.mesos.moment import Moment


def handle(state: AgentState, event: ev.Event, at: Moment) -> list[Action]:
    """Take an event into the books and return what is to be done about it, in order."""
    actions = _decide(state, event, at)
    if state.doubt and state.met_master and isinstance(event, (ev.Acknowledged, ev.Tick)):
        actions += _end_doubt(state)
    frameworks, departure = state.frameworks, state.departure
    if frameworks.newly_completed:
        gone = [framework_id for framework_id in frameworks.newly_completed if framework_id not in frameworks.active]
        actions += [act.Discard((of_framework(state.identity.agent_id, framework_id),)) for framework_id in gone]
        frameworks.newly_completed.clear()
    if departure.drain is not None and not frameworks.active:
        departure.drain = None
        actions.append(act.SaveDrain(None))
    if departure.stopping is not None and not frameworks.active and not departure.stopped:
        departure.stopped = True
        actions.append(act.Stop(departure.stopping))
    return actions


def _decide(state: AgentState, event: ev.Event, at: Moment) -> list[Action]:
    if isinstance(event, ev.FromMaster):
        return from_master.handle(state, event, at)
    if isinstance(event, ev.FromContainers):
        return from_containers.handle(state, event, at)
    if isinstance(event, ev.FromExecutor):
        return from_executors.handle(state, event, at)
    match event:
        case ev.Collected():
            state.frameworks.note_collected(f"{state.identity.work_dir}/{event.path}")
            return []
        case ev.Tick():
            return _tick(state, at)
        case _:
            assert_never(event)


def _end_doubt(state: AgentState) -> list[Action]:
    """Forget that the machine was restarted, once all is acknowledged that was said to be lost with it."""
    if any(key in state.streams for key in state.lost):
        return []
    state.doubt, state.lost = False, set()
    return [act.SaveDoubt(doubt=False)]


def _tick(state: AgentState, at: Moment) -> list[Action]:
    actions = [*reporting.sending(state, state.streams.retry(at.mono_s)), *_executors_due(state, at)]
    for framework in list(state.frameworks.active.values()):
        for task in list(framework.tasks.values()):
            if task.deadline_s is not None and task.deadline_s <= at.mono_s:
                task.deadline_s = None
                actions += end_task(state, framework, task, Fate.TIMED_OUT, at)
    return actions


def _executors_due(state: AgentState, at: Moment) -> list[Action]:
    """End the containers of executors that did not subscribe, or end, in time (registerExecutorTimeout)."""
    actions: list[Action] = []
    for executor in state.frameworks.executors():
        if executor.deadline_s is None or executor.deadline_s > at.mono_s:
            continue
        executor.deadline_s = None
        if executor.stage is Stage.REGISTERING:
            framework = state.frameworks.active[executor.key.framework]
            executor.verdict = outcomes.not_subscribed(framework, executor, state.patience)
            executor.turn(Turn.END_ASKED)
        actions.append(act.Kill(executor.key, executor.container_id, 0.0))
    return actions
